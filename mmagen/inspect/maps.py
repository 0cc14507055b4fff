"""Maps of owners as grids: a cell `T05v2` is value 2 of thread 5. Of an operand in shared memory a cell is 16 bytes of its
stage, or one element in a narrower window: the core matrix, and the byte at which it begins."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from mmagen.core.errors import UsageError
from mmagen.core.screen import fold
from mmagen.draw.windows import MOST_COLUMNS, Window, modes_of, owner_text, ranges
from mmagen.mma.ownership import Ownership
from mmagen.plan.maps import Map

CHUNK = 16  # bytes of a row of a core matrix
_LINES = 8  # rows of a core matrix
_INDENT = 2
# Colours of the 256-colour palette that differ on dark and on light backgrounds; neighbouring threads get different ones.
_COLOURS = (33, 208, 34, 201, 142, 39, 160, 99, 37, 172, 70, 205, 63, 130, 30, 135)


def parse_window(text: str) -> Window:
    """`m=0:32,n=8:16` as {"M": (0, 32), "N": (8, 16)}; `all` as None. Raises UsageError."""
    if text == "all":
        return None
    window = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([mnk])\s*=\s*(\d+)\s*:\s*(\d+)\s*", part, re.IGNORECASE)
        if not match or int(match[2]) >= int(match[3]) or match[1].upper() in window:
            raise UsageError(f"--window {text}: write ranges of modes as m=0:32,n=8:16,k=0:16, or all")
        window[match[1].upper()] = (int(match[2]), int(match[3]))
    return window


def text(maps: Sequence[Map], window: Window, columns: int | None = None, colour: bool = False) -> str:
    """All maps. window: what to show of each matrix, {} for as much as is legible. columns: characters of a line."""
    parts = []
    for one in maps:
        parts.append(fold(one.title, columns))
        parts += [_indented(_matrix(one, table, window, columns, colour)) for table in one.tables]
    return "\n\n".join(parts) + "\n"


def to_json(maps: Sequence[Map]) -> list[dict[str, Any]]:
    """For each map its title and matrices. Of registers, threads[t][v] is the element row * columns + column that is value v of
    thread t; of shared memory, bytes[row * columns + column] is its distance from the begin of the stage."""
    return [
        {"title": one.title, "covers": one.covers, "matrices": [_table_json(table) for table in one.tables]} for one in maps
    ]


def _table_json(table: Ownership) -> dict[str, Any]:
    head = {"matrix": table.matrix, "rows": table.rows, "columns": table.columns}
    if table.stage is None:
        return {**head, "place": "registers", "threads": table.elements}
    return {**head, "place": "shared memory", "bytes": _bytes(table, table.stage.element_bytes)}


def _bytes(table: Ownership, element_bytes: int) -> list[int]:
    """The byte of each element within its stage."""
    places = [0] * (table.rows * table.columns)
    for place, element in enumerate(table.elements[0]):
        places[element] = place * element_bytes
    return places


# --- Grids -----------------------------------------------------------------------------------------------------------


def _matrix(of: Map, table: Ownership, window: Window, width: int | None, colour: bool) -> str:
    modes = modes_of(table.matrix)
    if table.stage:
        return _stage(table, table.stage.element_bytes, table.stage.contiguous_columns, window, width, colour)
    owners = table.owners()
    cell = len(owner_text(len(table.elements) - 1, max(map(len, table.elements)) - 1))
    fit = MOST_COLUMNS if width is None else max(4, min(MOST_COLUMNS, (width - 12) // (cell + 1)))
    rows, columns = ranges(of, table, window, fit)
    if not rows or not columns:
        return f"{_axes(table)}: the window lies outside"
    shown = ((modes[0].lower(), rows, table.rows), (modes[1].lower(), columns, table.columns))
    lines = [fold(f"{_axes(table)}: {_values(table)}{_sharing(owners)}", _within(width)), *_cut(shown, width)]
    lines.append(_ruler(modes[1], columns, cell, table.rows))
    for row in rows:
        cells = [_cell(owners[row * table.columns + column], cell, colour) for column in columns]
        lines.append(f"{_label(modes[0], row, table.rows)}  {' '.join(cells)}".rstrip())
    return "\n".join(lines)


def _cell(owners: Sequence[tuple[int, int]], width: int, colour: bool) -> str:
    thread, value = owners[0]
    return _painted(owner_text(thread, value).ljust(width), thread, colour)


def _painted(text: str, number: int, colour: bool) -> str:
    return f"\x1b[38;5;{_COLOURS[number % len(_COLOURS)]}m{text}\x1b[0m" if colour else text


def _axes(table: Ownership) -> str:
    modes = modes_of(table.matrix)
    return f"{table.matrix} ({modes[0]},{modes[1]}), {table.rows} x {table.columns}"


def _values(table: Ownership) -> str:
    counts = Counter(map(len, table.elements))
    counts.pop(0, None)  # lanes of a warp that take no part
    count = max(counts)
    return f"{count} value{'s' * (count != 1)} per thread"


def _sharing(owners: Sequence[Sequence[tuple[int, int]]]) -> str:
    """How the other owners of an element follow from the first, or how many there are."""
    count = len(owners[0])
    if count == 1:
        return ""
    steps = {tuple((thread - each[0][0], value - each[0][1]) for thread, value in each[1:]) for each in owners}
    (first, *others) = steps
    if not others and all(value == 0 for _, value in first):
        distances = ", ".join(f"T+{thread}" for thread, _ in first)
        return f"; {count} threads own each element, T and {distances}: the grid shows T"
    return f"; {count} threads own each element: the grid shows the first"


def _within(width: int | None) -> int | None:
    """Characters of a line of a matrix, which is indented."""
    return None if width is None else width - _INDENT


def _cut(shown: Sequence[tuple[str, range, int]], width: int | None, more: str = "") -> list[str]:
    """A line that says what is left out, if anything is. shown: for each mode what is shown, and its extent; more: what other
    windows show."""
    if all(len(part) == extent for _, part, extent in shown):
        return []
    what = ", ".join(f"{mode} {part[0]} to {part[-1]} of {extent}" for mode, part, extent in shown)
    other = ",".join(f"{mode}=BEGIN:END" for mode, _, _ in shown)
    return [fold(f"a window, {what}; --window {other} shows another, --window all everything{more}", _within(width))]


def _label(mode: str, index: int, extent: int) -> str:
    return f"{mode.lower()}{index:<{len(str(extent - 1))}d}"


def _ruler(mode: str, columns: Sequence[int], cell: int, rows: int) -> str:
    margin = " " * (len(_label("m", 0, rows)) + 2)
    return (margin + " ".join(f"{mode.lower()}{column}".ljust(cell) for column in columns)).rstrip()


def _stage(table: Ownership, element_bytes: int, along_columns: bool, window: Window, width: int | None, colour: bool) -> str:
    """Rows are lines of the contiguous mode, columns its chunks of 16 bytes; of a window that cuts a chunk, its elements."""
    assert table.stage
    modes = modes_of(table.matrix)
    per_chunk = CHUNK // element_bytes
    lines_mode, chunk_mode = (modes[0], modes[1]) if along_columns else (modes[1], modes[0])
    lines_extent, extent = (table.rows, table.columns) if along_columns else (table.columns, table.rows)
    places = _bytes(table, element_bytes)
    digits = max(3, len(f"{len(places) * element_bytes - 1:x}"))
    matrix_digits = len(f"{(lines_extent - 1) // _LINES},{(extent - 1) // per_chunk}")
    cell = matrix_digits + digits + 3
    rows, elements = _stage_window(lines_mode, chunk_mode, (lines_extent, extent), window, per_chunk, cell, width)
    if not rows or not elements:
        return f"{_axes(table)}: the window lies outside"
    step = 1 if elements.start % per_chunk or elements.stop % per_chunk else per_chunk
    many = step > 1
    what = [
        f"{_axes(table)}: {len(places) * element_bytes:,} B in shared memory, {chunk_mode} contiguous; each cell is "
        + (f"{step} elements of {element_bytes} B along {chunk_mode}:" if many else f"an element of {element_bytes} B:"),
        f"(line / {_LINES}, chunk) of {'their' if many else 'its'} core matrix of {_LINES} x {CHUNK} B, and the byte of the stage "
        f"where {'they begin' if many else 'it begins'} (hexadecimal){table.stage.note}",
    ]
    shown = ((lines_mode.lower(), rows, lines_extent), (chunk_mode.lower(), elements, extent))
    each = "; a window that begins or ends within 16 bytes shows single elements" if many else ""
    lines = [*(fold(line, _within(width)) for line in what), *_cut(shown, width, each)]
    columns = elements[::step]
    lines.append(_ruler(chunk_mode, columns, cell, lines_extent))
    for line in rows:
        cells = []
        for column in columns:
            at = (line, column) if along_columns else (column, line)
            chunk = column // per_chunk
            core = f"({line // _LINES},{chunk})".ljust(matrix_digits + 2)
            place = f"{places[at[0] * table.columns + at[1]]:0{digits}x}"
            cells.append(_painted(f"{core} {place}", chunk + 3 * (line // _LINES), colour))
        lines.append(f"{_label(lines_mode, line, lines_extent)}  {' '.join(cells)}")
    return "\n".join(lines)


def _stage_window(
    lines_mode: str,
    chunk_mode: str,
    extents: tuple[int, int],
    window: Window,
    per_chunk: int,
    cell: int,
    width: int | None,
) -> tuple[range, range]:
    """Lines and elements to show: without a window two core matrices and the chunks that fit."""
    if window is None:
        return range(extents[0]), range(extents[1])
    most = 8 if width is None else max(2, min(8, (width - 12) // (cell + 1)))
    lines = window.get(lines_mode, (0, min(extents[0], 2 * _LINES)))
    elements = window.get(chunk_mode, (0, min(extents[1], most * per_chunk)))
    return range(lines[0], min(lines[1], extents[0])), range(elements[0], min(elements[1], extents[1]))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
