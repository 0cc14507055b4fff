"""GEMMs of mma.sp: their operations after the PTX ISA, plans, faults with their remedies, and what the projects contain."""

import json

import numpy as np
import pytest

from mmagen.core.errors import SpecFaults
from mmagen.emulate.arithmetic.fragments import fragment_of
from mmagen.emulate.arithmetic.mma import parse
from mmagen.families import plan
from mmagen.families.peak.loops import refusal
from mmagen.generate.render import render
from mmagen.inspect.operations import page
from mmagen.inspect.page import inspect
from mmagen.mma.atoms import find_atom
from mmagen.mma.catalogue import known, operations
from mmagen.mma.sparse_atoms import SparseMma, find_sparse, sparse_name
from mmagen.mma.sparse_forms import FORMS
from mmagen.mma.sparsity import metadata_words
from mmagen.spec.load import load
from tests.support.mutations import SPECS

BF16 = "SM80_SPARSE_16x8x32_F32BF16BF16F32_TN"
S8 = "SM80_SPARSE_16x8x64_S32S8S8S32_TN"
TF32 = "SM80_SPARSE_16x8x16_F32TF32TF32F32_TN"


def planned(atom=BF16, **keys):
    document = {"mmagen": 1, "name": "it", "kernel": "gemm", "atom": atom, "tile": [64, 64, 128], **keys}
    return plan(load(json.dumps(document), "it.yaml").spec)


def faults(atom=BF16, **keys):
    with pytest.raises(SpecFaults) as caught:
        planned(atom, **keys)
    return {".".join(map(str, fault.key)): fault for fault in caught.value.faults}


