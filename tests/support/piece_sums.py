"""Sums of products of bf16 pieces of f32, as a kernel computes them but exact, against the bound."""

from __future__ import annotations

import numpy as np

from mmagen.mma.accumulation import Accumulation
from mmagen.mma.piece_bounds import drift_of_pieces, path_of_pieces
from mmagen.mma.pieces import PRODUCTS, pieces_of


def split(x, count):
    """The pieces of f32 numbers, to the nearest bf16."""
    rest, found = x.astype(np.float32), []
    for _ in range(count):
        bits = rest.view(np.uint32)
        piece = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
        found.append(piece)
        rest = rest - piece
    return [piece.astype(np.float64) for piece in found]


def check_bound(of: Accumulation, word: str, k: int) -> np.ndarray:
    """Exact sums of the products that are computed stay within half of the bound; without any one of them some exceed it. Returns
    the bound."""
    rng = np.random.default_rng(7)
    a, b = (rng.uniform(-1, 1, (96, k)).astype(np.float32) for _ in range(2))
    exact, magnitude, path = path_of_pieces(of, a.astype(np.float64), b.astype(np.float64))
    bound = drift_of_pieces(of, k, path, magnitude, True)
    pieces_a, pieces_b = split(a, pieces_of(word)), split(b, pieces_of(word))
    parts = {pair: pieces_a[pair[0]] @ pieces_b[pair[1]].T for pair in PRODUCTS[word]}
    assert np.all(np.abs(sum(parts.values()) - exact) < bound / 2)
    for pair, part in parts.items():
        assert np.any(np.abs(sum(parts.values()) - part - exact) > bound), pair
    return bound
