"""Arithmetic on f16 and bf16, one or two to a register, on their codes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arrays import Codes
from mmagen.emulate.ops.emit import Emitter
from mmagen.emulate.ptx.model import Instruction

_HALVES = ("f16", "bf16", "f16x2", "bf16x2")


def is_half(kind: str) -> bool:
    """Whether a type is made of 16-bit floats."""
    return kind in _HALVES


def build_half(e: Emitter, i: Instruction, operation: str) -> None:
    """add, sub, mul, fma, min or max on f16, bf16 or pairs of them."""
    if i.has("oob"):
        raise e.unsupported("out-of-bounds NaN is not supported")
    bits = "u32" if i.type.endswith("x2") else "u16"
    arguments = ", ".join(e.source(x, bits) for x in i.operands[1:])
    e.write(i.operands[0], f"{e.bind(half_operation(i.type, operation, i.modifiers))}({arguments})", bits)


def half_operation(kind: str, operation: str, modifiers: tuple[str, ...] = ()) -> Callable[..., Codes]:
    """A function of codes, "+", "-", "*", "fma", "min", "max" or "add", on f16, bf16 or pairs of them. modifiers: of those
    ftz, sat, relu, NaN and xorsign count."""
    function = _function(kind.removesuffix("x2"), "+" if operation == "add" else operation, modifiers)
    if not kind.endswith("x2"):
        return lambda *codes: function(*np.broadcast_arrays(*codes))

    def compute(*codes: Codes) -> Codes:
        halves = [np.ascontiguousarray(x).view(np.uint16) for x in np.broadcast_arrays(*codes)]
        return function(*halves).view(np.uint32)

    return compute


def _function(name: str, operation: str, modifiers: tuple[str, ...]) -> Callable[..., Codes]:
    ftz, sat, relu = (word in modifiers for word in ("ftz", "sat", "relu"))

    def flushed(codes: Codes) -> Codes:
        return np.where(codes & 0x7C00 == 0, codes & np.uint16(0x8000), codes) if ftz and name == "f16" else codes

    def compute(*codes: Codes) -> Codes:
        operands = [flushed(x) for x in codes]
        if operation == "-":
            operands[1] = operands[1] ^ np.uint16(0x8000)
        if operation in ("+", "-"):
            result = numerics.add(operands[0], operands[1], name, "rn", False, sat)
        elif operation == "*":
            result = numerics.mul(operands[0], operands[1], name, "rn", False, sat)
        elif operation == "fma":
            result = numerics.fma(operands[0], operands[1], operands[2], name, "rn", False, sat)
        else:
            signs = (operands[0] ^ operands[1]) & np.uint16(0x8000 if "xorsign" in modifiers else 0)
            operands = [x & np.uint16(0x7FFF) for x in operands] if "xorsign" in modifiers else operands
            result = _extreme(operands, name, operation, "NaN" in modifiers)
            result = np.where(np.isnan(numerics.to_float64(result, name)), result, result | signs)
        if relu:
            values = numerics.to_float64(result, name)
            result = np.where(np.isnan(values), result, np.where(values > 0, result, np.uint16(0)))
        return flushed(result)

    return compute


def _extreme(operands: list[Codes], name: str, operation: str, propagate: bool) -> Codes:
    a, b = (numerics.to_float64(x, name) for x in operands)
    # Of two zeros the negative one is the smaller.
    first = (a < b) | ((a == b) & np.signbit(a)) | np.isnan(b)
    if operation == "max":
        first = (a > b) | ((a == b) & ~np.signbit(a)) | np.isnan(b)
    result = np.where(first, operands[0], operands[1])
    unusable = np.isnan(a) | np.isnan(b) if propagate else np.isnan(a) & np.isnan(b)
    return np.where(unusable, np.uint16(numerics.FORMATS[name].nan), result)
