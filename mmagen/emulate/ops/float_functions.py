"""Division, square roots and the approximated functions: div, rcp, sqrt, rsqrt, ex2, lg2, sin, cos, tanh (PTX ISA 9.7.3, 9.7.4).

The .approx and .full forms are computed exactly and rounded once: PTX promises a bound on their error, not bits. What it says
of their special values holds: .ftz, division by numbers above 2^126, reciprocals of subnormal numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmagen.emulate.arithmetic import directed, numerics
from mmagen.emulate.arrays import Codes, Floats, Values
from mmagen.emulate.ops.emit import Emitter, op
from mmagen.emulate.ops.floats import canonical, rounding_of
from mmagen.emulate.ops.halves import is_half
from mmagen.emulate.ops.integers import build_integer_divide, is_integer, unsigned
from mmagen.emulate.ptx.model import Instruction

_LARGE = np.float32(2.0**126)
_TINY64 = 2.0**-1022


@op("div")
def _div(e: Emitter, i: Instruction) -> None:
    if is_integer(i.type):
        build_integer_divide(e, i, remainder=False)
    elif rounding_of(i) != "rn":
        _directed(e, i, 2)
    elif i.has("approx"):
        _apply(e, i, _divided_approximately, 2)
    else:
        _apply(e, i, lambda a, b: a / b, 2)


def _divided_approximately(a: Values, b: Values) -> Values:
    """div.approx.f32: for 2^126 < |b| < 2^128 it is 0, or NaN if a is infinite."""
    large = (np.abs(b) > _LARGE) & np.isfinite(b)
    zero = np.copysign(np.float32(0), np.where(np.signbit(a) == np.signbit(b), np.float32(1), np.float32(-1)))
    return np.where(large, np.where(np.isinf(a), np.float32(np.nan), np.where(np.isnan(a), a, zero)), a / b)


@op("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
def _function(e: Emitter, i: Instruction) -> None:
    if is_half(i.type):
        _on_halves(e, i, _FUNCTIONS[i.base])
    elif rounding_of(i) != "rn":
        _directed(e, i, 1)
    else:
        _apply(e, i, _FUNCTIONS[i.base], 1)


_FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "rcp": lambda a: 1 / a,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


def _apply(e: Emitter, i: Instruction, function: Callable[..., Values], count: int) -> None:
    """Rounds to nearest. Functions of one operand are computed in float64; .ftz applies to operands and result."""
    kind, ftz, upper = i.type, i.has("ftz"), i.type == "f64" and i.has("approx")

    def flushed(values: Values) -> Values:
        if kind == "f64":
            return np.where(np.abs(values) < _TINY64, np.copysign(0.0, values), values)
        return numerics.flush(values.view(np.uint32)).view(np.float32)

    def compute(*operands: Values) -> Values:
        values = [flushed(x) for x in operands] if ftz else list(operands)
        if count == 1 and kind == "f32":
            values = [values[0].astype(np.float64)]
        if upper:
            values = [_upper(values[0])]
        result = canonical(function(*values).astype(operands[0].dtype))
        result = _upper(result) if upper else result
        return flushed(result) if ftz else result

    e.write(i.operands[0], f"{e.bind(compute)}({', '.join(e.source(x, kind) for x in i.operands[1 : 1 + count])})", kind)


def _upper(values: Floats) -> Floats:
    """f64 approximations use and give only the upper 32 bits."""
    kept: Floats = (values.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    return np.where(np.isnan(values), values, kept)


def _directed(e: Emitter, i: Instruction, count: int) -> None:
    """With a rounding other than to nearest."""
    kind, bits, ftz = i.type, unsigned(i.type), i.has("ftz")
    function = directed.operation(i.base, kind, rounding_of(i))

    def compute(*codes: Codes) -> Codes:
        result = function(*(numerics.flush(x) if ftz else x for x in codes))
        return numerics.flush(result) if ftz else result

    e.write(i.operands[0], f"{e.bind(compute)}({', '.join(e.source(x, bits) for x in i.operands[1 : 1 + count])})", bits)


def _on_halves(e: Emitter, i: Instruction, function: Callable[[Floats], Floats]) -> None:
    """ex2 and tanh on f16, bf16 and pairs of them."""
    name, bits = i.type.removesuffix("x2"), "u32" if i.type.endswith("x2") else "u16"
    least = 0x0080 if name == "bf16" else 0x0400  # the smallest normal number

    def flushed(codes: Codes) -> Codes:
        return np.where(codes & 0x7FFF < least, codes & 0x8000, codes).astype(np.uint16) if i.has("ftz") else codes

    def compute(codes: Codes) -> Codes:
        halves = flushed(np.ascontiguousarray(codes).view(np.uint16))
        return flushed(numerics.from_float64(function(numerics.to_float64(halves, name)), name)).view(codes.dtype)

    e.write(i.operands[0], f"{e.bind(compute)}({e.source(i.operands[1], bits)})", bits)
