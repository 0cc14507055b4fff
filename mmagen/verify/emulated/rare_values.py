"""Operands of f32 with infinities, NaNs and numbers whose nearest bf16 is infinity, for kernels that multiply bf16 pieces
(docs/split.md)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.verify.emulated.formats import decode, encode

Array = npt.NDArray[np.float64]

# Bits of f32. The nearest bf16 of a number from 0x7f7f8000 on is infinity, and that of 0x7f7f7fff is not; two fill all three
# pieces. Of the last NaN the lower half alone says that it is none of the infinities.
_NOT_FINITE = (0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001)
_LARGE = (0x7F7FFFFF, 0xFF7FFFFF, 0x7F7FA5C3, 0xFF7FC9D7, 0x7F7F8000, 0x7F7F7FFF)
_ALONE = (*_NOT_FINITE, *_LARGE)  # meet usual numbers
_PART = 16  # columns
_K = 3 * _PART
LINES = len(_ALONE) + len(_NOT_FINITE) + 2
SHAPE = (LINES, LINES, _K)
_ROUNDINGS = 2.0**-19  # more than sums of f32 lose over _K columns, relative to the sum of magnitudes


def operands(seed: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """A (m, k) and B (n, k). Lines of A have a rare value in columns 0 to 15, those of B in 16 to 31, where they meet usual numbers
    and, in some lines, zeros; those that are not finite meet each other in column 32. All other elements have 24 bits, so that
    a neighbour that is lost is seen."""
    draw = np.random.default_rng(seed)
    both = []
    for _ in range(2):
        signs = draw.choice((-1.0, 1.0), (LINES, _K))
        both.append((signs * draw.uniform(0.125, 0.25, (LINES, _K))).astype(np.float32))
    a, b = both
    for matrix, first in ((a, 0), (b, _PART)):
        bits = matrix.view(np.uint32)
        for line, value in enumerate(_ALONE):
            bits[line, first + line] = value
        for line, value in enumerate(_NOT_FINITE, len(_ALONE)):
            bits[line, 2 * _PART] = value
    # Zeros in the last lines of the other matrix, in even columns of one and odd ones of the other: a large number times 0 leaves
    # its neighbour, with which it shares a register, to be seen.
    for line, odd in ((-1, 0), (-2, 1)):
        large = np.arange(len(_NOT_FINITE) + odd, len(_ALONE), 2)
        b[line, large] = 0.0
        a[line, _PART + large] = 0.0
    return a, b


def wrong_element(
    got: Array, a: npt.NDArray[Any], b: npt.NDArray[Any], word: str, left_out: float, least: float = -np.inf
) -> str:
    """Where D (m, n) of type `word` is not A B^T, or "". left_out: of a product, relative to it. least: what smaller sums
    become."""
    with np.errstate(invalid="ignore"):
        left, right = a.astype(np.float64), b.astype(np.float64).T
        expected = left @ right
        finite = np.isfinite(expected)
        bound = np.where(finite, (2 * left_out + _ROUNDINGS) * (np.abs(left) @ np.abs(right)), 0.0)
    # As stored: to e4m3 infinities saturate, and in f16 the largest numbers of f32 are infinite.
    low, high = (decode(encode(np.maximum(expected + sign * bound, least), word)) for sign in (-1, 1))
    right_ones = ((low <= got) & (got <= high)) | (np.isnan(got) & np.isnan(low))
    if right_ones.all():
        return ""
    at = tuple(map(int, np.argwhere(~right_ones)[0]))
    return f"at (m,n): {at} got {got[at]:.9g} expected {expected[at]:.9g}"
