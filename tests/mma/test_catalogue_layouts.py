"""The registry's thread-value layouts, against three others: counting by numpy, tensor-layouts, the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest
import tensor_layouts
from tensor_layouts import atoms_nv

from mmagen.core.layout_text import IntTuple, LayoutText
from mmagen.emulate.arithmetic.fragments import Fragment, fragment_a, fragment_b, fragment_c, volta_a, volta_b, volta_c
from mmagen.mma.catalogue import find, operations
from mmagen.mma.operation import Operation, ThreadValueLayout

_BITS = {
    "u1": 1,
    "s4": 4,
    "u4": 4,
    "s8": 8,
    "u8": 8,
    "e4m3": 8,
    "e5m2": 8,
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f64": 64,
    "c64": 64,
}
# Of CUTLASS 4.2.0: B of the eight m16n8k32 of 4-bit integers, A of the two m16n8k128 of bits.
_FLAWED = {(f"SM80_16x8x32_S32{a}4{b}4S32_TN{saturate}", "B") for a in "SU" for b in "SU" for saturate in ("", "_SATURATE")}
_FLAWED |= {(f"SM80_16x8x128_S32U1U1S32_TN_{how}POPC", "A") for how in ("AND", "XOR")}


def _distinct() -> dict[ThreadValueLayout, Operation]:
    return {
        layout: operation
        for operation in operations()
        for of in (operation, *operation.variants)
        for layout in of.layouts.values()
    }


def _offsets(shape: IntTuple, stride: IntTuple) -> np.ndarray:
    """Offsets of all coordinates, the first mode fastest."""
    if isinstance(shape, int):
        return np.arange(shape) * stride
    offsets = np.zeros(1, int)
    for mode, step in zip(shape, stride, strict=True):
        offsets = (_offsets(mode, step)[:, None] + offsets[None, :]).ravel()
    return offsets


def _elements(layout: ThreadValueLayout) -> np.ndarray:
    """int[threads, values], computed apart from the registry's own way."""
    text = LayoutText.parse(layout.text)
    threads, values = (_offsets(shape, stride) for shape, stride in zip(text.shape, text.stride, strict=False))
    return threads[:, None] + values[None, :]


def test_every_layout_owns_all_elements_equally_often_or_is_marked():
    flawed = {
        (operation.name, operand)
        for operation in operations()
        for operand, layout in operation.layouts.items()
        if not layout.owners
    }
    assert (
        flawed
        == _FLAWED
        == {(operation.name, flaw.operand) for operation in operations() for flaw in operation.flaws if flaw.right}
    )
    for layout in _distinct():
        if layout.owners:
            counts = np.bincount(_elements(layout).ravel(), minlength=layout.rows * layout.columns)
            assert counts.size == layout.rows * layout.columns and (counts == layout.owners).all(), layout


def test_a_layout_owns_elements_once_where_they_lie_in_registers():
    for operation in operations():
        for operand in "ABC":
            if operation.places[operand] == "registers":
                layout = operation.layout(operand)
                assert (layout.owners, layout.threads) == (1, operation.threads), (operation.name, operand)


def test_the_matrix_of_a_layout_is_the_operations():
    for operation in operations():
        for of in (operation, *operation.variants):
            extents = {
                "A": (of.m, of.k),
                "E": (of.m, of.k),
                "SFA": (of.m, of.k),
                "B": (of.n, of.k),
                "SFB": (of.n, of.k),
                "C": (of.m, of.n),
            }
            assert {"A", "B", "C"} <= set(of.layouts)
            assert all((layout.rows, layout.columns) == extents[operand] for operand, layout in of.layouts.items())


def test_flaws_are_mended_and_said():
    assert find("SM80_16x8x32_S32U4S4S32_TN").layout("B").text == "((4,8),8):((64,1),8)"
    assert find("SM80_16x8x128_S32U1U1S32_TN_XORPOPC").layout("A").text == "((4,8),(32,2)):((512,1),(16,8))"
    assert "leaves elements out" in find("SM80_16x8x32_S32U4S4S32_TN").known_bad
    assert "does not compile" in find("SM80_16x8x128_S32U1U1S32_TN_ANDPOPC").known_bad
    assert "no PTX" in find("SM61_DP2A").broken and find("SM80_16x8x32_S32U4S4S32_TN").broken is None
    assert sum(bool(operation.flaws) for operation in operations()) == len(_FLAWED) + 1


def test_tables_are_what_tensor_layouts_makes_of_the_text():
    for layout in _distinct():
        if layout.owners and layout.rows * layout.columns * layout.owners <= 8192:
            text = LayoutText.parse(layout.text)
            other = tensor_layouts.Layout(text.shape, text.stride)
            expected = [[other(thread, value) for value in range(layout.values)] for thread in range(layout.threads)]
            assert layout.table() == expected == _elements(layout).tolist(), layout


def _known_to_both() -> list[tuple[str, str]]:
    """(name in tensor-layouts, name in the registry); of wgmma it leaves _TN out, and it ends sparse ones with _SPARSE."""
    ours = {operation.name: operation.name for operation in operations()}
    for name in list(ours):
        sparse = name.partition("::GMMA_")[2]
        short = f"SM90_{sparse.removesuffix('_TN')}_SPARSE" if sparse else name.removesuffix("_TN")
        ours.setdefault(short, name)
    return [(name, ours[name]) for name in dir(atoms_nv) if name in ours]


