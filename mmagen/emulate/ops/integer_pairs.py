"""Pairs of 16-bit integers, .s16x2 and .u16x2: add, min and max (PTX ISA 9.7.1, sm_90); and bmsk, szext, fns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmagen.emulate.arrays import Values, Words
from mmagen.emulate.ops.emit import Emitter, op
from mmagen.emulate.ptx.model import Instruction

_FUNCTIONS: dict[str, Callable[[Values, Values], Values]] = {
    "add": lambda a, b: a + b,
    "min": np.minimum,
    "max": np.maximum,
}


def is_integer_pair(kind: str) -> bool:
    """Whether a type is two 16-bit integers."""
    return kind in ("s16x2", "u16x2")


def build_integer_pair(e: Emitter, i: Instruction) -> None:
    """Half by half; .relu makes negative results zero."""
    if i.base not in _FUNCTIONS:
        raise e.unsupported("this operation on pairs of integers is not supported")
    dtype = np.dtype(np.int16 if i.type[0] == "s" else np.uint16)
    function, relu = _FUNCTIONS[i.base], i.has("relu")

    def compute(a: Words, b: Words) -> Words:
        first, second = (np.ascontiguousarray(x).view(dtype) for x in np.broadcast_arrays(a, b))
        result = function(first, second)
        pairs: Words = np.ascontiguousarray(np.maximum(result, 0) if relu else result).view(np.uint32)
        return pairs

    e.write(i.operands[0], f"{e.bind(compute)}({e.source(i.operands[1], 'u32')}, {e.source(i.operands[2], 'u32')})", "u32")


@op("bmsk")
def _bmsk(e: Emitter, i: Instruction) -> None:
    """`length` ones from bit `start` on; .clamp limits both to 32, .wrap takes them modulo 32."""
    wraps = i.has("wrap")

    def mask(start: Words, length: Words) -> Words:
        first, count = (x & np.uint32(31) if wraps else np.minimum(x, 32) for x in np.broadcast_arrays(start, length))
        ones = (np.uint64(1) << count.astype(np.uint64)) - np.uint64(1)
        return (ones << first.astype(np.uint64)).astype(np.uint32)

    e.write(i.operands[0], f"{e.bind(mask)}({e.source(i.operands[1], 'u32')}, {e.source(i.operands[2], 'u32')})", "u32")


@op("szext")
def _szext(e: Emitter, i: Instruction) -> None:
    """The low `length` bits, extended by their sign or by zeros."""
    wraps, signed = i.has("wrap"), i.type[0] == "s"

    def extended(a: Words, length: Words) -> Words:
        value, count = np.broadcast_arrays(a, length & np.uint32(31) if wraps else np.minimum(length, 32))
        up = (np.uint64(64) - count.astype(np.uint64)) & np.uint64(63)
        top = value.astype(np.uint64) << up
        down = (top.view(np.int64) >> up.astype(np.int64)).view(np.uint64) if signed else top >> up
        return np.where(count == 0, np.uint32(0), down.astype(np.uint32))

    e.write(i.operands[0], f"{e.bind(extended)}({e.source(i.operands[1], 'u32')}, {e.source(i.operands[2], 'u32')})", "u32")


@op("fns")
def _fns(e: Emitter, i: Instruction) -> None:
    """The n-th set bit of a mask, from bit `base` up (n > 0) or down (n < 0), or `base` itself (n = 0); all ones if none."""

    def find(mask: Words, base: Words, offset: Values) -> Words:
        rows = zip(*(x.tolist() for x in np.broadcast_arrays(mask, base, offset)), strict=True)
        return np.array([_nth(*row) for row in rows], dtype=np.uint32)

    sources = (e.source(x, kind) for x, kind in zip(i.operands[1:4], ("u32", "u32", "s32"), strict=True))
    e.write(i.operands[0], f"{e.bind(find)}({', '.join(sources)})", "u32")


def _nth(mask: int, base: int, offset: int) -> int:
    places = range(base, 32) if offset > 0 else range(base, -1, -1)
    if offset == 0:
        places, offset = range(base, min(base + 1, 32)), 1
    found = [n for n in places if mask >> n & 1]
    return found[abs(offset) - 1] if len(found) >= abs(offset) else 0xFFFFFFFF
