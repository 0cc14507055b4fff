"""Tiles and arrangements of atoms to begin a spec with, of operations with operands in registers; the rules decide which are
legal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from mmagen.mma.atoms import Atom

Keys = dict[str, Any]

_EXTENTS = (32, 64, 96, 128, 192, 256)
_WARPS = ((1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2), (4, 4))
_THREAD_GRIDS = ((8, 16), (16, 16))  # of atoms of one thread
_ROW_BYTES = (64, 128)  # of a k tile
_MOST_WARP_TILE = 64 * 128  # elements of D that one warp can hold


def of_one_tile(atom: Atom) -> Iterator[Keys]:
    """A CTA of a few warps with two k blocks, then with one, then the operation alone."""
    rows, columns = {1: (16, 16), 8: (4, 4)}.get(atom.threads, (2, 2))
    for repeats in (2, 1):
        tile = [atom.m * rows, atom.n * columns * repeats, atom.k * repeats]
        yield {"tile": tile, "atoms_layout": [rows, columns, 1]}
    yield {"tile": [atom.m, atom.n, atom.k]}


def of_gemm(atom: Atom) -> Iterator[Keys]:
    """tile, atoms_layout and permutation, those with one CTA and with two CTAs per SM."""
    for (rows, columns), row_bytes in product(_grids(atom), _ROW_BYTES):
        permutation = _permutation(atom, rows, columns)
        k = max(row_bytes * 8 // atom.type_a.bits, atom.k)
        for m, n in product(_EXTENTS, repeat=2):
            if not _sensible(atom, (m, n), (rows, columns)):
                continue
            keys: Keys = {"tile": [m, n, k], "atoms_layout": [rows, columns, 1], **permutation}
            yield keys
            if m * n <= 128 * 128:
                yield keys | {"ctas_per_sm": 2}


def _grids(atom: Atom) -> Iterator[tuple[int, int]]:
    if atom.threads == 1:
        yield from _THREAD_GRIDS
        return
    per_warp = 32 // atom.threads
    for rows, columns in _WARPS:
        along = 2 if per_warp == 4 else 1
        yield rows * along, columns * per_warp // along


def _permutation(atom: Atom, rows: int, columns: int) -> Keys:
    """Two narrow atoms side by side, so that one ldmatrix loads the fragments of both."""
    if not atom.ldmatrix:
        return {}
    m, n = (atom.m * rows * (16 // min(atom.m, 16)), atom.n * columns * (16 // min(atom.n, 16)))
    return {"permutation": [m, n, atom.k]}


def _sensible(atom: Atom, tile: tuple[int, int], grid: tuple[int, int]) -> bool:
    """Whole and similar shares of a warp: elongated ones read more of A and B from shared memory than square ones."""
    m, n = (extent / count for extent, count in zip(tile, grid, strict=True))
    if m * n * atom.type_d.bits > _MOST_WARP_TILE * 32 * atom.threads / 32:
        return False
    return max(m, n) <= 4 * min(m, n) and max(tile) <= 4 * min(tile)
