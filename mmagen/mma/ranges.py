"""How large random inputs may be: small integers whose sums are exact, and uniform ones whose results D can hold.

The generated projects decide the same in tests/mmagen/inputs.cuh; tests/verify compares the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

C_RANGE = 4  # of C's small integers
_PAIRS = ((4, 4), (3, 3), (2, 2), (2, 1), (1, 1))
# The largest finite numbers of types that have infinities.
FINITE = {"f16": 65504.0, "bf16": float.fromhex("0x1.fep127"), "f32": float.fromhex("0x1.fffffep127")}
LARGEST = {"f16": FINITE["f16"], "e4m3": 448.0, "e5m2": 57344.0}
LARGEST |= {"s4": 7.0, "u4": 15.0, "s8": 127.0, "u8": 255.0, "s16": 32767.0, "s32": 2147483647.0}


@dataclass(frozen=True)
class Limits:
    """Up to these magnitudes every integer is exact: in sums, in alpha * sum + beta * C, and in D."""

    accumulator: float
    scalar: float
    out: float


@dataclass(frozen=True)
class SmallIntRule:
    """Entries of A and B are -range .. range without zero, or 1 .. range. group: A has one nonzero in so many neighbours along
    K. exact: results must be equal; else alpha and beta cannot be exact, and only the sums are."""

    range_a: int
    range_b: int
    group: int
    exact: bool


@dataclass(frozen=True)
class UniformRule:
    """Entries are within +-reach, which is an integer where they are, or 0 .. reach. group: as SmallIntRule's."""

    reach: float
    group: int


def fraction_bits(x: float) -> int:
    """The smallest q <= 10 for which x * 2^q is an integer; -1 if there is none."""
    return next((q for q in range(11) if math.ldexp(x, q).is_integer()), -1)


def small_int_rule(k: int, alpha: float, beta: float, limits: Limits) -> SmallIntRule:
    """The largest entries for which no partial sum, in whatever order, leaves what is exact, and typical results keep their
    last digit in D. Odd rows of A and B are positive, so that some sums are as long as that allows."""
    bits = fraction_bits(alpha), fraction_bits(beta)
    unit = 2.0 ** max(*bits, 0)
    room = limits.scalar - abs(beta) * unit * C_RANGE
    limit = limits.accumulator
    if alpha:
        limit = min(limit, math.floor(room / (abs(alpha) * unit)))
    exact = min(bits) >= 0 and room >= 0 and limit >= 1
    if not exact:
        limit = limits.accumulator
    for range_a, range_b in _PAIRS:
        typical = math.sqrt(k * _mean_square(range_a) * _mean_square(range_b))
        fits = k * range_a * range_b <= limit and typical * max(abs(alpha), 1.0) <= limits.out / 2
        # Ones alone would make all sums of positive entries equal, which hides roundings: rather leave out entries.
        if fits or ((range_a, range_b) == (2, 1) and limit >= 2):
            break
    return SmallIntRule(range_a, range_b, max(1, math.ceil(k / math.floor(limit / (range_a * range_b)))), exact)


def uniform_rule(a: str, b: str, out: str, k: int, alpha: float, positive: bool) -> UniformRule:
    """Within 1, or a type's whole range, or less where results would leave D's range. positive: odd rows of A and B are."""
    integer = a[0] in "su"
    one_sign = positive or (a[0] == b[0] == "u")
    typical = abs(alpha) * (k / 4 if one_sign else 2 * math.sqrt(k))
    room = math.sqrt(LARGEST.get(out, math.inf) / 2 / typical) if typical else math.inf
    if integer:
        reach = max(1.0, math.floor(min(room, LARGEST[a], LARGEST[b])))
        return UniformRule(reach, 1 if room >= 1 else math.ceil(1 / room**2))
    return UniformRule(2.0 ** min(0, math.floor(math.log2(room))) if math.isfinite(room) else 1.0, 1)


def _mean_square(reach: int) -> float:
    return (reach + 1) * (2 * reach + 1) / 6
