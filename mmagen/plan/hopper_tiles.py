"""Tiles to recommend instead of one that does not fit a CTA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mmagen.atoms import Atom, wgmma_widths, with_n
from mmagen.plan import hopper
from mmagen.plan.model import TiledMma
from mmagen.plan.tiling import tiled_mma
from mmagen.spec import Spec

# Beyond this no CTA holds the accumulators, whatever the other extent.
_MOST_EXTENT = 1024


def smaller_tiles(spec: Spec, atom: Atom, mma: TiledMma, tile: hopper.Tile) -> Iterator[dict[str, Any]]:
    """Changes to the spec that make the tile fit registers and shared memory, the least loss first; where not even one
    extent of the TiledMMA fits, narrower atoms."""
    fitting = [one for one in _tiles(mma, tile) if _fits(spec, atom, mma, one)]
    for one in sorted(fitting, key=lambda t: (-t[0] * t[1], -t[2], abs(t[0] - t[1]))):
        yield {"tile": one}
    for n in reversed([n for n in wgmma_widths(atom.name.split("_", 2)[2]) if n < atom.n]):
        narrow = with_n(atom, n)
        changed = spec.model_copy(update={"atom": narrow.name})
        one = (mma.extent[0], mma.extent[1] // atom.n * n, min(tile[2], 128 // atom.type_a.bytes))
        if _fits(changed, narrow, tiled_mma(changed, narrow), one):
            yield {"atom": narrow.name, "tile": one}


def _tiles(mma: TiledMma, tile: hopper.Tile) -> Iterator[hopper.Tile]:
    """Smaller multiples of what the TiledMMA covers; along K only halves, since that costs no reuse."""
    k_tiles = [tile[2]]
    while k_tiles[-1] % (2 * mma.extent[2]) == 0:
        k_tiles.append(k_tiles[-1] // 2)
    for m in range(mma.extent[0], min(tile[0], _MOST_EXTENT) + 1, mma.extent[0]):
        for n in range(mma.extent[1], min(tile[1], _MOST_EXTENT) + 1, mma.extent[1]):
            yield from ((m, n, k) for k in k_tiles)


def _fits(spec: Spec, atom: Atom, mma: TiledMma, tile: hopper.Tile) -> bool:
    if sum(hopper.registers(spec, atom, mma, tile)) + hopper.REGISTERS_BESIDES > hopper.role_registers(spec, mma)[2]:
        return False
    a, b = (hopper.operand(letter, spec, atom, mma, tile) for letter in "AB")
    return hopper.most_stages(spec, mma, a, b, hopper.epilogue(spec, atom, mma, tile)) >= max(spec.stages or 2, 2)
