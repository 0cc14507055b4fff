"""conflicts: textbook bank conflicts come out as the textbook says, and no spec of the sm_80 family has any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mmagen.families import plan
from mmagen.plan import bank_conflicts as conflicts
from mmagen.plan.model import Swizzle
from mmagen.plan.plans import ProductPlan
from mmagen.spec.load import load
from mmagen.spec.model import Spec

FOLDER = Path(__file__).resolve().parents[2] / "specs"
SPECS = [
    path
    for path in sorted(FOLDER.glob("*.yaml"))
    # Those others have no shared memory, or one that TMA and wgmma access in their own way.
    if not any(word in path.read_text() for word in ("kernel: ownership", "kernel: peak", "atom: SM90", "micro_s4"))
]


def planned(path: Path) -> ProductPlan:
    return plan(load(path.read_bytes(), path.name).spec)


def classic(**changes) -> ProductPlan:
    return plan(
        Spec.model_validate(
            {
                "mmagen": 1,
                "name": "g",
                "kernel": "gemm",
                "atom": "SM80_16x8x16_F32F16F16F32_TN",
                "tile": [128, 128, 64],
                "atoms_layout": [2, 2, 1],
                "permutation": [32, 32, 16],
                **changes,
            }
        )
    )


def test_ldmatrix_on_lines_of_128_bytes():
    """Eight rows 128 bytes apart share four banks; Swizzle<3,3,3> spreads them over all 32."""
    it = classic()
    assert (it.operand("A").line, it.operand("A").swizzle) == (64, Swizzle(3, 3, 3))
    assert conflicts.load(it, it.operand("A")).ways == conflicts.load(it, it.operand("B")).ways == 1
    plain = replace(it.operand("A"), swizzle=Swizzle(0, 3, 3))
    assert conflicts.load(it, plain).ways == 8
    half = replace(it.operand("A"), swizzle=Swizzle(2, 3, 3))
    assert conflicts.load(it, half).ways == 2


def test_ldmatrix_on_lines_of_64_bytes():
    it = classic(tile=[128, 128, 32])
    assert conflicts.load(it, replace(it.operand("A"), swizzle=Swizzle(0, 3, 3))).ways == 4
    assert conflicts.load(it, it.operand("A")).ways == 1


def test_transposed_ldmatrix():
    it = classic(layout="NT")
    assert it.operand("A").smem_copy.transposed
    assert conflicts.load(it, it.operand("A")).ways == 1
    assert conflicts.load(it, replace(it.operand("A"), swizzle=Swizzle(0, 3, 3))).ways == 8


def test_a_copy_along_lines_needs_no_swizzle():
    it = classic()
    for operand in (it.operand("A"), replace(it.operand("A"), swizzle=Swizzle(0, 3, 3))):
        assert conflicts.copy(operand, operand.copy_wide).ways == 1
    across = replace(it.operand("A").copy_wide, along=1, across=128)
    assert conflicts.copy(replace(it.operand("A"), swizzle=Swizzle(0, 3, 3)), across).ways == 8


def test_wide_copies_of_a_thread():
    """dp4a: 16 rows of 4 bytes, 32 bytes apart, four times a k block: 4-way, which one bit of swizzle halves. The other
    operand's warp needs two rows only. Volta: 4 f16 are 8 bytes, so a half warp at a time, twice for each of two blocks."""
    dp4a, volta = planned(FOLDER / "sm61_gemm_s8.yaml"), planned(FOLDER / "sm70_gemm_f16.yaml")
    assert [conflicts.load(dp4a, one) for one in dp4a.operands] == [conflicts.Passes(8, 4), conflicts.Passes(4, 4)]
    assert conflicts.load(dp4a, replace(dp4a.operand("A"), swizzle=Swizzle(0, 4, 3))) == conflicts.Passes(16, 4)
    assert [conflicts.load(volta, one) for one in volta.operands] == [conflicts.Passes(16, 4), conflicts.Passes(4, 4)]


def test_fewer_threads_than_a_warp():
    it = plan(
        Spec.model_validate(
            {
                "mmagen": 1,
                "name": "m",
                "kernel": "micro",
                "atom": "UniversalFMA<double>",
                "atoms_layout": [6, 4, 1],
                "tile": [12, 8, 2],
            }
        )
    )
    assert conflicts.load(it, it.operand("A")).taken > 0


@pytest.mark.parametrize("mn_k", [(0, 0), (1, 0), (5, 8), (127, 63)])
def test_byte_address_by_hand(mn_k):
    """K contiguous, lines of 64 f16: chunk k/8 of line mn goes to chunk (k/8) xor (mn mod 8)."""
    mn, k = mn_k
    assert conflicts.byte_address(classic().operand("A"), mn, k) == mn * 128 + (k // 8 ^ mn % 8) * 16 + k % 8 * 2


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_no_committed_spec_of_sm75_and_later_has_conflicts(path):
    it = planned(path)
    for operand in it.operands:
        for _, by in operand.gmem_copies:
            assert conflicts.copy(operand, by).ways == 1
        if it.atom.min_arch >= 75 or it.atom.generation == "FMA":
            assert conflicts.load(it, operand).ways == 1
