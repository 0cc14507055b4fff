"""A call of small integers whose results D's type cannot hold: by a large alpha or, where the epilogue has none, by large elements
of A and B."""

from __future__ import annotations

import math

import numpy as np

from mmagen.mma.ranges import FINITE, LARGEST
from mmagen.plan.plans import GemmPlan
from mmagen.verify.emulated.formats import encode
from mmagen.verify.emulated.matrix import Operands, values

# Operations whose results are as large as what they are given, whatever that is.
_LINEAR = {"alpha", "beta_c", "bias", "relu", "clamp", "saturate", "amax"}
# And those that are so while it is far from f32's largest number: sums and products then stay finite.
_FAR_FROM_F32 = {"add", "multiply", "gelu", "silu", "gated", "row_sums", "column_sums"}
_MOST_OF_SMALL_TYPES = 2.0**17
_MOST_FACTOR = 2.0**16
# Rows of A and of B that become negative: of those with odd numbers, whose elements have one sign, so that sums are large.
_NEGATIVE = (slice(3, None, 4), slice(1, None, 4))


def is_linear(plan: GemmPlan) -> bool:
    """Are results proportional to an alpha of f32, but for bounds?"""
    words = _words(plan)
    return (not words or "alpha" in words) and words <= _LINEAR and plan.epilogue.scalar.word == "f32"


def alpha_of(plan: GemmPlan) -> float:
    """The alpha of such a call: a power of two by which some sums, of either sign, become larger than D's largest number, or 1
    where `enlarge` does that. 0 where no call does."""
    largest = _largest(plan)
    if not largest:
        return 0.0
    return _factor(plan, largest) if _has_alpha(plan) else 1.0


def enlarge(plan: GemmPlan, data: Operands) -> None:
    """Makes rows of A and B negative, so that large results have both signs, those of gated pairs too. Where the epilogue has no
    alpha, multiplies A and B by powers of two. Sums stay exact."""
    own = [data.a] if plan.spec.weights else [data.a, data.b]  # not weights, which have scales of their own
    left = 1.0 if _has_alpha(plan) else _factor(plan, _largest(plan))
    for matrix, rows in zip(own, _NEGATIVE, strict=False):
        numbers = values(matrix)
        room = LARGEST.get(matrix.word, math.inf) / max(np.abs(numbers).max(initial=0.0), 1.0)
        factor = 2.0 ** math.floor(math.log2(max(min(left, room, _MOST_FACTOR), 1.0)))
        left /= factor
        numbers *= factor
        if matrix.word[0] != "u":
            numbers[:, rows] = -np.abs(numbers[:, rows])
        matrix.view[...] = encode(numbers, matrix.word)


def _factor(plan: GemmPlan, largest: float) -> float:
    # The sums of K products differ from their mean by about the square root of K, and more.
    return 2.0 ** math.floor(math.log2(largest / math.sqrt(plan.tile[2])))


def _largest(plan: GemmPlan) -> float:
    """D's largest number; 0 where nothing shows what becomes of larger ones."""
    words, out = _words(plan), plan.epilogue.out.word
    if plan.epilogue.scalar.word != "f32" or not words <= _LINEAR | _FAR_FROM_F32:
        return 0.0
    largest = LARGEST.get(out, FINITE[out] if "saturate" in words else 0.0)
    small = largest <= _MOST_OF_SMALL_TYPES
    if not small and words & _FAR_FROM_F32:
        return 0.0
    # Packed elements have few bits, sums of f16 end where D does, and elements of f32 do not reach f32's largest number.
    can_enlarge = small and "packed" not in plan.parts and plan.atom.type_d.word != "f16"
    return largest if _has_alpha(plan) or can_enlarge else 0.0


def _has_alpha(plan: GemmPlan) -> bool:
    words = _words(plan)
    return not words or "alpha" in words


def _words(plan: GemmPlan) -> set[str]:
    return {one.word for one in plan.epilogue.operations or ()}
