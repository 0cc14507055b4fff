"""Smaller tiles to recommend if one does not fit a CTA."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from mmagen.families.wgmma import decisions
from mmagen.mma.atoms import Atom, wgmma_widths, with_n
from mmagen.plan.model import TiledMma
from mmagen.plan.tiling import tiled_mma
from mmagen.spec.model import Spec

# Beyond these no CTA holds the accumulators or two stages, whatever the other extents.
_MOST = (1024, 1024, 256)


def smaller_tiles(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> Iterator[dict[str, Any]]:
    """Changes to the spec that make the tile fit registers and shared memory, the least loss first; where not even one
    extent of the TiledMMA fits, narrower atoms; where none of these has room for so many stages or CTAs per SM, the same without
    these."""
    found = False
    for left_out in ({}, {"stages": None}, {"ctas_per_sm": None}, {"stages": None, "ctas_per_sm": None}):
        if any(getattr(spec, key) is None for key in left_out):
            continue
        for change in _that_fit(spec.model_copy(update=left_out), atom, mma, tile):
            found = True
            yield change | left_out
        if found:
            return


def _that_fit(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> Iterator[dict[str, Any]]:
    extents_m, extents_n, extents_k = (
        range(covered, min(extent, most) + 1, covered) for extent, covered, most in zip(tile, mma.extent, _MOST, strict=True)
    )
    for one in sorted(product(extents_m, extents_n, extents_k), key=lambda t: (-t[0] * t[1], -t[2], abs(t[0] - t[1]))):
        if _fits(spec, atom, mma, one):
            yield {"tile": one}
    for n in reversed([n for n in wgmma_widths(atom) if n < atom.n]):
        narrow = with_n(atom, n)
        changed = spec.model_copy(update={"atom": narrow.name})
        one = (mma.extent[0], mma.extent[1] // atom.n * n, min(tile[2], 128 // atom.type_a.bytes))
        if _fits(changed, narrow, tiled_mma(changed, narrow), one):
            yield {"atom": narrow.name, "tile": one}


def _fits(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> bool:
    if not decisions.registers_fit(spec, atom, mma, tile):
        return False
    a, b = (decisions.operand(letter, spec, atom, tile) for letter in "AB")
    return decisions.most_stages(spec, mma, a, b, decisions.epilogue(spec, atom, mma, tile)) >= max(spec.stages or 2, 2)
