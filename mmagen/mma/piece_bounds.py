"""Bounds on the error of sums of products of pieces, promoted part by part of K: docs/error-bounds.md derives them.

The generated projects compute the same in tests/mmagen/error_bound.cuh; tests/verify compares the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmagen.mma.accumulation import Accumulation

DEVIATIONS = 4.0
_LEAST = 1.0 / 16  # above what sums of small products of a k tile are
_PARTS = 16  # of K that are added at the end, at most
_ROUNDOFF_F32, _ROUNDOFF_F64 = 2.0**-24, 2.0**-53

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PiecePath:
    """What the sums of each element are on the way, as powers of two that are no larger: arrays of one shape.

    before: the sum over instructions of the square of the largest addend's. level: that of the sum's behind an instruction. square:
    over parts that are promoted, of the square of the level within one. added: over parts, of the square of what the part's sum
    is added to. spread: of all that is added at the end. steps: roundings of the largest products. residue: magnitude of the sum
    of the k tile that is added first, 0 where k tiles come in order.
    """

    before: Array
    level: Array
    square: Array
    added: Array
    spread: Array
    steps: int
    residue: Array


def path_of_pieces(of: Accumulation, a: Array, b: Array) -> tuple[Array, Array, PiecePath]:
    """(sum, magnitude, path) of A B^T: a [..., m, k] and b [..., n, k], float64."""
    shape = (*a.shape[:-1], b.shape[-2])
    total, size, low, high, begin, tile, before, level, square, added, residue = (np.zeros(shape) for _ in range(11))
    k = a.shape[-1]
    for first in range(0, k, of.chunk):
        part = slice(first, first + of.chunk)
        left, right = a[..., part], b[..., part].swapaxes(-1, -2)
        if first % of.promoted == 0:
            begin, tile = total, np.zeros(shape)
        if of.residue and first % of.residue == 0:
            residue = total
        largest = _leading(np.maximum(np.abs(total - begin) * (1 + 1 / 128), 1.0))
        before = before + largest * largest
        total, size = total + left @ right, size + np.abs(left) @ np.abs(right)
        behind = _leading(np.abs(total - begin) * (1 + 1 / 128) + _LEAST)
        level, tile = level + behind, tile + behind
        if (first + of.chunk) % of.promoted == 0 or first + of.chunk >= k:
            square = square + tile * tile
            low, high = np.minimum(low, total), np.maximum(high, total)
            reached = np.maximum(np.maximum(total - low, high - total), _LEAST)
            reached = reached if of.residue else _leading(reached)
            added = added + reached * reached
    spread = _leading(np.maximum(high - low, _LEAST))
    residue = np.abs(total - residue) if of.residue else residue
    return total, size, PiecePath(before, level, square, added, spread, math.ceil(k / of.chunk), residue)


def drift_of_pieces(
    of: Accumulation, k: int, path: PiecePath, magnitude: Array, symmetric: npt.NDArray[np.bool_] | bool
) -> Array:
    """How far the accumulator may be from the exact sum of k products of uniform inputs within 1. symmetric: where the products
    have independent random signs."""
    addends = of.chunk + 1
    worst = addends * np.sqrt(path.steps * path.before)
    aligned = np.where(symmetric, np.minimum(worst, DEVIATIONS * np.sqrt(addends * path.before)) + path.steps, worst)
    rounded = np.where(symmetric, np.minimum(path.level, DEVIATIONS * np.sqrt(path.square)), path.level)
    several = math.ceil(k / of.promoted)
    if of.residue:  # lies in all sums that follow
        promoted = DEVIATIONS * (np.sqrt(path.added) + math.sqrt(several) * path.residue)
    else:
        promoted = DEVIATIONS * np.sqrt(path.added + min(several, _PARTS) * path.spread**2)
    reference = min(k + 4, DEVIATIONS * math.sqrt(k + 4)) * _ROUNDOFF_F64
    return (
        2.0**-of.aligned * aligned * (1 + of.products / 64)
        + 2.0**-of.kept * (rounded + of.products * path.steps / 64)
        + _ROUNDOFF_F32 * promoted
        + left_out(of, magnitude)
        + reference * magnitude
    )


def left_out(of: Accumulation, magnitude: Array) -> Array:
    """What products leave out, whose rests have random signs. Products are within 1, so that the sum of their squares is no larger
    than that of their magnitudes."""
    return of.left_out * np.minimum(magnitude, DEVIATIONS * np.sqrt(magnitude))


def _leading(value: Array) -> Array:
    """The largest power of two that is no larger."""
    leading: Array = np.ldexp(1.0, np.frexp(value)[1] - 1)
    return leading
