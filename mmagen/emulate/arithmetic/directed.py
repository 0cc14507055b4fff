"""Operations that are rare enough to be computed number by number in rational arithmetic: f64 with .rz, .rm or .rp, and f32
division and square roots with these roundings (PTX ISA 9.7.3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arrays import Codes


def operation(name: str, kind: str, rounding: str) -> Callable[..., Codes]:
    """add, mul, fma, div, rcp or sqrt on codes of f32 or f64, rounded once; rounding: rn, rz, rm or rp."""

    def compute(*codes: Codes) -> Codes:
        operands = [numerics.to_float64(x, kind).tolist() for x in np.broadcast_arrays(*codes)]
        with np.errstate(all="ignore"):
            values = [_computed(name, kind, rounding, row) for row in zip(*operands, strict=True)]
        return numerics.from_float64(np.array(values, dtype=np.float64), kind, rounding if kind == "f32" else "rn")

    return compute


def _computed(name: str, kind: str, rounding: str, operands: tuple[float, ...]) -> float:
    """The result as f64; for f32 rounded to odd, so that it can be rounded once more."""
    if name == "rcp":
        name, operands = "div", (1.0, *operands)
    plain = float(_OPERATIONS[name](*map(np.float64, operands)))
    if math.isnan(plain) or not all(map(math.isfinite, operands)) or (name == "div" and operands[1] == 0):
        return plain
    numbers = tuple(map(Fraction, operands))
    if name == "sqrt":
        square = Fraction(plain) ** 2
        return _corrected(plain, (numbers[0] > square) - (numbers[0] < square), kind, rounding)
    exact = _OPERATIONS[name](*numbers)
    if exact == 0:
        terms = (operands[0] * operands[1], operands[2]) if name == "fma" else operands
        cancels = name in ("add", "fma") and math.copysign(1, terms[0]) != math.copysign(1, terms[1])
        return -0.0 if cancels and rounding == "rm" else plain
    try:
        nearest = float(exact)
        beyond = (exact > Fraction(nearest)) - (exact < Fraction(nearest))
    except OverflowError:
        nearest, beyond = (math.inf, -1) if exact > 0 else (-math.inf, 1)
    return _corrected(nearest, beyond, kind, rounding)


def _corrected(nearest: float, beyond: int, kind: str, rounding: str) -> float:
    """The number on the right side of an exact result that is above (beyond = 1), at (0) or below (-1) the nearest one."""
    if beyond == 0:
        return nearest
    other = math.nextafter(nearest, math.inf * beyond)
    if kind == "f32":
        return nearest if int(np.float64(nearest).view(np.uint64)) & 1 else other
    low, high = min(nearest, other), max(nearest, other)
    toward_zero = high if high <= 0 else low
    return {"rn": nearest, "rm": low, "rp": high, "rz": toward_zero}[rounding]


_OPERATIONS: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "fma": lambda a, b, c: a * b + c,
    "div": lambda a, b: a / b,
    "sqrt": np.sqrt,
}
