"""Configurations of a wgmma GEMM that are worth measuring, as keys of a spec; the rules decide which of them are legal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mmagen.mma.atoms import find_atom, with_columns

Keys = dict[str, Any]

USUAL = (16, 32, 64, 96, 128, 192, 256)  # widths
# Widths between them fit a tile to an extent of D a little above a multiple of a usual width, and save a partial last wave.
EVERY = (*range(16, 64, 8), *range(64, 257, 16), 72, 88, 104, 120)
_WIDEST_SWAPPED = 192
_WIDEST_OF_128_ROWS = 192  # columns, where a warpgroup has 128 rows: a thread then has one f32 accumulator per column
_WIDEST_OF_192_ROWS = 112  # 168 accumulators
_WIDEST_PROMOTED = 192  # of a unit whose partial sums fit the registers beside the accumulators of 64 x as many
_FEW_ROWS = 64  # of D; A is then small and stays in L2, B is read once
# Columns of a tile, and how many of them its calls may compute instead: cuBLASLt has kernels for most of these widths. Down to
# 0.56 to 0.7 of the tile; for fewer columns there is the next smaller tile.
NARROWER = {
    64: tuple(range(40, 64, 8)),
    96: tuple(range(56, 96, 8)),
    128: tuple(range(72, 128, 8)),
    160: tuple(range(112, 160, 8)),
    192: tuple(range(128, 192, 8)),
    256: tuple(range(176, 256, 16)),
}
# The more CTAs share operands, the less each loads, which counts where rows do not begin at multiples of 32 bytes. Fewer CTAs run
# at once, though: an H100 has room for 66 clusters of two, 30 of four and 15 of eight.
_CLUSTERS = ([1, 1], [2, 1], [1, 2], [2, 2], [4, 1], [1, 4], [4, 2], [2, 4])
_HIGH_BAND = 16
_STREAM = {"cache": {"a": "evict_last", "b": "evict_first"}, "prefetch": 4}


def alternatives(operation: str, widths: Iterable[int], promoted: bool = False) -> Iterator[Mapping[str, Any]]:
    """Keys that a config would override: atom, tile, atoms_layout, schedule and what else differs from their defaults.

    operation: the name of a wgmma. widths: columns of those of its types that are offered; what no operation has is left out.
    promoted: the sums of k tiles are added up in units of one wgmma, so that wide tiles have two of them along N."""
    of_types = find_atom(operation)
    for columns in sorted(widths):
        atom = with_columns(of_types, columns) if of_types else None
        if atom is None:
            continue
        name = atom.name
        for rows, warpgroups, schedule in _shapes(columns):
            for line in (128, 256) if rows == 64 and columns <= 64 else (128,):  # bytes of a row of a k tile
                depth = max(line * 8 // atom.type_a.bits, atom.k)
                yield from _variants(_keys(name, [rows, columns, depth], warpgroups, schedule))
        if promoted and 2 * columns > _WIDEST_PROMOTED >= columns:
            depth = max(128 * 8 // atom.type_a.bits, atom.k)
            yield from _variants(_keys(name, [128, 2 * columns, depth], 2, "cooperative"))


def with_parts_of_k(operation: str, depths: Iterable[int], most: int) -> Iterator[Mapping[str, Any]]:
    """Cooperative kernels of 2 to `most` consumer warpgroups that take the k tiles of a tile in turn; the weights are A. Not all of
    these need be legal.

    operation: the name of a wgmma. depths: columns of k tiles. The conversion of the weights limits these kernels
    (docs/performance.md). Atoms of 8 columns, which EVERY lacks, are included.
    """
    of_types = find_atom(operation)
    for columns in (8, *(n for n in sorted(EVERY) if n <= _FEW_ROWS)):
        atom = with_columns(of_types, columns) if of_types else None
        if atom is None:
            continue
        for depth in depths:
            for keys in _variants(_keys(atom.name, [64, columns, depth], 1, "cooperative")):
                if keys.get("operands") != "swapped":
                    continue
                without_hints = {key: value for key, value in keys.items() if key not in _STREAM}
                for one in (keys, without_hints) if without_hints != keys else (keys,):
                    yield from (one | {"warpgroups": parts} for parts in range(2, most + 1))


def several_widths(operation: str, widths: Mapping[int, Sequence[int]]) -> Iterator[Mapping[str, Any]]:
    """Kernels whose calls compute all columns of a tile or fewer, as configs with `clusters`. Not all of these need be legal.

    operation: the name of a wgmma. widths: columns of a tile -> how many of them a call may compute instead, ascending.
    """
    of_types = find_atom(operation)
    for columns, narrower in widths.items():
        atom = with_columns(of_types, columns) if of_types else None
        if atom is None:
            continue
        depth = max(128 * 8 // atom.type_a.bits, atom.k)
        for rows, warpgroups, schedule in _shapes(columns):
            if rows == 64 and schedule == "cooperative":  # for few rows of D, which other widths do not help
                continue
            keys = _keys(atom.name, [rows, columns, depth], warpgroups, schedule)
            # Whole tiles alone are left to kernels of one width, which are other candidates.
            yield from _in_both_orders(keys | _launches(narrower))
            if schedule == "cooperative" and rows == 128 and columns >= 128:
                # For few tiles and a long K: the width fits an extent of D, the parts of K fill the SMs. Such problems need any
                # width, and a library has room for few such kernels: hence down to half of the tile. Each width takes time to
                # compile: hence in steps of 16.
                yield from _in_both_orders(keys | {"split_k": "auto"} | _launches(range(columns // 2, columns, 16)))


def _launches(widths: Sequence[int]) -> Keys:
    return {"clusters": [{"cluster": one, "tile_n": tuple(widths)} for one in _CLUSTERS]}


def _in_both_orders(keys: Keys) -> Iterator[Keys]:
    yield keys
    yield keys | {"operands": "swapped"}


def _keys(name: str, tile: list[int], warpgroups: int, schedule: str) -> Keys:
    """With bands of 16 tile rows in place of 8 if the tiles that run at once are then closer to a square, whose operands are the
    fewest bytes: 132 of 128 x 256 are 2,048 x 2,112 elements in place of 1,024 x 4,224."""
    rows, columns, _ = tile
    bands = {"raster": _HIGH_BAND} if rows >= 128 and 2 * columns >= 3 * rows else {}
    return {"atom": name, "tile": tile, "atoms_layout": [warpgroups, 1, 1], "schedule": schedule} | bands


def _shapes(columns: int) -> Iterator[tuple[int, int, str]]:
    """(rows of a tile, warpgroups that share it, schedule)."""
    yield 64, 1, "pingpong"
    yield 64, 1, "cooperative"
    yield 128, 2, "cooperative"
    if columns <= _WIDEST_OF_128_ROWS:
        yield 128, 1, "pingpong"
        yield 256, 2, "cooperative"
    if 64 <= columns <= _WIDEST_OF_192_ROWS:
        yield 192, 1, "pingpong"
    if 128 <= columns <= 192:  # three warpgroups leave 128 registers for a thread
        yield 192, 3, "cooperative"


def _variants(keys: Keys) -> Iterator[Keys]:
    """With clusters, with K split, with exchanged operands."""
    (rows, columns, _), schedule = keys["tile"], keys["schedule"]
    for swapped in (False, True) if columns <= _WIDEST_SWAPPED else (False,):
        of_d = columns if swapped else rows
        base = keys | ({"operands": "swapped"} if swapped else {})
        for cluster in _CLUSTERS:
            one = base | ({} if cluster == [1, 1] else {"cluster": cluster})
            alone = cluster == [1, 1]
            yield one | (_STREAM if alone and of_d <= _FEW_ROWS and schedule == "cooperative" else {})
            if schedule == "cooperative" and rows >= 128 and not swapped:
                yield one | {"stream_k": "last_wave"}
            if schedule == "cooperative" and (rows >= 128 or (swapped and alone)):
                yield one | (_STREAM if of_d <= _FEW_ROWS and alone else {}) | {"stream_k": "always"}
            if schedule == "cooperative":
                for split in (2, 4, "auto") if alone else ("auto",):
                    yield one | (_STREAM if of_d <= _FEW_ROWS and alone else {}) | {"split_k": split}
