"""The number formats of PTX and correctly rounded arithmetic on them, vectorised with numpy.

Values travel as raw bits in unsigned arrays of any shape and are computed on in float64, which holds every f16, bf16,
tf32, e4m3, e5m2 and f32 value exactly. Where one float64 operation would round before the last step, the sum is rounded
to odd instead: rounding it once more to a format of at most 51 significant bits then gives the correctly rounded result
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Trans. Computers 57(4), 2008).

Sources: PTX ISA 5.2.3 "Alternate Floating-Point Data Formats", 9.7.3 and 9.7.4 (arithmetic), 9.7.9.21 (cvt).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mmagen.emulate.arrays import Codes, Floats
from mmagen.emulate.errors import EmulationError


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format.

    bits: of the container; tf32 lives in the upper 19 bits of 32. mantissa: explicit fraction bits. exponent_min: that
    of the smallest normal number. largest: greatest finite value. nan: the code that instructions produce for NaN
    (tf32's as cvt.rn and cvt.rz gave it, recorded on an H200).
    """

    name: str
    bits: int
    mantissa: int
    exponent_min: int
    largest: float
    nan: int
    infinities: bool = True


FORMATS = {
    f.name: f
    for f in (
        FloatFormat("f16", 16, 10, -14, 65504.0, 0x7FFF),
        FloatFormat("bf16", 16, 7, -126, float.fromhex("0x1.fep127"), 0x7FFF),
        FloatFormat("tf32", 32, 10, -126, float.fromhex("0x1.ffcp127"), 0x7FFFE000),
        FloatFormat("e4m3", 8, 3, -6, 448.0, 0x7F, infinities=False),
        FloatFormat("e5m2", 8, 2, -14, 57344.0, 0x7F),
        FloatFormat("f32", 32, 23, -126, float.fromhex("0x1.fffffep127"), 0x7FFFFFFF),
        FloatFormat("f64", 64, 52, -1022, float.fromhex("0x1.fffffffffffffp1023"), 0x7FF8000000000000),
    )
}
ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")
_TF32_MASK = np.uint32(0xFFFFE000)


def format_of(name: str) -> FloatFormat:
    """The format called `name` in PTX opcodes; raises EmulationError for an unknown one."""
    if name not in FORMATS:
        raise EmulationError(f"the number format .{name} is not supported by the emulator")
    return FORMATS[name]


def _byte_values(form: FloatFormat) -> Floats:
    """float64[256]: the value of each code of an 8-bit format."""
    codes = np.arange(256)
    exponents, fractions = (codes >> form.mantissa) & (0x7F >> form.mantissa), codes & ((1 << form.mantissa) - 1)
    subnormal = exponents == 0
    significands = np.where(subnormal, fractions, fractions + (1 << form.mantissa))
    units = np.maximum(exponents, 1) - 1 + form.exponent_min - form.mantissa
    magnitudes = np.ldexp(significands.astype(np.float64), units)
    values: Floats = np.where(codes & 0x80, -magnitudes, magnitudes)
    if form.infinities:
        top = exponents == exponents.max()
        values[top & (fractions == 0)] *= np.inf
        values[top & (fractions != 0)] = np.nan
    else:
        values[codes & 0x7F == 0x7F] = np.nan
    return values


_BYTE_VALUES = {name: _byte_values(FORMATS[name]) for name in ("e4m3", "e5m2")}


def _narrow_values(exponent_bits: int, mantissa: int, shift: int) -> Floats:
    """float64[256]: the value of each byte that holds a float of 4 or 6 bits, `shift` bits up, without infinities and NaN (PTX
    ISA, "Alternate Floating-Point Data Formats" and the packing of kind::f8f6f4)."""
    codes = np.arange(256) >> shift
    fractions, exponents = codes & ((1 << mantissa) - 1), (codes >> mantissa) & ((1 << exponent_bits) - 1)
    significands = np.where(exponents == 0, fractions, fractions + (1 << mantissa))
    magnitudes = np.ldexp(significands.astype(np.float64), np.maximum(exponents, 1) - (1 << exponent_bits - 1) + 1 - mantissa)
    negative = (codes >> exponent_bits + mantissa) & 1
    values: Floats = np.where(negative, -magnitudes, magnitudes)
    return values


_BYTE_VALUES |= {"e3m2": _narrow_values(3, 2, 0), "e2m3": _narrow_values(2, 3, 0), "e2m1": _narrow_values(2, 1, 2)}


