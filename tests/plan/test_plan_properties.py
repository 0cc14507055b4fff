"""plan: random specs over all atoms, tiles and layouts either are refused with faults or give a plan that holds."""

from __future__ import annotations

import random
from math import prod

import pytest

from mmagen.core.errors import SpecFaults
from mmagen.families import plan
from mmagen.mma.ownership import ownership
from mmagen.plan import bank_conflicts as conflicts
from mmagen.plan.budgets import align, ctas_that_fit
from mmagen.plan.model import Operand
from mmagen.plan.plans import GemmPlan, OwnershipPlan, ProductPlan, TilePlan
from mmagen.spec.model import LAYOUTS, Spec
from tests.support.atoms import ATOMS

SPECS_A_SEED = 80


def _permutation(dice: random.Random, least: int) -> tuple[object, int]:
    """An entry, and how many elements it covers."""
    return dice.choice(
        [(None, least)] * 4
        + [
            (least, least),
            (2 * least, 2 * least),
            (4 * least, 4 * least),
            (f"({least},2,2):(1,{2 * least},{least})", 4 * least),
            (f"(2,{least}):({least},1)", 2 * least),
            (f"(8,2,{least}):(1,{8 * least},8)", 16 * least),
        ]
    )


def _document(dice: random.Random) -> dict:
    """What somebody might mean: counts and tiles in reach of the atom; now and then something odd."""
    atom = ATOMS[dice.choice(list(ATOMS))]
    kernel = dice.choice(["gemm", "gemm", "gemm", "micro", "ownership"])
    atoms = [dice.choice([4, 8, 16] if atom.threads == 1 else [1, 2, 2, 4]) for _ in "MN"] + [dice.choice([1, 1, 1, 2])]
    entries = [_permutation(dice, extent * count) for extent, count in zip((atom.m, atom.n, atom.k), atoms, strict=True)]
    times = [1, 2, 2, 4, 3], [1, 2, 2, 4, 3], [2, 2, 4, 1]
    document = {
        "mmagen": 1,
        "name": "random_one",
        "kernel": kernel,
        "atom": atom.name,
        "layout": dice.choice(list(LAYOUTS)),
        "tile": [covered * dice.choice(times[i]) for i, (_, covered) in enumerate(entries)],
        "atoms_layout": dice.choice([atoms, "({0},{1},{2}):({1},1,{3})".format(*atoms, atoms[0] * atoms[1])]),
        "permutation": [entry for entry, _ in entries],
        "epilogue": {"out": dice.choice([None, None, None, None, "f16", "f32"]), "major": dice.choice("NM")},
    }
    if kernel == "gemm":
        document |= {"stages": dice.choice([None, None, 2, 3]), "ctas_per_sm": dice.choice([None, None, 1, 2])}
    odd = [
        {"arch": ["sm_75"]},
        {"arch": ["sm_90a", "sm_89"]},
        {"stages": 5},
        {"ctas_per_sm": 3},
        {"epilogue": {"out": "f64"}},
        {"tile": [document["tile"][0] + 1, *document["tile"][1:]]},
        {"permutation": [None, 7, "(8,2):(1,1)"]},
        {"atoms_layout": [1, 3, 1]},
    ]
    return document | (dice.choice(odd) if dice.random() < 0.2 else {})


def _hold(it: TilePlan) -> None:
    mma = it.tiled_mma
    assert it.threads == it.atom.threads * prod(mma.atoms) <= 1024
    assert all(tile % extent == 0 for tile, extent in zip(it.tile, mma.extent, strict=True))
    if isinstance(it, OwnershipPlan):
        assert [t.matrix for t in it.ownership] == ["A", "B", "C"]
        return
    assert isinstance(it, ProductPlan)
    for operand in it.operands:
        _holds_operand(it, operand)
        _finds_fragments(it, operand)
    assert 0 < it.smem_bytes <= it.smem_limit and it.smem_bytes % 128 == 0
    assert it.accumulator_registers * 4 * it.threads == it.tile[0] * it.tile[1] * it.atom.type_d.bytes * mma.atoms[2]
    if not isinstance(it, GemmPlan):
        return
    staged = it.epilogue
    across, along = (it.tile[0], it.tile[1]) if staged.row_major else (it.tile[1], it.tile[0])
    assert across % staged.slice == 0 and along % staged.vector == 0 and staged.vector * staged.out.bytes <= 16
    assert staged.smem_bytes >= staged.slice * (along + staged.pad) * it.atom.type_d.bytes
    stages = align(it.stages * it.operand("A").bytes_per_stage) + align(it.stages * it.operand("B").bytes_per_stage)
    assert it.smem_bytes == max(stages, staged.smem_bytes) and it.stages >= 2
    assert ctas_that_fit(it.arch, it.smem_bytes, it.threads) >= it.ctas_per_sm
    assert it.mainloop.header == "mainloop_multistage" or it.stages == 2


