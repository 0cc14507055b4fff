"""Tiles and arrangements of atoms to begin a spec with, besides `mma_alternatives`; the rules decide which are legal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from mmagen.mma.atoms import Atom

Keys = dict[str, Any]

_EXTENTS = (32, 64, 96, 128, 192, 256)
_ROW_BYTES = (64, 128)  # of a k tile
_GRIDS = {1: ((8, 16), (8, 32), (16, 16)), 8: ((4, 4), (4, 8), (8, 4), (8, 8))}  # atoms along M and N, by threads of an atom
_MOST_SUMS = 128  # of a thread


def of_one_tile(atom: Atom) -> Iterator[Keys]:
    """A CTA of a few warps with two k blocks, then with one, then the operation alone."""
    rows, columns = {1: (16, 16), 8: (4, 4)}.get(atom.threads, (2, 2))
    for repeats in (2, 1):
        tile = [atom.m * rows, atom.n * columns * repeats, atom.k * repeats]
        yield {"tile": tile, "atoms_layout": [rows, columns, 1]}
    yield {"tile": [atom.m, atom.n, atom.k]}


def of_gemm(atom: Atom) -> Iterator[Keys]:
    """tile and atoms_layout of atoms of a thread or a quad pair, those with one CTA and with two CTAs per SM."""
    for (rows, columns), row_bytes in product(_GRIDS.get(atom.threads, ()), _ROW_BYTES):
        k = max(row_bytes * 8 // atom.type_a.bits, atom.k)
        for m, n in product(_EXTENTS, repeat=2):
            if m * n > _MOST_SUMS * rows * columns * atom.threads or max(m, n) > 4 * min(m, n):
                continue
            keys: Keys = {"tile": [m, n, k], "atoms_layout": [rows, columns, 1]}
            yield keys
            if m * n <= 128 * 128:
                yield keys | {"ctas_per_sm": 2}