def to_float64(bits: Codes, name: str) -> Floats:
    """The values of codes, exactly; what lies above the format's width is ignored, as are tf32's low 13 bits.

    bits: unsigned integers of any shape. Returns float64 of the same shape; NaN for every NaN code.
    """
    with np.errstate(invalid="ignore"):
        if name == "f16":
            return bits.astype(np.uint16).view(np.float16).astype(np.float64)
        if name == "bf16":
            wide: Codes = bits.astype(np.uint32) << 16
            return wide.view(np.float32).astype(np.float64)
        if name == "tf32":
            return (bits.astype(np.uint32) & _TF32_MASK).view(np.float32).astype(np.float64)
        if name == "f32":
            return bits.astype(np.uint32).view(np.float32).astype(np.float64)
        if name == "f64":
            return bits.astype(np.uint64).view(np.float64)
    if name in _BYTE_VALUES:
        values: Floats = _BYTE_VALUES[name][bits & 0xFF]
        return values
    raise EmulationError(f"the number format .{name} is not supported by the emulator")


def from_float64(values: Floats, name: str, rounding: str = "rn", saturate: bool = False) -> Codes:
    """The codes of values rounded to a format.

    values: float64 of any shape. rounding: rn (nearest, ties to even), rz (toward zero), rm (down), rp (up) or rna
    (nearest, ties away from zero). saturate: `.satfinite`, the largest finite value in place of infinity.
    f64 values stay as they are. Returns unsigned integers as wide as the format's storage. NaN becomes the canonical
    NaN; overflow follows IEEE 754 for the rounding, and is NaN in e4m3, which has no infinity. Raises EmulationError
    for an unknown format or rounding.
    """
    form = format_of(name)
    if rounding not in ROUNDINGS:
        raise EmulationError(f"the rounding .{rounding} is not supported by the emulator")
    values = np.asarray(values, np.float64)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if rounding == "rn" and not saturate and name in ("f16", "f32"):
            codes = _encode(values, form)
        elif name == "f64":
            codes = values.view(np.uint64)
        else:
            codes = _encode(_overflowed(_quantized(values, form, rounding), form, rounding, saturate), form)
    return np.where(np.isnan(values), codes.dtype.type(form.nan), codes)


def _quantized(values: Floats, form: FloatFormat, rounding: str) -> Floats:
    """values rounded to the format's grid, which goes on past its largest value; infinities and NaN stay."""
    exponents = np.frexp(values)[1] - 1
    units = np.maximum(exponents, form.exponent_min) - form.mantissa
    scaled = np.ldexp(values, -units)
    if rounding == "rna":
        whole = np.trunc(scaled)
        rounded = whole + np.where(np.abs(scaled - whole) >= 0.5, np.copysign(1.0, scaled), 0.0)
    else:
        rounded = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}[rounding](scaled)
    return np.where(np.isfinite(values), np.copysign(np.ldexp(rounded, units), values), values)


def _overflowed(values: Floats, form: FloatFormat, rounding: str, saturate: bool) -> Floats:
    """Quantized values with those past the largest finite one replaced as the rounding says."""
    over = np.abs(values) > form.largest
    to_largest = {"rz": over, "rm": over & (values > 0), "rp": over & (values < 0)}.get(rounding, np.zeros_like(over))
    if not saturate:
        to_largest = to_largest & np.isfinite(values)
        values = np.where(over & ~to_largest, np.copysign(np.inf, values), values)
    return np.where(over if saturate else to_largest, np.copysign(form.largest, values), values)


def _encode(values: Floats, form: FloatFormat) -> Codes:
    """Codes of values on the format's grid (f16 and f32: numpy rounds to nearest even on the way)."""
    if form.name == "f16":
        return values.astype(np.float16).view(np.uint16)
    if form.bits == 32:
        return values.astype(np.float32).view(np.uint32)
    if form.name == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    magnitudes = _BYTE_VALUES[form.name][: 0x7C + 1 if form.infinities else 0x7F]
    codes = np.searchsorted(magnitudes, np.abs(values)).astype(np.uint8)
    return codes | (np.signbit(values).astype(np.uint8) << 7)


def truncated_f32(values: Floats) -> Codes:
    """uint32: the f32 codes of values rounded toward zero, but infinity from 2^128 on."""
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = values.astype(np.float32)
    codes = nearest.view(np.uint32)
    past = (np.abs(nearest) > np.abs(values)) & (np.abs(values) < 2.0**128)
    codes = codes - past.astype(np.uint32)
    codes[np.isnan(values)] = FORMATS["f32"].nan
    return codes


