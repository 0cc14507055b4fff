"""Element types of MMA operations: the code of a value and the value of a code, on numpy.

Every value is float64. A type has `bits` of information in a container of as many or more bits: the 4- and 6-bit floats
of kind::f8f6f4 lie in bytes, e2m1 two bits up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Float:
    """A binary float. top: what the largest exponent holds: "ieee" infinities and NaN, "nan" numbers and all ones NaN,
    "finite" numbers only."""

    exponent: int
    mantissa: int
    top: str = "ieee"
    signed: bool = True

    @property
    def bits(self) -> int:
        return self.signed + self.exponent + self.mantissa


_SMALL = {
    "f16": Float(5, 10),
    "bf16": Float(8, 7),
    "e5m2": Float(5, 2),
    "e4m3": Float(4, 3, "nan"),
    "e3m2": Float(3, 2, "finite"),
    "e2m3": Float(2, 3, "finite"),
    "e2m1": Float(2, 1, "finite"),
    "ue4m3": Float(4, 3, "nan", signed=False),
}
_INTEGERS = {"s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16, "s32": 32, "u1": 1}
_WIDE = {"f32": 32, "tf32": 32, "f64": 64}
# Real numbers that make up one element.
PARTS = {"c64": 2, "gc64": 3}
_UNITS = {"f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53, "c64": 2.0**-53, "gc64": 2.0**-53}


def is_integer(word: str) -> bool:
    """Is the type called `word` an integer type?"""
    return word in _INTEGERS


def bits(word: str) -> int:
    """Bits of one real number of that type, without padding."""
    if word in _SMALL:
        return _SMALL[word].bits
    return {**_INTEGERS, **_WIDE, "ue8m0": 8}.get(word, 64)


def roundoff(word: str) -> float:
    """Unit roundoff of an accumulator type; 0 for integers."""
    return _UNITS.get(word, 0.0)


def limits(word: str) -> tuple[float, float]:
    """The smallest and the largest integer of an integer type."""
    width = _INTEGERS[word]
    return (-(2.0 ** (width - 1)), 2.0 ** (width - 1) - 1) if word[0] == "s" else (0.0, 2.0**width - 1)


@cache
def values(word: str) -> npt.NDArray[np.float64]:
    """float64[2^bits]: the value of each code of a float of at most 16 bits, NaN and infinities included."""
    form = _SMALL[word]
    codes = np.arange(1 << form.bits)
    exponent = (codes >> form.mantissa) & ((1 << form.exponent) - 1)
    fraction = codes & ((1 << form.mantissa) - 1)
    bias = (1 << (form.exponent - 1)) - 1
    significand = np.where(exponent == 0, fraction, fraction + (1 << form.mantissa)).astype(np.float64)
    magnitude = np.ldexp(significand, np.maximum(exponent, 1) - bias - form.mantissa)
    if form.top == "ieee":
        last = exponent == (1 << form.exponent) - 1
        magnitude = np.where(last, np.where(fraction == 0, np.inf, np.nan), magnitude)
    elif form.top == "nan":
        magnitude = np.where(
            codes & ((1 << (form.exponent + form.mantissa)) - 1) == (1 << (form.exponent + form.mantissa)) - 1,
            np.nan,
            magnitude,
        )
    negative = codes >> (form.exponent + form.mantissa) & 1 if form.signed else np.zeros_like(codes)
    signed: npt.NDArray[np.float64] = np.where(negative == 1, -magnitude, magnitude)
    return signed


@cache
def _sorted(word: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint64]]:
    """The finite values in order, and the code of each."""
    table = values(word)
    codes = np.flatnonzero(np.isfinite(table))
    order = np.argsort(table[codes], kind="stable")
    return table[codes][order], codes[order].astype(np.uint64)


def encode(numbers: npt.NDArray[Any], word: str) -> npt.NDArray[np.uint64]:
    """uint64 codes of the nearest value of the type; what is out of its range becomes the nearest end of it."""
    if word in _SMALL:
        table, codes = _sorted(word)
        above = np.clip(np.searchsorted(table, numbers), 1, len(table) - 1)
        nearer = numbers - table[above - 1] <= table[above] - numbers
        return codes[np.where(nearer, above - 1, above)]
    if word == "ue8m0":
        exponents: npt.NDArray[np.float64] = np.rint(np.log2(numbers)) + 127
        return exponents.astype(np.uint64)
    if is_integer(word):
        whole: npt.NDArray[np.int64] = np.clip(np.rint(numbers), *limits(word)).astype(np.int64)
        return whole.view(np.uint64) & np.uint64((1 << bits(word)) - 1)
    if word == "f64" or word in PARTS:
        return np.ascontiguousarray(numbers, np.float64).view(np.uint64)
    codes = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    return (codes & np.uint32(0xFFFFE000 if word == "tf32" else 0xFFFFFFFF)).astype(np.uint64)


def decode(codes: npt.NDArray[Any], word: str) -> npt.NDArray[np.float64]:
    """float64 values of uint64 codes."""
    if word in _SMALL:
        return values(word)[codes.astype(np.int64)]
    if word == "ue8m0":
        return np.ldexp(1.0, codes.astype(np.int64) - 127)
    if is_integer(word):
        whole = codes.astype(np.int64)
        return np.where(whole > limits(word)[1], whole - (1 << bits(word)), whole).astype(np.float64)
    if word == "f64" or word in PARTS:
        return np.ascontiguousarray(codes).view(np.float64)
    return codes.astype(np.uint32).view(np.float32).astype(np.float64)
