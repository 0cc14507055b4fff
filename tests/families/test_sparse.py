"""Sparse wgmma GEMMs: plans, faults with their remedies, and what the projects contain."""

import json

import pytest

from mmagen.core.errors import SpecFaults
from mmagen.families import family_of, plan
from mmagen.families.reading import read
from mmagen.generate.render import render
from mmagen.inspect.page import inspect
from mmagen.mma import catalogue
from mmagen.mma.sparse_atoms import find_sparse
from mmagen.spec.load import load
from tests.support.mutations import SPECS

PREFIX = "SM90::GMMA::SPARSE::GMMA_"
KINDS = {
    "f16": ("64x64x32_F32F16F16_SS", 64),
    "f16_in_f16": ("64x64x32_F16F16F16_SS", 64),
    "bf16": ("64x64x32_F32BF16BF16_SS", 64),
    "tf32": ("64x64x16_F32TF32TF32_SS_TN", 32),
    "e4m3": ("64x64x64_F32E4M3E4M3_SS_TN", 64),
    "e5m2": ("64x64x64_F32E5M2E5M2_SS_TN", 64),
    "e4m3_e5m2": ("64x64x64_F16E4M3E5M2_SS_TN", 64),
    "s8": ("64x64x64_S32S8S8_SS_TN", 64),
    "u8": ("64x64x64_S32U8U8_SS_TN", 64),
    "s8_u8": ("64x64x64_S32S8U8_SS_TN", 64),
}
BF16 = PREFIX + KINDS["bf16"][0]


def planned(atom=BF16, **keys):
    tile = keys.pop("tile", [64, 64, 64])
    document = {"mmagen": 1, "name": "it", "kernel": "gemm", "atom": atom, "tile": tile, **keys}
    return plan(load(json.dumps(document), "it.yaml").spec)


def faults(atom=BF16, **keys):
    with pytest.raises(SpecFaults) as caught:
        planned(atom, **keys)
    return {".".join(map(str, fault.key)): fault for fault in caught.value.faults}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_every_type_is_planned(kind, blocks):
    name, block = KINDS[kind]
    made = planned(PREFIX + name, tile=[64, 64, block * blocks])
    a, b = made.operands
    assert (a.extent_k, b.extent_k) == (block * blocks // 2, block * blocks)
    assert a.bytes_per_stage == 64 * a.extent_k * a.element.bytes + 512 * blocks
    assert made.arguments.tensors[0].name == "metadata_a"
    files = render(made)
    assert b"Sm90MainloopSparse<Config>" in files["include/it/config.cuh"]
    assert "src/it_unaligned.cu" not in files and "include/mmagen/sm90_unaligned.cuh" not in files


@pytest.mark.parametrize(("layout", "b"), [("TN", "K"), ("NN", "K"), ("TT", "N"), ("NT", "N")])
def test_the_compressed_a_is_k_contiguous_whatever_a_was(layout, b):
    made = planned(layout=layout)
    assert (made.operand("A").major, made.operand("B").major) == ("K", b)


@pytest.mark.parametrize("kind", ["tf32", "e4m3", "s8"])
def test_types_of_8_and_32_bits_take_b_with_k_contiguous_only(kind):
    name, block = KINDS[kind]
    planned(PREFIX + name, layout="NN", tile=[64, 64, block])
    found = faults(PREFIX + name, layout="NT", tile=[64, 64, block])
    assert found["layout"].change == {("layout",): "NN"}


def test_the_tile_has_whole_blocks_of_metadata():
    assert faults(tile=[64, 64, 32])["tile.2"].change == {("tile",): [64, 64, 64]}
    assert faults(tile=[64, 64, 192])["tile.2"].change == {("tile",): [64, 64, 128]}


def test_the_key_sparse_says_what_the_atom_has():
    assert planned(sparse="2:4").spec.sparse == "2:4"
    assert faults(sparse="1:2")["sparse"].change == {("sparse",): "2:4"}
    tf32 = PREFIX + KINDS["tf32"][0]
    assert faults(tf32, sparse="2:4", tile=[64, 64, 32])["sparse"].change == {("sparse",): "1:2"}


def test_a_dense_atom_is_told_its_sparse_counterpart():
    found = faults("SM90_64x64x16_F32BF16BF16_SS", sparse="2:4")
    assert found["sparse"].change == {("atom",): BF16}
    found = faults("SM80_16x8x16_F32F16F16F32_TN", sparse="2:4")
    assert found["sparse"].change == {("atom",): "SM80_SPARSE_16x8x32_F32F16F16F32_TN"}


def test_a_in_registers_and_swapped_operands_are_refused():
    assert faults(BF16.replace("_SS", "_RS"))["atom"].change == {("atom",): BF16}
    assert "dense" in faults(operands="swapped")["operands"].what


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_the_ctas_along_n_share_whole_lines_of_metadata(blocks):
    tile, most = [64, 64, 64 * blocks], 4 * blocks
    if 2 * most > 8:
        assert planned(tile=tile, schedule="pingpong", cluster=[1, 8])
        return
    assert planned(tile=tile, schedule="pingpong", cluster=[1, most])
    found = faults(tile=tile, schedule="pingpong", cluster=[1, 2 * most])
    assert found["cluster.1"].change == {("cluster", 1): most}


def test_the_ratio_needs_no_quotes_in_yaml():
    text = f"mmagen: 1\nname: it\nkernel: gemm\natom: {BF16}\nsparse: 2:4\ntile: [64, 64, 64]\n"
    made, found = read(text, "it.yaml")
    assert made and not found
    _, found = read(text.replace("2:4", "3:4"), "it.yaml")
    assert [one.key for one in found] == [("sparse",)] and found[0].line == 5


def test_problems_whose_rows_tma_cannot_address_are_refused():
    problems = [[64, 64, 60], {"shape": [64, 64, 60], "ld_pad": 4}, {"shape": [8, 8, 64], "offset": 1}]
    assert set(faults(problems=problems)) == {"problems.0", "problems.2"}
    assert "ld_pad 4" in faults(problems=problems[:1])["problems.0"].remedy
    made = planned(problems=problems[1:2])
    assert len([*family_of(made).problem_faults(made, made.problems)]) == 0
    default = planned()
    assert default.problems and not [*family_of(default).problem_faults(default, default.problems)]


def test_every_sparse_atom_is_planned_or_told_another():
    names = [o.name for o in catalogue.operations() if o.kind == "wgmma" and o.sparse]
    for name in names[::37]:
        atom = find_sparse(name)
        if atom is None:
            assert faults(name)["atom"].change
        elif atom.n % 16 == 0:
            planned(name, tile=[64, atom.n, atom.block_k], epilogue={"out": None})


def test_the_page_says_how_a_is_stored():
    page = inspect(plan(load((SPECS / "sm90_gemm_sparse_bf16.yaml").read_bytes(), "x").spec))
    assert "Sparse A" in page and "2 of each 4 neighbours" in page and "1,024 B per stage" in page


def test_other_headers_have_no_statuses_of_sparse_kernels():
    dense = render(plan(load((SPECS / "sm90_gemm_bf16_tn.yaml").read_bytes(), "x").spec))
    header = dense["include/sm90_gemm_bf16_tn/sm90_gemm_bf16_tn.h"]
    assert b"NOT_SPARSE" not in header and not any("sparse" in path for path in dense)
