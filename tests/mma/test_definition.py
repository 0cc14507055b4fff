"""Definitions of wgmma's extended shapes: what they contain is CuTe's own, read from its headers."""

from __future__ import annotations

import re

import pytest

from mmagen.mma.atoms import find_atom
from mmagen.mma.definition import definition
from tests.support.atoms import WGMMA_NAMES

EXTENDED = [name for name in WGMMA_NAMES if find_atom(name).extended]


@pytest.fixture(scope="module")
def cute(cutlass) -> dict[str, str]:
    """The text of each struct of the extended operations, by name without its architecture."""
    text = (cutlass / "cute/arch/mma_sm90_gmma_ext.hpp").read_text("utf-8")
    parts = re.split(r"\nstruct (MMA_64x\w+)\n", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def traits(cutlass) -> dict[str, str]:
    """The text of each MMA_Traits of them."""
    text = (cutlass / "cute/atom/mma_traits_sm90_gmma_ext.hpp").read_text("utf-8")
    parts = re.split(r"\nstruct MMA_Traits<(SM90_64x\w+)", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_there_are_definitions_of_the_extended_shapes_alone():
    assert len(EXTENDED) > 700
    assert all(definition(find_atom(name)) is None for name in WGMMA_NAMES if name not in set(EXTENDED))


@pytest.mark.parametrize("layout", ["TN", "NT"])
def test_instructions_and_registers_are_those_of_cute(cute, traits, layout):
    for name in EXTENDED:
        made, text = definition(find_atom(name).in_layout(layout)), cute[name.replace("SM90_", "MMA_")]
        assert made is not None
        [instruction] = re.findall(r'"(wgmma\.mma_async[\w.]+) "', text)
        assert made.instruction == instruction, name
        [(d_type, d_count)] = re.findall(r"CRegisters = (\w+)\[(\d+)\]", text)
        assert (made.d_type, len(made.d)) == (d_type, int(d_count)), name
        [(a_type, a_count)] = re.findall(r"ARegisters = (\w+)\[(\d+)\]", text)
        assert (a_type, int(a_count)) == (("uint32_t", len(made.a)) if made.a else ("uint64_t", 1)), name
        [constraint] = set(re.findall(r'"\+(\w)"', text))
        assert made.d_constraint == constraint, name
        # Operands: %n in their order, and as many immediates as CuTe has "n" constraints.
        assert len(made.immediates) == text.count('"n"('), name
        assert f"setp.ne.b32 p, {made.predicate}, 0;" in text, name
        own = "".join(line.strip() for line in traits[name].splitlines())
        assert f"ALayout = GMMA::{made.layout_a};".replace(" ", "") in own.replace(" ", ""), name


def test_majors_are_the_last_operands():
    for name, layout, immediates in (
        ("SM90_64x24x16_F32BF16BF16_SS", "TN", (1, 1, 0, 0)),
        ("SM90_64x24x16_F32BF16BF16_SS", "NN", (1, 1, 1, 0)),
        ("SM90_64x24x16_F32BF16BF16_SS", "TT", (1, 1, 0, 1)),
        ("SM90_64x24x16_F32BF16BF16_RS", "NT", (1, 1, 1)),
        ("SM90_64x40x8_F32TF32TF32_SS_TN", "TN", (1, 1)),
        ("SM90_64x24x32_S32S8S8_SS_TN", "TN", ()),
    ):
        made = definition(find_atom(name).in_layout(layout))
        assert made is not None and made.immediates == immediates, (name, layout)
