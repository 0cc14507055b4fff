"""plan of `split` for mma.sync: rules with their remedies, what a call passes, the bound, and what a project has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mmagen.families import family_of, plan
from mmagen.generate.render import render
from mmagen.mma.piece_bounds import drift_of_pieces, path_of_pieces
from mmagen.mma.pieces import PRODUCTS, SplitAtom
from mmagen.plan.devices import DEVICES
from mmagen.spec.load import load
from mmagen.spec.model import Spec
from tests.support.mutations import ODD, SPECS
from tests.support.piece_sums import check_bound
from tests.support.wgmma_specs import faults, planned

X6 = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM80_16x8x16_F32BF16BF16F32_TN",
    "layout": "TN",
    "split": "bf16x6",
    "tile": [128, 128, 32],
    "atoms_layout": [4, 2, 1],
    "stages": 3,
    "epilogue": {"out": "f32"},
}
SPARSE = {"atom": "SM80_SPARSE_16x8x32_F32BF16BF16F32_TN", "sparse": "2:4", "tile": [128, 128, 64], "stages": None}

# rule: (what breaks it, key, part of what, part of remedy, what the remedy says)
RULES = {
    "pieces of f16": (
        {"atom": "SM80_16x8x16_F32F16F16F32_TN"},
        ("atom",),
        "multiplies f16",
        "or omit split",
        {"atom": X6["atom"]},
    ),
    "pieces of f64": (
        {"atom": "SM80_8x8x4_F64F64F64F64_TN", "epilogue": {}},
        ("atom",),
        "sums in f64",
        X6["atom"],
        {"atom": X6["atom"]},
    ),
    "six products in the tensor core": (
        {"accumulation": "fast"},
        ("accumulation",),
        "in f32",
        "precise, or omit it",
        {"accumulation": "precise"},
    ),
    "warps that share K": (
        {"atoms_layout": [4, 1, 2]},
        ("atoms_layout",),
        "do not share K",
        "[4, 1, 1]",
        {"atoms_layout": [4, 1, 1], "tile": [64, 64, 32]},
    ),
    "columns in another order": (
        {"permutation": [None, None, "(8,2):(2,1)"]},
        ("permutation", 2),
        "other elements of K",
        "null, or an extent",
        {"permutation": [None, None, 16]},
    ),
    "too many registers": (
        {"tile": [128, 256, 32], "atoms_layout": [2, 2, 1], "stages": None},
        ("tile",),
        "registers",
        "smaller",
        {"tile": [64, 64, 32]},
    ),
    "a wgmma key": ({"cluster": [2, 1]}, ("cluster",), "requires a wgmma atom", "omit it", {"cluster": None}),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_names_what_would_be_right(name):
    change, key, what, remedy, mends = RULES[name]
    found = {fault.key: fault for fault in faults(X6 | change)}
    assert what in found[key].what and remedy in found[key].remedy
    assert isinstance(planned({**X6, **change, **mends}).atom, SplitAtom)


def test_a_sparse_operation_has_no_pieces():
    found = {fault.key: fault for fault in faults(X6 | SPARSE)}
    assert "a sparse A" in found[("split",)].what and found[("split",)].remedy == "omit it"


def test_a_call_passes_f32_and_no_workspace():
    it = planned(X6)
    assert it.types == "f32 x f32 + f32 -> f32" and it.facts.bytes[:2] == (4, 4) and not it.takes_workspace
    assert it.stage_bytes == (128 + 128) * 32 * 4 and "6 products of 3 bf16 pieces" in it.text.formula
    assert all(not one.smem_copy.matrices for one in it.operands)


@pytest.mark.parametrize(("layout", "elements"), [("TN", (2, 2)), ("NT", (1, 1)), ("NN", (1, 2)), ("TT", (2, 1))])
def test_fragments_are_loaded_without_bank_conflicts(layout, elements):
    """By the pairs of neighbours along K that a thread has in bf16."""
    it = planned(X6 | {"layout": layout})
    assert tuple(one.smem_copy.elements for one in it.operands) == elements
    page = dict(family_of(it).page(it))
    loads = [dict(page[title])["load"] for title in ("Operand A (M,K)", "Operand B (N,K)")]
    assert all(load.endswith("no bank conflicts") for load in loads)


def test_the_sums_of_each_instruction_are_promoted():
    of = planned(X6).accumulation
    assert (of.promoted, of.products, of.turns, of.residue, of.chunk) == (16, 6, 2, 32, 8) and of.of_pieces
    half = planned(X6 | {"atom": "SM80_16x8x8_F32BF16BF16F32_TN", "split": "bf16x3"}).accumulation
    assert (half.promoted, half.products) == (8, 3)


def test_kernels_of_a_library_with_other_k_tiles_share_no_promotion():
    few = {"name": "a", "when": {"m": [1, 64]}, "tile": [128, 128, 16]}
    both = plan(Spec.model_validate(X6 | {"configs": [few, {"name": "b"}]}))
    assert [one.accumulation.residue for one in both.kernels] == [16, 32]
    assert both.accumulation.promoted == both.accumulation.residue == 0
    files = render(both)
    assert b"mmagen::MainloopPieces<Config>" in files["include/g/a.cuh"] and b"kProducts = 6" in files["include/g/b.cuh"]


def test_the_project_splits_in_its_mainloop():
    files = render(planned(X6))
    headers = {path.rsplit("/", 1)[-1] for path in files}
    assert {"bf16_pieces.cuh", "mainloop_pieces.cuh", "mainloop_multistage.cuh"} <= headers and "f32_pieces.cuh" not in headers
    config = files["include/g/config.cuh"].decode()
    assert "kPieceOfA[kProducts] = { 2, 0, 1, 1, 0, 0 };" in config and "kPieceOfB[kProducts] = { 0, 2, 1, 0, 1, 0 };" in config
    assert "SHORT_WORKSPACE" not in files["include/g/g.h"].decode()
    assert "bf16_pieces.cuh" not in {path.rsplit("/", 1)[-1] for path in render(planned(X6 | {"split": None}))}


def test_pages_and_launches_count_the_products():
    it = planned(X6)
    page = dict(dict(family_of(it).page(it))["Pieces of f32"])
    assert page["products"].startswith("2*0, 0*2, 1*1, 1*0, 0*1, 0*0") and page["sums"].startswith("of 16 along K")
    a100 = next(one for one in DEVICES if one.name == "a100")
    rates = [family_of(one).numbers(one, a100, {})[0].per_cycle for one in (it, planned(X6 | {"split": None}))]
    assert rates[0] == rates[1] // 6


@pytest.mark.parametrize("k", [32, 132, 1024, 4100])
@pytest.mark.parametrize("word", PRODUCTS)
def test_the_bound_holds_and_a_missing_product_exceeds_it(word, k):
    check_bound(planned(X6 | {"split": word}).accumulation, word, k)


def test_the_bound_counts_the_k_tile_that_comes_first():
    """Large last k tiles lie in every sum that follows."""
    of = planned(X6).accumulation
    a = np.ones((1, 128))
    _, magnitude, path = path_of_pieces(of, a, a)
    assert path.residue == 32
    _, _, short = path_of_pieces(of, a[:, :100], a[:, :100])
    assert short.residue == 4
    assert drift_of_pieces(of, 128, path, magnitude, True) > drift_of_pieces(
        of, 128, replace(path, residue=0.0), magnitude, True
    )


@pytest.mark.parametrize("name", ["sm80_gemm_f32_bf16x3", "sm80_gemm_f32_bf16x6", "pc4_mma_x6", "pc5_mma_x3"])
def test_specs_of_pieces_are_legal(name):
    path = next(one for one in (SPECS / f"{name}.yaml", ODD / f"{name}.yaml") if one.exists())
    spec = load(path.read_bytes(), path.name).spec
    assert isinstance(spec, Spec) and isinstance(plan(spec).atom, SplitAtom)
