"""Lines of shared memory nest with what fragments divide a tile into, and ldmatrix with the repeats of an atom."""

from __future__ import annotations

import pytest

from mmagen.families import plan
from mmagen.plan.tiling import nests
from mmagen.spec.load import load

F16 = "SM80_16x8x16_F32F16F16F32_TN"
U8 = "SM80_8x8x16_S32U8U8S32_TN"
FMA = "UniversalFMA<float>"


def _operands(keys: str):
    return plan(load(f"{{mmagen: 1, name: odd, kernel: gemm, {keys}}}", "odd.yaml").spec).operands


# keys -> (bits of the swizzle, line, lines) of A and of B
LINES = {
    f"atom: {F16}, layout: TN, tile: [64, 64, 64]": ((3, 64, 8), (3, 64, 8)),
    f"atom: {F16}, layout: TN, tile: [16, 16, 192], atoms_layout: [1, 2, 3]": ((1, 16, 8), (1, 16, 8)),
    f"atom: {F16}, layout: NT, tile: [16, 48, 64], atoms_layout: [1, 3, 4]": ((1, 16, 8), (0, 8, 8)),
    f"atom: {F16}, layout: TN, tile: [48, 16, 32], permutation: ['(16,3):(3,1)', null, null]": ((0, 32, 1), (2, 32, 8)),
    f"atom: {F16}, layout: NT, tile: [48, 16, 32], permutation: ['(16,3):(3,1)', null, null]": ((0, 48, 1), (1, 16, 8)),
    f"atom: {FMA}, layout: TN, tile: [24, 32, 16], atoms_layout: [3, 32, 1]": ((0, 16, 1), (2, 16, 8)),
    f"atom: {FMA}, layout: NT, tile: [96, 32, 16], atoms_layout: [3, 32, 1]": ((0, 96, 1), (3, 32, 8)),
    f"atom: {U8}, layout: NT, tile: [96, 16, 32], atoms_layout: [6, 1, 1]": ((2, 16, 16), (2, 16, 16)),
    # Threads go through the atoms in threes of every second one, and three times 8 end within a line of 16.
    f"atom: {U8}, layout: NT, tile: [96, 16, 32], atoms_layout: '((3,2),1,1):((2,1),6,6)'": ((0, 96, 1), (2, 16, 16)),
}


@pytest.mark.parametrize("keys", LINES)
def test_lines_nest_with_the_atoms(keys):
    assert tuple((one.swizzle.bits, one.line, one.lines) for one in _operands(keys)) == LINES[keys]


@pytest.mark.parametrize(
    "unit, divided, right",
    [
        (8, ((16, 1), (3, 16), (2, 48)), True),  # whole blocks
        (64, ((16, 1), (3, 16), (2, 48)), False),  # a step of 48 ends within a block of 64
        (16, ((16, 1), (3, 16), (2, 48)), True),
        (16, ((8, 1), (3, 8), (2, 24)), False),  # three steps of 8 end within a block of 16
        (8, ((16, 3), (3, 1)), False),  # a stride of 3 crosses the blocks
        (8, ((4, 2), (2, 1), (2, 8)), True),  # reordered within a block
        (1, ((16, 3), (3, 1)), True),
    ],
)
def test_steps_stay_within_a_block_or_consist_of_blocks(unit, divided, right):
    assert nests(unit, divided) is right


@pytest.mark.parametrize(
    "permutation, tile, matrices",
    [
        ("[null, null, null]", [16, 48, 64], (4, 2)),
        ("[null, 16, null]", [16, 48, 64], (4, 4)),
        ("[null, 24, null]", [16, 48, 64], (4, 2)),
        ("[null, 24, 32]", [16, 48, 64], (4, 2)),  # two of three repeats along N, then the third with one of the next along K
        ("[null, null, 32]", [16, 48, 64], (4, 4)),
    ],
)
def test_one_ldmatrix_loads_whole_repeats_of_an_atom(permutation, tile, matrices):
    operands = _operands(f"atom: {F16}, layout: TN, tile: {tile}, permutation: {permutation}")
    assert tuple(one.smem_copy.matrices for one in operands if one.smem_copy) == matrices
