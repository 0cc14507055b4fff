"""Sums of products of 8-bit floats as wgmma computes them: aligned to the largest addend, with few bits kept.

An instruction takes the exponents of all products (the sum of the factors' exponents) and of the accumulator, shifts every
addend to the largest of them, and drops what lies more than KEPT bits below it. The sum of what remains is exact; an f32
accumulator then holds KEPT bits behind the leading one, the others zero, rounded toward zero. Sources: DeepSeek-AI,
"DeepSeek-V3 Technical Report" (2024), 3.3.2, who measured about 14 bits on an H800; Xie et al., "MMA-Sim: Bit-accurate
reference model of tensor cores and matrix cores" (2025), for the rounding of the result.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arrays import Codes, Floats, Mask, Values

KEPT = 13
_ELEMENTS = 1 << 14  # of D at a time: what stays in the cache
# What E8M13 keeps of an f32 code.
_RESULT_MASK = np.uint32(0xFFFFFFFF << (23 - KEPT) & 0xFFFFFFFF)


def finite(a: Values, b: Values, before: Floats | None) -> Mask:
    """bool[g, m, n]: True where all addends of a sum are finite. a: [g, m, k]; b: [g, n, k]; before: [g, m, n] or None."""
    of_a, of_b = (np.asarray(np.isfinite(x).all(axis=2)) for x in (a, b))
    of_products: Mask = of_a[:, :, None] & of_b[:, None, :]
    return of_products if before is None else of_products & np.isfinite(before)


def exact(a: Values, b: Values, before: Floats | None) -> bool:
    """Can no addend lose a bit, because all are integers below 2^KEPT? Arguments as for `finite`; all must be finite."""
    largest = np.abs(a).max(initial=0) * np.abs(b).max(initial=0) * a.shape[-1]
    largest += 0 if before is None else np.abs(before).max(initial=0)
    return bool(largest <= 2.0**KEPT and all((x == np.rint(x)).all() for x in (a, b, before) if x is not None))


def sums(a: Values, b: Values, before: Floats | None) -> Floats:
    """float64[g, m, n]: the sums before they are rounded to the accumulator's format; arguments of `finite`, all finite."""
    groups, m, _ = a.shape
    n = b.shape[1]
    out = np.empty((groups, m, n))
    rows = max(1, _ELEMENTS // n)
    for g in range(groups):
        for first in range(0, m, rows):
            place = (g, slice(first, first + rows))
            if not a[place].any() and (before is None or not before[place].any()):
                out[place] = 0.0
                continue
            out[place] = _sums(a[place].T, b[g].T, None if before is None else before[place])
    return out


def codes(total: Floats) -> Codes:
    """uint32: f32 codes with KEPT bits behind the leading one."""
    return numerics.truncated_f32(total) & _RESULT_MASK


def _sums(a: Values, b: Values, before: Floats | None) -> Floats:
    """a: [k, m]; b: [k, n]; before: [m, n]. Everything is an integer below 2^24 after scaling, so that f32 is exact."""
    a, b = np.ascontiguousarray(a, np.float32), np.ascontiguousarray(b, np.float32)
    units_a, units_b = _power(a), _power(b)
    shape = (a.shape[1], b.shape[1])
    largest = np.zeros(shape, np.float32) if before is None else _power(before.astype(np.float32))
    scratch = np.empty(shape, np.float32)
    for x, y in zip(units_a, units_b, strict=True):
        np.multiply(x[:, None], y[None, :], out=scratch)
        np.maximum(largest, scratch, out=largest)
    np.maximum(largest, np.float32(2.0**-100), out=largest)
    scale = np.float32(2.0**KEPT) / largest
    total = np.zeros(shape, np.float32) if before is None else np.trunc(before.astype(np.float32) * scale)
    for x, y in zip(a, b, strict=True):
        np.multiply(x[:, None], y[None, :], out=scratch)
        np.multiply(scratch, scale, out=scratch)
        np.trunc(scratch, out=scratch)
        np.add(total, scratch, out=total)
    return total.astype(np.float64) / scale


def _power(values: Values) -> Values:
    """The largest power of two not above the magnitude of each value; 0 for 0. float32."""
    bits: Codes = values.view(np.uint32) & np.uint32(0x7F800000)
    return bits.view(np.float32)