def tf32_ties_away(bits: Codes, saturate: bool = False) -> Codes:
    """cvt.rna{.satfinite}.tf32.f32 on f32 codes.

    No conversion unit does this one: ptxas makes integer instructions of it, which add half a unit to the codes of
    finite numbers, then clear the low 13 bits; so a NaN keeps its sign and upper bits, and one with nothing in them
    becomes infinity (recorded on an H200). With .satfinite what is then not finite goes down by a unit (read in the
    machine code of CUDA 13.0's ptxas for sm_90).
    """
    bits = bits.astype(np.uint32)
    finite = bits & 0x7FFFFFFF < 0x7F800000
    rounded = np.where(finite, bits + np.uint32(0x1000), bits) & _TF32_MASK
    over = saturate & (rounded & 0x7FFFFFFF >= 0x7F800000)
    return np.where(over, rounded - np.uint32(0x2000), rounded)


def rounded_sum_f64(x: Floats, y: Floats, rounding: str) -> Floats:
    """x + y in float64, for finite numbers whose sum does not overflow.

    rounding: rn, rz, rm or rp; an exactly cancelled sum is +0.
    """
    total, error = _two_sum(x, y)
    if rounding == "rn":
        return total
    toward = {"rz": 0.0, "rm": -np.inf, "rp": np.inf}[rounding]
    past = np.sign(error) * np.sign(toward - total) > 0
    return np.where(past, np.nextafter(total, toward), total)


def add_to_odd(x: Floats, y: Floats) -> Floats:
    """x + y in float64, rounded to odd: inexact sums get a last bit of one (no overflow may occur in the sum)."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = x + y
        shadow = total - x
        error = (x - (total - shadow)) + (y - shadow)
    codes = total.view(np.int64)
    moves = (error != 0) & np.isfinite(total) & np.isfinite(error) & (codes & 1 == 0)
    return (codes + np.where(moves, np.where((error > 0) == (total > 0), 1, -1), 0)).view(np.float64)


def flush(bits: Codes) -> Codes:
    """f32 codes with subnormal numbers replaced by zero of the same sign (`.ftz`)."""
    bits = bits.astype(np.uint32)
    return np.where(bits & 0x7F800000 == 0, bits & 0x80000000, bits).astype(np.uint32)


def saturate01(bits: Codes, name: str) -> Codes:
    """Codes clamped to [0, 1]; NaN becomes +0 (`.sat` of float instructions)."""
    values = to_float64(bits, name)
    clamped = np.where(values > 0, np.minimum(values, 1.0), 0.0)
    return from_float64(clamped, name)


def fma(a: Codes, b: Codes, c: Codes, name: str, rounding: str = "rn", ftz: bool = False, sat: bool = False) -> Codes:
    """a*b + c rounded once: `fma.<rounding>{.ftz}{.sat}.<name>` of PTX ISA 9.7.3.6 and 9.7.4.4, on codes.

    a, b, c: codes of one shape. name: f16, bf16, f32 or f64; f64 rounds to nearest only. ftz: subnormal f32 inputs and
    results become zero. sat: clamp to [0, 1]. Returns unsigned integers as wide as the format's storage. Raises
    EmulationError for what is not emulated.
    """
    if name == "f64":
        if rounding != "rn" or sat:
            raise EmulationError("fma.f64 is emulated with .rn only")
        return canonical(fma_f64(*(to_float64(operand, name) for operand in (a, b, c))), name)
    operands = [to_float64(flush(operand) if ftz else operand, name) for operand in (a, b, c)]
    with np.errstate(invalid="ignore"):
        product = operands[0] * operands[1]
    codes = from_float64(_sum_for(product, operands[2], name, rounding), name, rounding)
    codes = flush(codes) if ftz else codes
    return saturate01(codes, name) if sat else codes


def add(a: Codes, b: Codes, name: str, rounding: str = "rn", ftz: bool = False, sat: bool = False) -> Codes:
    """a + b rounded once, on codes; arguments, result and errors as for `fma` (PTX ISA 9.7.3.3)."""
    if name == "f64":
        if rounding != "rn" or sat:
            raise EmulationError("add.f64 is emulated with .rn only")
        with np.errstate(invalid="ignore", over="ignore"):
            return canonical(to_float64(a, name) + to_float64(b, name), name)
    left, right = (to_float64(flush(operand) if ftz else operand, name) for operand in (a, b))
    codes = from_float64(_sum_for(left, right, name, rounding), name, rounding)
    codes = flush(codes) if ftz else codes
    return saturate01(codes, name) if sat else codes


def mul(a: Codes, b: Codes, name: str, rounding: str = "rn", ftz: bool = False, sat: bool = False) -> Codes:
    """a * b rounded once, on codes; arguments, result and errors as for `fma` (PTX ISA 9.7.3.5)."""
    if name == "f64" and (rounding != "rn" or sat):
        raise EmulationError("mul.f64 is emulated with .rn only")
    left, right = (to_float64(flush(operand) if ftz else operand, name) for operand in (a, b))
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        product = left * right
    codes = canonical(product, name) if name == "f64" else from_float64(product, name, rounding)
    codes = flush(codes) if ftz else codes
    return saturate01(codes, name) if sat else codes


def canonical(values: Floats, name: str) -> Codes:
    """The codes of values that are in the format already, NaN as the canonical one."""
    return from_float64(values, name)


def _sum_for(x: Floats, y: Floats, name: str, rounding: str) -> Floats:
    """x + y, such that rounding it to a format gives the sum rounded once; an exactly cancelled one has the right sign.

    To nearest in f32 the common case is quicker: only a float64 sum half-way between two f32 numbers can hide on which
    side of the middle the exact sum lies. Below 2^-126 the middles lie elsewhere.
    """
    if name == "f32" and rounding == "rn":
        with np.errstate(invalid="ignore", over="ignore"):
            total = x + y
        middle = (total.view(np.uint64) & np.uint64(0x1FFFFFFF)) == 0x10000000
        if not (middle | ((np.abs(total) < 2.0**-126) & (total != 0))).any():
            return total
    total = add_to_odd(x, y)
    if rounding != "rm":
        return total
    positive = ~np.signbit(x) & ~np.signbit(y)
    return np.where((total == 0) & ~positive, -0.0, total)


_SPLITTER = float(2**27 + 1)
# Sizes of a, b and c for which fma_f64's transformation neither overflows nor underflows, whatever the signs.
_USUAL = (2.0**-400, 2.0**400), (2.0**-400, 2.0**400), (0.0, 2.0**900)


def _split(x: Floats) -> tuple[Floats, Floats]:
    """x as a sum of two numbers of at most 26 significant bits (Veltkamp)."""
    scaled = _SPLITTER * x
    high = scaled - (scaled - x)
    return high, x - high


def _two_sum(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The rounded sum and its exact error (Knuth)."""
    total = x + y
    shadow = total - x
    return total, (x - (total - shadow)) + (y - shadow)


