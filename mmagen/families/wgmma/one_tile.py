"""Shared by the wgmma kernels of one CTA with one tile: rules of the tile, and the operands in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mmagen.core.errors import ABSENT, Change, Fault
from mmagen.families.wgmma import decisions
from mmagen.plan import budgets, tiling
from mmagen.plan.model import Operand, TiledMma


def tile_faults(mma: TiledMma, tile: tiling.Tile) -> Iterator[Fault]:
    """The first fault of a tile that does not consist of whole TiledMMAs, or of more threads than a CTA has; for a legal
    layout and atoms_layout."""
    for i, (extent, covered) in enumerate(zip(tile, mma.extent, strict=True)):
        if extent % covered:
            yield Fault(
                ("tile", i),
                f"{extent} is not a multiple of the {covered} that the TiledMMA covers along {tiling.MODES[i]}",
                f"atom x atoms_layout covers {list(mma.extent)}: {max(extent // covered, 1) * covered}",
                {("tile", i): max(extent // covered, 1) * covered},
            )
            return
    if mma.threads > budgets.REGISTERS_PER_SM // 64:
        yield Fault(
            ("atoms_layout",),
            f"{mma.threads // decisions.WARPGROUP} warpgroups are {mma.threads} threads",
            "at most 1024: 8 atoms",
            {("atoms_layout",): tiling.fewer_atoms(mma.atoms, 8), ("tile",): ABSENT},
        )


def smaller_tile(tile: tiling.Tile, mma: TiledMma, fits: Callable[[tiling.Tile], bool]) -> Change:
    """The change to the largest tile that fits; where not even one extent of the TiledMMA does, to one warpgroup."""
    change = tiling.smaller(tile, mma.extent, fits)
    return {("atoms_layout",): [1, 1, 1], ("tile",): ABSENT} if ("permutation",) in change else change


def smem_bytes(*operands: Operand) -> int:
    """Bytes of the tiles, each aligned for the widest swizzle."""
    return sum(-(-one.bytes_per_stage // decisions.SMEM_ALIGNMENT) * decisions.SMEM_ALIGNMENT for one in operands)


def smem_fault(total: int) -> Iterator[Fault]:
    """Fault for tiles of so many bytes that no CTA holds them."""
    limit = budgets.smem_limit(decisions.ARCH)
    if total > limit:
        yield Fault(
            ("tile",),
            f"the tile needs {total:,} B of shared memory, the maximum per CTA is {limit:,} B",
            "make the tile smaller: A and B take (M + N) x K elements",
        )
