"""Bounds on the error of sums of products, from what the hardware keeps: docs/error-bounds.md derives them.

The generated projects compute the same in tests/mmagen/error_bound.cuh; tests/verify compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmagen.mma.accumulation import Accumulation
from mmagen.mma.piece_bounds import left_out

DEVIATIONS = 4.0  # of a sum of n independent errors: DEVIATIONS * sqrt(n) of them at once
BLOCK = 32  # elements of K between two looks at a partial sum
_ROUNDOFF_F32, _ROUNDOFF_F64 = 2.0**-24, 2.0**-53
_F16 = 10  # bits behind the leading one

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Path:
    """What the partial sums of each element are on the way: float64 arrays of one shape.

    reach: none is larger, in whatever part of K an accumulator begins. level, square: with promotion, the sums over blocks of
    K of the leading bit of the largest addend, and of its square. weight: the sum of 1 for each block. With scales that change
    along K a block counts as often as its scale says.
    """

    reach: Array
    level: Array
    square: Array
    weight: Array


def growth(step: float, count: float) -> float:
    """(1 + step)^count - 1, without cancellation."""
    return math.expm1(count * math.log1p(step))


def together(count: float) -> float:
    """How many of `count` errors of one size add up, where their signs are independent."""
    return min(count, DEVIATIONS * math.sqrt(count))


def drift_within(
    of: Accumulation, k: int, reach: Array, largest: Array | float, symmetric: npt.NDArray[np.bool_] | bool
) -> Array:
    """How far the accumulator may be from the exact sum of k products, the error of a reference in float64 included.

    reach: no partial sum and no product is larger. largest: no product is. symmetric: where the products have independent random
    signs.
    """
    if not of.kept:
        return np.zeros_like(reach)
    chunks = of.products * math.ceil(k / of.chunk)
    dropped = 2.0**-of.aligned if of.aligned else 0.0
    products = np.where(symmetric, together(of.products * k), float(of.products * k))
    # Parts of K that have accumulators of their own are added at the end: no more than one for every block.
    rounded = together(chunks + math.ceil(k / BLOCK)) / 2 if of.nearest else chunks
    grown = np.expm1(products * dropped + rounded * 2.0**-of.kept)
    subnormal = chunks * 2.0**-25 if of.kept == _F16 else 0.0
    # The accumulator loses bits where a product is larger.
    return (grown + together(k + 4) * _ROUNDOFF_F64) * reach + (1 + grown) * chunks * dropped * largest + subnormal


def drift(of: Accumulation, k: int, path: Path, magnitude: Array, symmetric: npt.NDArray[np.bool_] | bool) -> Array:
    """The same of uniform inputs, whose products are within 1, with what is known of the path. magnitude: sum_k |a b|."""
    if not of.promoted:
        return drift_within(of, k, path.reach, 1.0, symmetric) + left_out(of, magnitude)
    dropped = 2.0**-of.aligned
    worst = BLOCK * path.level
    products = np.where(symmetric, np.minimum(worst, DEVIATIONS * np.sqrt(BLOCK * path.square)), worst)
    sums = dropped * (products + path.weight) + 2.0**-of.kept * (2 * path.level + magnitude)
    grown = math.exp((BLOCK + 2) * math.ceil(of.promoted / BLOCK) * dropped)
    tiles = math.ceil(k / of.promoted)
    return sums * grown + (together(tiles) * _ROUNDOFF_F32 + together(k + 4) * _ROUNDOFF_F64) * magnitude


def path_of(of: Accumulation, a: Array, b: Array, scale: Callable[[int], Array] | None = None) -> tuple[Array, Array, Path]:
    """(sum, magnitude, path) of A B^T: a [..., m, k] and b [..., n, k], float64.

    scale: by which the sum of products that begin at an element of K is multiplied, [..., m, n]; only with promotion, and no k
    tile has two.
    """
    shape = (*a.shape[:-1], b.shape[-2])
    total, size, low, high, widest, tile, level, square, weight = (np.zeros(shape) for _ in range(9))
    for first in range(0, a.shape[-1], BLOCK):
        part = slice(first, first + BLOCK)
        left, right = a[..., part], b[..., part].swapaxes(-1, -2)
        block = np.abs(left) @ np.abs(right)
        if of.promoted:
            if first % of.promoted == 0:
                tile = np.zeros(shape)
            # A little more than the exact sum, as the accumulator may be; 1 is the largest product of uniform inputs.
            largest = np.maximum(np.abs(tile) * (1 + 1 / 128), 1.0)
            factor = np.abs(scale(first)) if scale else 1.0
            carried = factor * np.ldexp(1.0, np.frexp(largest)[1] - 1)
            level, square, weight = level + carried, square + carried * carried, weight + factor
            block = factor * block
        product = left @ right
        if of.promoted:
            tile = tile + product
        total = total + (scale(first) * product if scale else product)
        size = size + block
        np.minimum(low, total, out=low)
        np.maximum(high, total, out=high)
        np.maximum(widest, block, out=widest)
    reach = of.turns * (high - low) + 2 * widest
    if of.shuffled:
        reach = reach + DEVIATIONS * np.sqrt(size)
    return total, size, Path(reach, level, square, weight)