def _holds_operand(it: ProductPlan, operand: Operand) -> None:
    assert operand.extent_along % operand.line == 0 and operand.extent_across % operand.lines == 0
    assert operand.bytes_per_stage == operand.extent_mn * operand.extent_k * operand.element.bytes
    for _, by in operand.gmem_copies:
        assert by.threads <= it.threads
        assert operand.extent_along % (by.along * by.vector) == 0 and operand.extent_across % by.across == 0
    if it.kernel == "gemm":
        assert operand.copy_wide and operand.copy_wide.vector * operand.element.bytes == 16
    size = operand.element.bytes
    reached = {conflicts.byte_address(operand, mn, k) for mn in range(operand.extent_mn) for k in range(operand.extent_k)}
    assert reached == set(range(0, operand.bytes_per_stage, size)), "the swizzle must be a bijection on a stage"
    _keeps_vectors(operand, max(by.vector for _, by in operand.gmem_copies))


def _keeps_vectors(operand: Operand, vector: int) -> None:
    """A wide access of the copy must find its elements side by side, at a multiple of its own size."""
    for across in range(0, operand.extent_across, max(1, operand.extent_across // 16)):
        for along in range(0, operand.extent_along, vector):
            at = [(across, along + v) if operand.contiguous_k else (along + v, across) for v in range(vector)]
            first, *rest = [conflicts.byte_address(operand, *one) for one in at]
            assert first % (vector * operand.element.bytes) == 0
            assert rest == [first + v * operand.element.bytes for v in range(1, vector)]


def _finds_fragments(it: ProductPlan, operand: Operand) -> None:
    """What one load moves must lie as the instruction wants it: whole 16-byte rows for ldmatrix, else words in one piece."""
    owned = ownership(
        it.atom, it.tiled_mma.atoms_layout, it.tiled_mma.permutation, (it.tile[0], it.tile[1], it.tiled_mma.extent[2])
    )["AB".index(operand.letter)]
    size = operand.element.bytes
    transposed, matrices = operand.smem_copy.transposed, operand.smem_copy.matrices
    width = 4 // size if matrices else operand.smem_copy.elements
    assert len(owned.elements[0]) % width == 0
    for first in range(0, len(owned.elements[0]), width):
        places = [
            [conflicts.byte_address(operand, *divmod(element, owned.columns)) for element in values[first : first + width]]
            for values in owned.elements[:32]
        ]
        if not transposed:
            assert all(at[0] % (width * size) == 0 and at == list(range(at[0], at[0] + width * size, size)) for at in places)
        if matrices:
            everything = {at for thread in places for at in thread}
            rows = {at // 16 for at in everything}
            assert len(rows) == 8 and len(everything) == 8 * 16 // size


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.more] if seed > 1 else []) for seed in range(6)])
def test_random_specs_are_refused_or_hold(seed):
    dice = random.Random(seed)
    made = refused = 0
    for _ in range(SPECS_A_SEED):
        document = _document(dice)
        try:
            it = plan(Spec.model_validate(document))
        except SpecFaults as error:
            assert all(fault.key and fault.what and fault.remedy for fault in error.faults)
            refused += 1
        else:
            _hold(it)
            made += 1
    assert made > SPECS_A_SEED // 10 and refused > SPECS_A_SEED // 10, "the dice must find both"
