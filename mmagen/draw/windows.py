"""What a picture or a grid of a matrix shows: its modes, the rows and columns of a window, and the label of a cell."""

from __future__ import annotations

from collections.abc import Mapping

from mmagen.mma.ownership import MODES, Ownership
from mmagen.plan.maps import Map

# Shown of a matrix without --window: as much as the pattern takes until it repeats, and at most this.
MOST_ROWS, MOST_COLUMNS = 32, 32

# Ranges by mode, begin and end; or None for everything.
Window = Mapping[str, tuple[int, int]] | None


def owner_text(thread: int, value: int) -> str:
    """`T05v2`."""
    return f"T{thread:02d}v{value}"


def modes_of(matrix: str) -> str:
    """The modes of its rows and columns, `MK`; of metadata and scales, those of A or B."""
    if matrix in MODES:
        return "".join("MNK"[mode] for mode in MODES[matrix])
    return "NK" if matrix == "SFB" else "MK"


def ranges(of: Map, table: Ownership, window: Window, most_columns: int = MOST_COLUMNS) -> tuple[range, range]:
    """The rows and columns that a window shows of a matrix; what no window says is as much as its pattern takes."""
    modes, extents = modes_of(table.matrix), (table.rows, table.columns)
    if window is None:
        return range(table.rows), range(table.columns)
    found = []
    for mode, extent, most in zip(modes, extents, (MOST_ROWS, most_columns), strict=True):
        covered = of.covers["MNK".index(mode)]
        begin, end = window.get(mode, (0, min(extent, max(covered, 8), most)))
        found.append(range(begin, min(end, extent)))
    return found[0], found[1]