def test_layouts_agree_with_tensor_layouts():
    pairs = _known_to_both()
    assert len(pairs) == 88
    for theirs, name in pairs:
        known, operation = getattr(atoms_nv, theirs), find(name)
        for operand, layout in zip("ABC", (known.a_layout, known.b_layout, known.c_layout), strict=False):
            if (name, operand) not in _FLAWED:  # it has them from CUTLASS
                ours = _elements(operation.layouts[operand])
                threads, values = (_offsets(*mode) for mode in zip(layout.shape, layout.stride, strict=False))
                assert (ours == threads[:, None] + values[None, :]).all(), (name, operand)


def _ptx_elements(fragment: Fragment, extent: int, transposed: bool = False) -> np.ndarray:
    row, column = (fragment.column, fragment.row) if transposed else (fragment.row, fragment.column)
    return row + extent * column


@pytest.mark.parametrize("family", ["SM75", "SM80", "SM89", "SM90", "SM120"])
def test_warp_wide_layouts_are_the_ptx_isas(family):
    of_family = [o for o in operations() if o.family == family and o.kind == "mma.sync" and not o.sparse]
    assert of_family
    for operation in of_family:
        m, n, k = operation.shape
        wide = [8 if "f8f6f4" in operation.opcode else _BITS.get(word, 4) for word in (operation.type_a, operation.type_b)]
        for operand, expected in (
            ("A", _ptx_elements(fragment_a(m, k, wide[0]), m)),
            ("B", _ptx_elements(fragment_b(n, k, wide[1]), n, transposed=True)),
            ("C", _ptx_elements(fragment_c(m, n, 32), m)),
        ):
            assert (_elements(operation.layout(operand)) == expected).all(), (operation.name, operand)


def test_sparse_warp_wide_layouts_are_the_ptx_isas():
    """B and C as of the dense operation; each stored element of A stands for two logical ones, columns 2i and 2i + 1."""
    sparse = [o for o in operations() if o.family == "SM120" and o.sparse]
    assert len(sparse) == 77
    for operation in sparse:
        m, n, k = operation.shape
        bits = 8 if "f8f6f4" in operation.opcode else 4
        stored = fragment_a(m, k // 2, bits)
        first = stored.row + m * 2 * stored.column
        expected = np.stack([first, first + m], axis=2).reshape(32, -1)
        assert (_elements(operation.layout("A")) == expected).all(), operation.name
        assert (_elements(operation.layout("B")) == _ptx_elements(fragment_b(n, k, bits), n, transposed=True)).all()
        assert (_elements(operation.layout("C")) == _ptx_elements(fragment_c(m, n, 32), m)).all()


def test_voltas_layouts_are_the_ptx_isas():
    for operation in (o for o in operations() if o.family == "SM70"):
        thr_id = LayoutText.parse(operation.thr_id)
        lanes = _offsets(thr_id.shape, thr_id.stride)
        fragments = {
            "A": volta_a(operation.majors_a == ("K",)),
            "B": volta_b(operation.majors_b == ("MN",)),
            "C": volta_c(_BITS.get(operation.type_c, 32)),
        }
        for operand, fragment in fragments.items():
            expected = _ptx_elements(fragment, 8, transposed=operand == "B")[lanes]
            assert (_elements(operation.layout(operand)) == expected).all(), (operation.name, operand)


def test_warpgroup_layouts_are_the_ptx_isas():
    """wgmma's D, and A from registers: a warp has 16 rows, within which it is as mma.sync's (PTX ISA, wgmma.mma_async)."""
    warp, lane = np.arange(128)[:, None] // 32, np.arange(128) % 32
    for operation in (o for o in operations() if o.kind == "wgmma"):
        m, n, k = operation.shape
        dense = fragment_c(16, 8, 32)
        eights = np.arange(n // 8)[None, :, None]
        expected = (16 * warp + dense.row[lane])[:, None, :] + m * (dense.column[lane][:, None, :] + 8 * eights)
        assert (_elements(operation.layout("C")) == expected.reshape(128, -1)).all(), operation.name
        if operation.places["A"] == "registers":
            share = 2 if operation.sparse else 1
            held = fragment_a(16, k // share, _BITS[operation.type_a])
            first = 16 * warp + held.row[lane] + m * share * held.column[lane]
            expected = np.stack([first + m * i for i in range(share)], axis=2).reshape(128, -1)
            assert (_elements(operation.layout("A")) == expected).all(), operation.name


def test_registers_hold_the_values():
    wide = {"uint32_t": 32, "int32_t": 32, "float": 32, "double": 64, "float2": 64, "complex<double>": 128}
    types = _BITS | {"s16": 16, "s32": 32, "f32": 32, "c64": 128}
    for operation in (o for o in operations() if o.type_c != "gc64"):
        for operand in "ABC":
            if operation.places[operand] == "registers":
                word = getattr(operation, f"type_{operand.lower()}")
                bits = types.get(word) or (8 if "f8f6f4" in operation.opcode else 4)
                stored = operation.layout(operand).values // (2 if operation.sparse and operand == "A" else 1)
                held = operation.registers[operand]
                assert stored * bits == wide[held.type] * held.count, (operation.name, operand)


def test_opcodes_say_the_shape_and_types():
    for operation in (o for o in operations() if o.kind in ("mma.sync", "wgmma")):
        parts = operation.opcode.split(".")
        assert "m{}n{}k{}".format(*operation.shape) in parts
        words = [operation.type_d, operation.type_a, operation.type_b] + [operation.type_c] * (operation.kind == "mma.sync")
        words = [{"u1": "b1", "c64": "f64", "gc64": "f64"}.get(word, word) for word in words]
        assert " ".join(words) in " ".join(parts), operation.name
        assert operation.sparse == (parts[1] == "sp" or "sp" in operation.opcode.replace("::", ".").split("."))