def fma_f64(a: Floats, b: Floats, c: Floats) -> Floats:
    """a*b + c in float64, rounded once to nearest even.

    a, b, c: float64, of shapes that broadcast to one. Products of numbers that float32 holds are exact; others, far from over-
    and underflow, take an error-free transformation; what is left is computed one by one in rational arithmetic.
    """
    with np.errstate(all="ignore"):
        product = a * b
        plain = product + c
        if all((x.astype(np.float32) == x).all() for x in (a, b)):
            return plain
        (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
        product_error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
        low, low_error = _two_sum(c, product_error)
        high, high_error = _two_sum(product, low)
        result = high + add_to_odd(low_error, high_error)
        sizes = np.abs(a), np.abs(b), np.abs(c)
        if all(((low <= x) & (x <= high)).all() for x, (low, high) in zip(sizes, _USUAL, strict=True)):
            return result
    special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)
    exponents = [np.frexp(operand)[1] for operand in (a, b, c)]
    wide = (np.abs(exponents[0]) > 480) | (np.abs(exponents[1]) > 480) | (np.abs(exponents[2]) > 960)
    wide |= exponents[0] + exponents[1] < -880
    result = np.where(special, plain, result)
    one, other, added = np.broadcast_arrays(a, b, c)
    for index in np.argwhere(wide & ~special):
        at = tuple(index)
        result[at] = _fma_rational(float(one[at]), float(other[at]), float(added[at]))
    return result


def _fma_rational(a: float, b: float, c: float) -> float:
    """a*b + c for finite numbers, rounded once to nearest even; the sign of a zero follows IEEE 754."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if c == 0 else 0.0
    try:
        magnitude = float(abs(exact))
    except OverflowError:
        magnitude = float("inf")
    return magnitude if exact > 0 else -magnitude
