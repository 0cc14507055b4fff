"""Configurations of an mma.sync GEMM that are worth measuring, as keys of a spec; the rules decide which of them are legal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mmagen.mma.atoms import Atom

# Warps along M and N of a tile, and the part of it that one warp multiplies: wider parts load less from shared memory for a
# multiplication, smaller ones make more tiles of a small problem.
_WARPS = ((1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2))
_WARP_TILES = ((64, 64), (64, 32), (32, 64), (32, 32), (16, 64), (16, 32))
_MOST_EXTENT = 256
_SHARED_SM = 128 * 128  # elements of the largest tile of which two CTAs are tried on an SM


def alternatives(atom: Atom, cp_async: bool) -> Iterator[Mapping[str, Any]]:
    """Keys that a config would override: tile, atoms_layout, permutation, stages and ctas_per_sm. None for atoms that are not of a
    warp.

    cp_async: does the mainloop have a choice of stages?
    """
    if atom.threads != 32:
        return
    for warps_m, warps_n in _WARPS:
        for warp_m, warp_n in _WARP_TILES:
            rows, columns = warps_m * warp_m, warps_n * warp_n
            if max(rows, columns) > _MOST_EXTENT:
                continue
            for line in (64, 128):  # bytes of a row of a k tile
                keys = {
                    "tile": [rows, columns, max(line * 8 // atom.type_a.bits, atom.k)],
                    "atoms_layout": [warps_m, warps_n, 1],
                    # Two atoms along N: one ldmatrix.x4 then loads B for both.
                    "permutation": [warps_m * atom.m, warps_n * 2 * atom.n, atom.k],
                }
                for ctas in (1, 2) if rows * columns <= _SHARED_SM else (1,):
                    for stages in (3, 4) if cp_async else (None,):
                        yield keys | ({"stages": stages} if stages else {}) | ({"ctas_per_sm": ctas} if ctas > 1 else {})
