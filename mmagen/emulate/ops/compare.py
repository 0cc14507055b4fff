"""Comparisons and selections: setp, set, selp, slct (PTX ISA 9.7.6 to 9.7.8)."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arrays import Codes, Floats
from mmagen.emulate.ops.emit import Emitter, dtype_of, op
from mmagen.emulate.ops.halves import is_half
from mmagen.emulate.ops.integers import is_integer
from mmagen.emulate.ptx.model import Instruction, Operand, Pair

_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_SYMBOLS = {"and": "&", "or": "|", "xor": "^"}
_UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu")
_ONES = {"f32": 1.0, "f16": 0x3C00, "bf16": 0x3F80}


@op("setp")
def _setp(e: Emitter, i: Instruction) -> None:
    kind = i.type
    if kind.endswith("x2"):
        _setp_pair(e, i)
        return
    e.line(f"t = {_compared(e, i, kind, '')}")
    symbol = _symbol(i)
    names = ["t", "~t"]
    if symbol:
        e.line(f"c = {e.source(i.operands[3], 'pred')}")
        names = [f"(t {symbol} c)", f"(~t {symbol} c)"]
    for target, name in zip(_targets(i.operands[0]), names, strict=False):
        e.write(target, name, "pred")


def _setp_pair(e: Emitter, i: Instruction) -> None:
    """p|q: of the lower and the upper halves."""
    symbol = _symbol(i)
    e.line(f"t, u = {', '.join(_compared(e, i, i.type.removesuffix('x2'), half) for half in ('lower', 'upper'))}")
    suffix = f" {symbol} {e.source(i.operands[3], 'pred')}" if symbol else ""
    e.line(f"t, u = t{suffix}, u{suffix}")
    for target, name in zip(_targets(i.operands[0]), "tu", strict=False):
        e.write(target, name, "pred")


@op("set")
def _set(e: Emitter, i: Instruction) -> None:
    """1.0, or all ones of an integer, where it holds; in each half of a pair."""
    to, kind = i.modifiers[-2:]
    symbol = _symbol(i)
    suffix = f" {symbol} {e.source(i.operands[3], 'pred')}" if symbol else ""
    if not kind.endswith("x2"):
        dtype = dtype_of(to)
        one, zero = e.constant(_ONES.get(to, -1), dtype), e.constant(0, dtype)
        e.write(i.operands[0], f"where({_compared(e, i, kind, '')}{suffix}, {one}, {zero})", to)
        return
    bits = int(_ONES.get(to.removesuffix("x2"), 0xFFFF))
    parts = [
        f"where({_compared(e, i, kind.removesuffix('x2'), half)}{suffix}, {e.constant(bits << shift, 'u4')}, u4(0))"
        for half, shift in (("lower", 0), ("upper", 16))
    ]
    e.write(i.operands[0], " | ".join(parts), "u32")


def _targets(operand: Operand) -> tuple[Operand, ...]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand,)


def _symbol(i: Instruction) -> str:
    """The operator that combines the result with a predicate, "" for none."""
    return next((_SYMBOLS[m] for m in i.modifiers[1:] if m in _SYMBOLS), "")


def _compared(e: Emitter, i: Instruction, kind: str, half: str) -> str:
    """An expression for the comparison that is the first modifier. half: of which halves of a pair."""
    a, b = (_value(e, i, operand, kind, half) for operand in i.operands[1:3])
    how = i.modifiers[0]
    if how in ("num", "nan"):
        unordered = f"(np.isnan({a}) | np.isnan({b}))"
        return unordered if how == "nan" else f"~{unordered}"
    if is_integer(kind):
        return f"({a} {_COMPARE[how]} {b})"
    base = how[:-1] if how in _UNORDERED else how
    if base == "ne":
        # numpy's != is true for NaN.
        return f"({a} != {b})" if how == "neu" else f"(({a} < {b}) | ({a} > {b}))"
    expression = f"({a} {_COMPARE[base]} {b})"
    return f"({expression} | np.isnan({a}) | np.isnan({b}))" if how != base else expression


def _value(e: Emitter, i: Instruction, operand: Operand, kind: str, half: str) -> str:
    if kind == "f32" and i.has("ftz"):
        return f"{e.bind(numerics.flush)}({e.source(operand, 'u32')}).view(f4)"
    if not is_half(kind):
        return e.source(operand, kind)
    shift, ftz = 16 if half == "upper" else 0, i.has("ftz")

    def widen(codes: Codes) -> Floats:
        codes = (codes >> codes.dtype.type(shift)).astype(np.uint16)
        if ftz:
            codes = np.where(codes & 0x7C00 == 0, codes & 0x8000, codes)
        return numerics.to_float64(codes, kind)

    return f"{e.bind(widen)}({e.source(operand, 'u32' if half else 'u16')})"


@op("selp")
def _selp(e: Emitter, i: Instruction) -> None:
    kind = i.type
    a, b, p = e.source(i.operands[1], kind), e.source(i.operands[2], kind), e.source(i.operands[3], "pred")
    e.write(i.operands[0], f"where({p}, {a}, {b})", kind)


@op("slct")
def _slct(e: Emitter, i: Instruction) -> None:
    """With .ftz a subnormal number is a zero, which is not negative."""
    kind = i.modifiers[-2]
    a, b, c = e.source(i.operands[1], kind), e.source(i.operands[2], kind), _value(e, i, i.operands[3], i.type, "")
    e.write(i.operands[0], f"where({c} >= 0, {a}, {b})", kind)
