"""cute: what plans hold, as C++ types."""

from __future__ import annotations

import pytest

from mmagen.core.layout_text import LayoutText
from mmagen.mma.atoms import TYPES
from mmagen.plan import cxx as cute
from mmagen.plan.model import GmemCopy, Operand, SmemCopy, Swizzle


def operand(**changes) -> Operand:
    return Operand(
        **{
            "letter": "A",
            "element": TYPES["f16"],
            "major": "K",
            "extent_mn": 128,
            "extent_k": 64,
            "swizzle": Swizzle(3, 3, 3),
            "line": 64,
            "lines": 8,
            "copy_wide": GmemCopy(8, 16, 8),
            "copy_narrow": GmemCopy(32, 4, 1),
            "smem_copy": None,
            "bytes_per_stage": 16384,
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (0, "cute::_0"),
        (1, "cute::_1"),
        (32, "cute::_32"),
        (11, "cute::Int<11>"),
        (33, "cute::Int<33>"),
        (8192, "cute::_8192"),
        (16384, "cute::Int<16384>"),
    ],
)
def test_integers(value, spelled):
    assert cute.integer(value) == spelled


@pytest.mark.parametrize(
    ("copy", "spelled"),
    [
        (SmemCopy(matrices=4), "cute::SM75_U32x4_LDSM_N"),
        (SmemCopy(matrices=2, transposed=True), "cute::SM75_U16x4_LDSM_T"),
        (SmemCopy(elements=4), "cute::UniversalCopy<uint64_t>"),
        (SmemCopy(), "cute::UniversalCopy<cute::half_t>"),
    ],
)
def test_copies_from_shared_memory(copy, spelled):
    assert cute.smem_copy(operand(smem_copy=copy)) == spelled


def test_shapes_and_layouts_nest():
    assert cute.shape(8) == "cute::_8"
    assert cute.shape(((2, 3), 17)) == "cute::Shape<cute::Shape<cute::_2, cute::_3>, cute::Int<17>>"
    assert cute.layout(LayoutText.parse("((2,2),3):((1,6),2)")) == (
        "cute::Layout<cute::Shape<cute::Shape<cute::_2, cute::_2>, cute::_3>, "
        "cute::Stride<cute::Stride<cute::_1, cute::_6>, cute::_2>>"
    )


def test_tiles_take_every_kind_of_entry():
    assert cute.tile((32, None, LayoutText.parse("(4,2):(1,8)"))) == (
        "cute::Tile<cute::_32, cute::Underscore, cute::Layout<cute::Shape<cute::_4, cute::_2>, cute::Stride<cute::_1, cute::_8>>>"
    )


def test_shared_memory_lines_are_contiguous():
    plain = "cute::Layout<cute::Shape<cute::_8, cute::_64>, cute::Stride<cute::_64, cute::_1>>"
    spelled = cute.smem_atom(operand())
    assert spelled.startswith("decltype(cute::composition(cute::Swizzle<3, 3, 3>{},") and plain in spelled
    assert cute.smem_atom(operand(swizzle=Swizzle(0, 3, 3))) == plain
    assert cute.smem_atom(operand(major="M", swizzle=Swizzle(0, 3, 3))) == (
        "cute::Layout<cute::Shape<cute::_64, cute::_8>, cute::Stride<cute::_1, cute::_64>>"
    )


def test_copies_put_neighbouring_threads_along_the_contiguous_mode():
    wide = GmemCopy(8, 16, 8)
    assert cute.vector_type(wide, operand()) == "cute::uint128_t"
    assert cute.vector_type(GmemCopy(32, 4, 1), operand()) == "cute::half_t"
    assert cute.copy_threads(wide, operand()) == (
        "cute::Layout<cute::Shape<cute::_16, cute::_8>, cute::Stride<cute::_8, cute::_1>>"
    )
    assert cute.copy_values(wide, operand()) == "cute::Layout<cute::Shape<cute::_1, cute::_8>>"
    assert cute.copy_threads(wide, operand(major="M")) == (
        "cute::Layout<cute::Shape<cute::_8, cute::_16>, cute::Stride<cute::_1, cute::_8>>"
    )
    assert cute.copy_values(wide, operand(major="M")) == "cute::Layout<cute::Shape<cute::_8, cute::_1>>"