@pytest.mark.parametrize("name", FORMS)
def test_registers_and_layouts_are_those_of_the_ptx_manual(name):
    form, operation = FORMS[name], known(name)
    of = parse(tuple(form.opcode.split(".")[1:]))  # raises where PTX has no such instruction
    assert (of.m, of.n, of.k) == operation.shape and of.sparse and of.saturate == form.saturate
    for letter, layout in zip("CABC", of.layouts, strict=True):
        fragment = fragment_of(*layout)
        assert fragment.registers == operation.registers[letter].count
        table = np.array(operation.layout(letter).table())
        rows = operation.layout(letter).rows
        if letter == "A":  # of a group of neighbours the owner of what is stored of it
            group, kept = (2, 1) if form.sparsity == "1:2" else (4, 2)
            stored = {(int(r), int(c)) for r, c in zip(fragment.row[5], fragment.column[5] // kept, strict=True)}
            assert {(int(e) % rows, int(e) // rows // group) for e in table[5]} == stored
        elif letter == "B":
            assert (table % rows == fragment.column).all() and (table // rows == fragment.row).all()
        else:
            assert (table % rows == fragment.row).all() and (table // rows == fragment.column).all()


def test_the_operations_are_no_atoms_of_dense_kernels_and_not_those_of_cutlass():
    assert len(FORMS) == 28 and not set(FORMS) & {one.name for one in operations()}
    for name in FORMS:
        assert find_atom(name) is None and isinstance(find_sparse(name), SparseMma)
    for kernel in ("micro", "ownership", "peak"):
        with pytest.raises(SpecFaults) as caught:
            plan(load(json.dumps({"mmagen": 1, "name": "it", "kernel": kernel, "atom": BF16}), "it.yaml").spec)
        assert caught.value.faults[0].change == {("kernel",): "gemm"}


@pytest.mark.parametrize("name", FORMS)
def test_every_operation_is_planned(name):
    atom = find_sparse(name)
    for depth in atom.depths:
        made = planned(name, tile=[64, 64, depth])
        a, b = made.operands
        assert (a.extent_k, b.extent_k) == (depth // 2, depth)
        assert a.bytes_per_stage == 64 * a.extent_k * a.element.bytes + 512 * depth // atom.block_k
    assert made.arguments.tensors[0].name == "metadata_a"
    config = render(made)["include/it/config.cuh"].decode()
    assert FORMS[name].opcode in config and "MainloopSparseMultistage<Config>" in config


@pytest.mark.parametrize(
    ("of_mma", "of_wgmma"),
    [(BF16, "64x8x32_F32BF16BF16_SS"), (TF32, "64x8x16_F32TF32TF32_SS_TN"), (S8, "64x8x64_S32U8U8_SS_TN")],
)
def test_the_format_is_that_of_sparse_wgmma(of_mma, of_wgmma):
    mma, wgmma = find_sparse(of_mma), find_sparse(f"SM90::GMMA::SPARSE::GMMA_{of_wgmma}")
    assert metadata_words(mma, 65, 300) == metadata_words(wgmma, 65, 300)
    assert (mma.block_k, mma.group, mma.kept) == (wgmma.block_k, wgmma.group, wgmma.kept)


@pytest.mark.parametrize(("layout", "b"), [("TN", "K"), ("NN", "K"), ("TT", "N"), ("NT", "N")])
def test_every_layout_is_planned(layout, b):
    for name in (BF16, S8, TF32):
        made = planned(name, layout=layout)
        assert (made.operand("A").major, made.operand("B").major) == ("K", b)


def test_tiles_of_parts_of_blocks_are_refused():
    assert faults(tile=[64, 64, 32])["tile.2"].change == {("tile", 2): 64}
    assert faults(S8, tile=[64, 64, 64])["tile.2"].change == {("tile", 2): 128}
    assert faults(tile=[96, 64, 64])["tile.0"].change == {("tile", 0): 64}
    found = faults(tile=[32, 64, 48], arch=["sm_75"])
    assert set(found) == {"tile.0", "tile.2", "arch.0"}


def test_an_operation_by_name_is_described_and_has_no_loop():
    assert "CUTLASS has none" in page(known(BF16)) and known(BF16).opcode in page(known(BF16))
    assert "CUTLASS has no" in refusal(known(BF16))


def test_layouts_that_would_move_metadata_are_refused():
    assert faults(atoms_layout=[1, 1, 2])["atoms_layout"].change == {("atoms_layout",): [1, 1, 1]}
    assert faults(permutation=["(16,2):(1,16)", 16, 64])["permutation.2"].change == {("permutation", 2): None}
    assert "permutation.0" in faults(permutation=["(8,2,2):(1,16,8)", 16, None])
    assert planned(permutation=[32, "(8,2):(1,8)", 32])


def test_the_key_sparse_says_what_the_atom_has():
    assert planned(sparse="2:4").spec.sparse == "2:4"
    assert faults(sparse="1:2")["sparse"].change == {("sparse",): "2:4"}
    assert faults(TF32, sparse="2:4")["sparse"].change == {("sparse",): "1:2"}
    assert faults("SM80_16x8x16_F32BF16BF16F32_TN", sparse="2:4")["sparse"].change == {("atom",): BF16}
    assert faults("SM80_8x8x4_F64F64F64F64_TN", sparse="2:4", tile=[64, 64, 16])["sparse"].remedy.startswith("omit it")
    assert sparse_name("SM89_16x8x32_F32E4M3E5M2F32_TN") == "SM89_SPARSE_16x8x64_F32E4M3E5M2F32_TN"


def test_keys_of_wgmma_are_refused():
    assert set(faults(cluster=[2, 1], scale={"a": "tensor"})) >= {"cluster", "scale"}


def test_the_page_counts_what_is_stored():
    page = inspect(plan(load((SPECS / "sm80_gemm_sparse_bf16.yaml").read_bytes(), "x").spec))
    assert "Sparse A" in page and "2 of each 4 neighbours" in page
    assert "4 words of metadata per thread and stage, each for two instructions" in page
    loads = [line for line in page.splitlines() if line.startswith("  load ")]
    assert len(loads) == 2 and all("no bank conflicts" in line for line in loads)
