"""plan of `split`: rules with their remedies, what a call passes, and what a kernel of pieces consists of."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.families import family_of, plan
from mmagen.generate.render import render
from mmagen.mma.pieces import PRODUCTS, pieces_of
from mmagen.plan.devices import DEVICES
from mmagen.plan.launch import launch
from mmagen.spec.load import load
from mmagen.spec.model import Problem, Spec
from tests.support.mutations import ODD, SPECS
from tests.support.piece_sums import check_bound
from tests.support.wgmma_specs import LARGE, MMA_SYNC, faults, planned

H200 = next(one for one in DEVICES if one.name == "h200")
X6 = LARGE | {
    "atom": "SM90_64x128x16_F32BF16BF16_SS",
    "tile": [128, 256, 32],
    "cluster": None,
    "split": "bf16x6",
    "epilogue": {"out": "f32"},
}

# rule: (what breaks it, key, part of what, part of remedy, what the remedy says)
RULES = {
    "pieces in registers": (
        {"atom": "SM90_64x128x16_F32BF16BF16_RS"},
        ("atom",),
        "with A in registers",
        "SM90_64x128x16_F32BF16BF16_SS",
        {"atom": "SM90_64x128x16_F32BF16BF16_SS"},
    ),
    "pieces of f16": (
        {"atom": "SM90_64x128x16_F32F16F16_SS"},
        ("atom",),
        "multiplies f16",
        "or omit split",
        {"atom": "SM90_64x128x16_F32BF16BF16_SS"},
    ),
    "six products in the tensor core": (
        {"accumulation": "fast"},
        ("accumulation",),
        "rounds toward zero",
        "precise, or split: bf16x3",
        {"accumulation": None},
    ),
    "groups": ({"grouped": "contiguous"}, ("grouped",), "does not go with split", "omit grouped", {"grouped": None}),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_names_what_would_be_right(name):
    change, key, what, remedy, mends = RULES[name]
    found = {fault.key: fault for fault in faults(X6 | change)}
    assert what in found[key].what and remedy in found[key].remedy
    assert planned({**X6, **change, **mends}).mainloop.pieces


@pytest.mark.parametrize("atom", [MMA_SYNC, {"atom": "SM90_64x128x32_F32E4M3E4M3_SS_TN"}], ids=["mma.sync", "fp8"])
def test_other_operations_have_no_pieces(atom):
    base = atom | {"split": "bf16x3"} if "kernel" in atom else X6 | atom
    assert any("split" in (*fault.key, fault.remedy[:90]) or "omit split" in fault.remedy for fault in faults(base))


def test_each_kernel_of_a_library_has_pieces_by_its_own_k_tiles():
    few = {"name": "few", "when": {"m": [1, 64]}, "tile": [128, 128, 16], "split_k": "auto"}
    one = plan(Spec.model_validate(X6 | {"configs": [few, {"name": "many"}]}))
    own = [kernel.mainloop.pieces for kernel in one.kernels]
    assert [pieces.tile_k for pieces in own] == [16, X6["tile"][2]]
    assert one.facts.most_k == min(pieces.most_k for pieces in own)
    assert one.needs_workspace and one.most_launches == 3
    assert "GEMM, f32 x f32 + f32 by 6 products of 3 bf16 pieces" in one.text.title
    files = render(one)
    assert b"workspace_sm90_pieces<Config>" in files["src/many.cu"] and b"run_sm90_pieces<Config>" in files["src/few.cu"]
    assert b"&g::many::workspace" in files["src/g.cu"]


def test_products_are_the_largest_ones_the_smallest_first():
    for word, most in (("bf16x3", 1), ("bf16x6", 2)):
        sizes = [a + b for a, b in PRODUCTS[word]]
        count = pieces_of(word)
        assert sizes == sorted(sizes, reverse=True) and len({*PRODUCTS[word]}) == len(sizes) == int(word[-1])
        assert {*PRODUCTS[word]} == {(a, b) for a in range(count) for b in range(count) if a + b <= most}


@pytest.mark.parametrize("layout", ["TN", "NT", "NN", "TT"])
@pytest.mark.parametrize("operands", ["in_order", "swapped"])
def test_a_call_has_f32_in_its_own_layout_and_the_kernel_pieces(layout, operands):
    it = planned(X6 | {"layout": layout, "operands": operands})
    assert it.types == "f32 x f32 + f32 -> f32"
    assert [it.operand(letter).major for letter in "AB"] == [it.spec.layout.a_major, it.spec.layout.b_major]
    assert [it.operand(letter).bytes_per_stage for letter in "AB"] == sorted(
        (one.bytes_per_stage for one in it.operands), reverse=operands == "swapped"
    )
    assert all(one.element.word == "bf16" and one.major == "K" and one.extent_k == 3 * 32 for one in it.operands)
    assert it.takes_workspace and it.needs_workspace and not it.copies_operands and it.most_launches == 2
    assert it.facts.bytes[:2] == (4, 4) and it.facts.most_k % 32 == 0


def test_sums_are_promoted_unless_the_spec_says_fast():
    assert planned(X6).accumulation.promoted == 32 and planned(X6).accumulation.products == 6
    fast = planned(X6 | {"split": "bf16x3", "accumulation": "fast"})
    assert not fast.accumulation.promoted and fast.accumulation.products == 3
    plain = "mmagen::Sm90MainloopPieces<Config>"
    assert fast.mainloop.cxx == plain and planned(X6).mainloop.cxx == f"mmagen::Sm90MainloopPromoted<Config, {plain}>"


def test_the_project_has_the_split_and_no_kernel_without_tma():
    files = render(planned(X6))
    headers = {path.rsplit("/", 1)[-1] for path in files}
    assert {"f32_pieces.cuh", "sm90_pieces_launch.cuh", "sm90_mainloop_pieces.cuh"} <= headers
    assert not {"sm90_unaligned.cuh", "operand_copies.cuh"} & headers
    config = files["include/g/config.cuh"].decode()
    assert "kPieceOfA[kProducts] = { 2, 0, 1, 1, 0, 0 };" in config and "kPieceOfB[kProducts] = { 0, 2, 1, 0, 1, 0 };" in config
    assert "SHORT_WORKSPACE = 74" in files["include/g/g.h"].decode()
    assert "SHORT_WORKSPACE" not in render(planned(LARGE))["include/g/g.h"].decode()


@pytest.mark.parametrize("k", [32, 1024, 8192])
@pytest.mark.parametrize("word", PRODUCTS)
def test_the_bound_holds_and_a_missing_product_exceeds_it(word, k):
    assert np.all(check_bound(planned(X6 | {"split": word}).accumulation, word, k) < np.sqrt(k) / 8)


@pytest.mark.parametrize("path", [*SPECS.glob("sm90_gemm_f32_*.yaml"), *ODD.glob("pc[1-3]_*.yaml")], ids=lambda path: path.stem)
def test_specs_of_pieces_are_legal(path):
    spec = load(path.read_bytes(), path.name).spec
    assert isinstance(spec, Spec) and plan(spec).mainloop.pieces


def test_launches_count_the_products_and_the_pieces():
    """Least times: six products of the instruction for each of two elements; A is read, its pieces are written and read."""
    it, plain = planned(X6), planned(X6 | {"split": None, "layout": "TN"})
    problem = Problem(shape=(256, 512, 1024))
    of = launch(it, problem, H200, 1)
    operands = (256 + 512) * 1024
    assert of.dram == operands * (4 + 6 + 6) + 256 * 512 * 4
    assert launch(plain, problem, H200, 1).dram == operands * 2 + 256 * 512 * 4
    rates = [family_of(one).numbers(one, H200, {})[0].per_cycle for one in (it, plain)]
    assert rates[0] == rates[1] // 6
    page = dict(next(rows for title, rows in family_of(it).page(it) if title == "Pieces of f32"))
    assert page["products"].startswith("2*0, 0*2, 1*1, 1*0, 0*1, 0*0")
