"""Permutations whose extents CuTe cannot split into atoms: refused, with an entry in their place that is accepted."""

from __future__ import annotations

import pytest

from mmagen.core.errors import SpecFaults
from mmagen.core.layout_text import LayoutText
from mmagen.families import plan
from mmagen.plan.tiling import _fewest_modes
from mmagen.spec.load import load


def _plan(kernel: str, entry: object, tile_m: int):
    text = f'"{entry}"' if isinstance(entry, str) else entry
    stated = f"permutation: [{text}, null, null], tile: [{tile_m}, 16, 32]"
    return plan(
        load(f"{{mmagen: 1, name: odd, kernel: {kernel}, atom: SM80_16x8x16_F32F16F16F32_TN, {stated}}}", "odd.yaml").spec
    )


@pytest.mark.parametrize("kernel", ["gemm", "micro"])
@pytest.mark.parametrize("entry, size", [("(3,8,2,2):(1,12,6,3)", 96), ("(3,4,4,3):(1,36,9,3)", 144), ("(3,8,2):(16,2,1)", 48)])
def test_it_is_refused_and_the_remedy_is_accepted(kernel, entry, size):
    with pytest.raises(SpecFaults) as raised:
        _plan(kernel, entry, size)
    (fault,) = raised.value.faults
    assert fault.key == ("permutation", 0) and "cannot be split" in fault.what
    assert fault.remedy.endswith(f"or {size}")
    assert _plan(kernel, size, size).tiled_mma.extent[0] == size


@pytest.mark.parametrize(
    "atoms, remedy",
    [
        ("[3, 4, 1]", "(3,4,1):(4,1,0)"),
        ("[6, 1, 2]", "((2,3),1,2):((1,4),0,2)"),
        ("[2, 6, 1]", None),
        ("[6, 2, 1]", "((2,3),2,1):((1,4),2,0)"),
        ("[4, 3, 1]", None),
    ],
)
def test_quad_pairs_are_numbered_in_fours(atoms, remedy):
    def planned(layout: str):
        keys = f"kernel: micro, atom: SM70_8x8x4_F16F16F16F16_TN, atoms_layout: {layout}"
        return plan(load(f"{{mmagen: 1, name: odd, {keys}}}", "odd.yaml").spec)

    if remedy is None:
        assert planned(atoms).threads % 32 == 0
        return
    with pytest.raises(SpecFaults) as raised:
        planned(atoms)
    (fault,) = raised.value.faults
    assert fault.key == ("atoms_layout",) and fault.remedy.endswith(f"use {remedy}")
    assert planned(f'"{remedy}"').tiled_mma.atoms == tuple(int(count) for count in atoms.strip("[]").split(","))


@pytest.mark.parametrize("entry", ["(3,16):(1,3)", "(8,2,3):(1,8,16)", "(16,3):(3,1)", "(4,4,3):(12,3,1)"])
def test_extents_that_split_are_accepted(entry):
    assert _plan("gemm", entry, 48).tiled_mma.extent[0] == 48


@pytest.mark.parametrize(
    "written, planned",
    [("(6,2):(1,6)", 12), ("(3,8,2):(2,6,1)", "(24,2):(2,1)"), ("(1,24,2):(5,2,1)", "(24,2):(2,1)"), ("(2,2,3):(2,1,4)", None)],
)
def test_a_permutation_is_written_with_the_fewest_modes(written, planned):
    """CuTe composes with the modes of a Tile as they are, and (6,2):(1,6) would not divide what 12 does."""
    entry = _fewest_modes(LayoutText.parse(written))
    assert entry == (planned if isinstance(planned, int) else LayoutText.parse(planned or written))
