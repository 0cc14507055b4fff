"""Floating-point arithmetic, and the opcodes that integers and floats share: add, sub, mul, fma, div, min, max, abs, neg."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmagen.emulate.arithmetic import directed, numerics
from mmagen.emulate.arrays import Codes, Floats, Values
from mmagen.emulate.ops.carry import build_carry
from mmagen.emulate.ops.emit import Emitter, dtype_of, op
from mmagen.emulate.ops.halves import build_half, is_half
from mmagen.emulate.ops.integer_pairs import build_integer_pair, is_integer_pair
from mmagen.emulate.ops.integers import (
    build_integer_mad,
    build_integer_mul,
    build_integer_sum,
    is_integer,
    unsigned,
)
from mmagen.emulate.ptx.model import Instruction

_ROUNDINGS = ("rn", "rz", "rm", "rp")
Binary = Callable[[Values, Values], Values]
_NAN32, _NAN64 = np.uint32(0x7FFFFFFF), np.uint64(0x7FF8000000000000)


def rounding_of(i: Instruction) -> str:
    """The rounding modifier of an instruction, .rn where there is none."""
    return next((m for m in i.modifiers if m in _ROUNDINGS), "rn")


def canonical(values: Values) -> Values:
    """Float results with every NaN replaced by the one that GPUs produce."""
    unordered = values != values
    if not unordered.any():
        return values
    code = _NAN32 if values.dtype == np.float32 else _NAN64
    return np.where(unordered, code, values.view(code.dtype)).view(values.dtype)


def _plain(i: Instruction) -> bool:
    return rounding_of(i) == "rn" and not i.has("ftz") and not i.has("sat")


def by_codes(e: Emitter, i: Instruction, function: Callable[..., Codes], count: int, negate_last: bool = False) -> None:
    """Arithmetic with rounding, .ftz or .sat, through numerics."""
    kind = i.type
    bits = unsigned(kind)
    flip = np.array([1 << (int(kind[1:]) - 1)], dtype=dtype_of(bits))
    rounding, ftz, sat = rounding_of(i), i.has("ftz"), i.has("sat")

    exact = directed.operation("add" if i.base == "sub" else i.base.replace("mad", "fma"), kind, rounding)

    def compute(*codes: Values) -> Values:
        operands = list(np.broadcast_arrays(*codes))
        if negate_last:
            operands[-1] = operands[-1] ^ flip
        return exact(*operands) if kind == "f64" and rounding != "rn" else function(*operands, kind, rounding, ftz, sat)

    arguments = ", ".join(e.source(x, bits) for x in i.operands[1 : 1 + count])
    e.write(i.operands[0], f"{e.bind(compute)}({arguments})", bits)


@op("add", "sub")
def _sum(e: Emitter, i: Instruction) -> None:
    symbol = "+" if i.base == "add" else "-"
    if i.has("cc"):
        build_carry(e, i)
    elif is_integer_pair(i.type):
        build_integer_pair(e, i)
    elif is_integer(i.type):
        build_integer_sum(e, i, symbol)
    elif is_half(i.type):
        build_half(e, i, symbol)
    elif _plain(i):
        a, b = (e.source(x, i.type) for x in i.operands[1:3])
        e.write(i.operands[0], f"{e.bind(canonical)}({a} {symbol} {b})", i.type)
    else:
        by_codes(e, i, numerics.add, 2, negate_last=i.base == "sub")


@op("mul")
def _mul(e: Emitter, i: Instruction) -> None:
    if is_integer(i.type):
        build_integer_mul(e, i)
    elif is_half(i.type):
        build_half(e, i, "*")
    elif _plain(i):
        a, b = (e.source(x, i.type) for x in i.operands[1:3])
        e.write(i.operands[0], f"{e.bind(canonical)}({a} * {b})", i.type)
    else:
        by_codes(e, i, numerics.mul, 2)


@op("mad")
def _mad(e: Emitter, i: Instruction) -> None:
    """On floats it is fma (PTX ISA 9.7.3.7, for sm_20 and later)."""
    if i.has("cc"):
        build_carry(e, i)
    elif is_integer(i.type):
        build_integer_mad(e, i)
    else:
        _fma(e, i)


@op("fma")
def _fma(e: Emitter, i: Instruction) -> None:
    if is_half(i.type):
        build_half(e, i, "fma")
    elif _plain(i):
        function = e.bind(_fma32 if i.type == "f32" else _fma64)
        e.write(i.operands[0], f"{function}({', '.join(e.source(x, i.type) for x in i.operands[1:4])})", i.type)
    else:
        by_codes(e, i, numerics.fma, 3)


def _fma32(a: Values, b: Values, c: Values) -> Values:
    """a * b + c rounded once. In float64 the product is exact; only a sum that lands on a float32 tie is rounded twice."""
    total = a.astype(np.float64) * b + c
    result = total.astype(np.float32)
    tie = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    small = (np.abs(result) <= np.float32(1.1754944e-38)) & (total != 0)
    if tie.any() or small.any():
        x, y, z = (operand.view(np.uint32) for operand in np.broadcast_arrays(a, b, c))
        return numerics.fma(x, y, z, "f32").view(np.float32)
    return canonical(result)


def _fma64(a: Floats, b: Floats, c: Floats) -> Floats:
    x, y, z = np.broadcast_arrays(a, b, c)
    return canonical(numerics.fma_f64(x, y, z))


@op("min", "max")
def _extreme(e: Emitter, i: Instruction) -> None:
    kind = i.type
    if is_half(kind):
        build_half(e, i, i.base)
        return
    if is_integer_pair(kind):
        build_integer_pair(e, i)
        return
    operands = [e.source(x, kind) for x in i.operands[1:]]
    if is_integer(kind):
        function = "np.minimum" if i.base == "min" else "np.maximum"
        result = f"{function}({operands[0]}, {operands[1]})"
        e.write(i.operands[0], f"np.maximum({result}, 0)" if i.has("relu") else result, kind)
        return
    if i.has("ftz"):
        operands = [f"{e.bind(numerics.flush)}(({x}).view(u4)).view(f4)" for x in operands]
    function = e.bind(_EXTREMES[i.base, i.has("NaN")])
    if i.has("xorsign"):
        function = e.bind(_of_magnitudes(_EXTREMES[i.base, i.has("NaN")]))
    expression = operands[0]
    for operand in operands[1:]:
        expression = f"{function}({expression}, {operand})"
    e.write(i.operands[0], expression, kind)


def _of_magnitudes(pick: Binary) -> Binary:
    """.xorsign.abs: min or max of the magnitudes, with the product of the signs; NaN has none."""

    def function(a: Values, b: Values) -> Values:
        chosen = pick(np.abs(a), np.abs(b))
        signed = np.where(np.signbit(a) ^ np.signbit(b), -chosen, chosen)
        return canonical(signed)

    return function


def _ordered_zero(low: bool) -> Binary:
    """min and max with -0 below +0, which numpy leaves open."""

    def pick(a: Values, b: Values) -> Values:
        result = (np.fmin if low else np.fmax)(a, b)
        zeros = (a == 0) & (b == 0)
        if zeros.any():
            sign = np.signbit(a) | np.signbit(b) if low else np.signbit(a) & np.signbit(b)
            result = np.where(zeros, np.where(sign, -0.0, 0.0).astype(result.dtype), result)
        return canonical(result)

    return pick


def _propagating(pick: Binary) -> Binary:
    def function(a: Values, b: Values) -> Values:
        return canonical(np.where((a != a) | (b != b), a.dtype.type(np.nan), pick(a, b)))

    return function


_EXTREMES: dict[tuple[str, bool], Binary] = {
    ("min", False): _ordered_zero(True),
    ("max", False): _ordered_zero(False),
    ("min", True): _propagating(_ordered_zero(True)),
    ("max", True): _propagating(_ordered_zero(False)),
}


@op("abs", "neg")
def _sign(e: Emitter, i: Instruction) -> None:
    """On floats these only touch the sign bit, so that NaN and zero keep their codes."""
    kind = i.type
    if is_integer(kind):
        a = e.source(i.operands[1], kind)
        e.write(i.operands[0], f"np.abs({a})" if i.base == "abs" else f"-{a}", kind)
        return
    bits = {"f16": "u16", "bf16": "u16", "f16x2": "u32", "bf16x2": "u32"}.get(kind) or unsigned(kind)
    sign = 0x80008000 if kind.endswith("x2") else 1 << (int(bits[1:]) - 1)
    a = e.source(i.operands[1], bits)
    dtype = dtype_of(bits)
    if i.has("ftz") and kind == "f32":
        a = f"{e.bind(numerics.flush)}({a})"
    expression = f"{a} & {e.constant(~sign, dtype)}" if i.base == "abs" else f"{a} ^ {e.constant(sign, dtype)}"
    e.write(i.operands[0], expression, bits)


@op("copysign")
def _copysign(e: Emitter, i: Instruction) -> None:
    sign, magnitude = (e.source(x, i.type) for x in i.operands[1:3])
    e.write(i.operands[0], f"np.copysign({magnitude}, {sign})", i.type)


@op("testp")
def _testp(e: Emitter, i: Instruction) -> None:
    a = e.source(i.operands[1], i.type)
    least = "2.0**-126" if i.type == "f32" else "2.0**-1022"
    tests = {
        "finite": f"np.isfinite({a})",
        "infinite": f"np.isinf({a})",
        "number": f"~np.isnan({a})",
        "notanumber": f"np.isnan({a})",
        "normal": f"(np.isfinite({a}) & (np.abs({a}) >= {least}))",
        "subnormal": f"((np.abs({a}) < {least}) & ({a} != 0))",
    }
    if i.modifiers[0] not in tests:
        raise e.unsupported("this test is not supported")
    e.write(i.operands[0], tests[i.modifiers[0]], "pred")
