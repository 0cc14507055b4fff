"""Maps of owners as SVG. Drawn from the tables of `plan.maps` and nothing else.

`tensor-layouts` draws through matplotlib, which takes seconds and megabytes for a CTA tile; these are a path a thread. Cells with
a title say on hovering what they are; a README shows a picture as an image, which does not hover, so that its cells have none.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmagen.draw import stored
from mmagen.draw.grid import grid
from mmagen.draw.svg import HIGH, MARGIN, Picture, colour, document, labels, number, runs
from mmagen.draw.windows import Window, modes_of, owner_text, ranges
from mmagen.mma.ownership import Ownership
from mmagen.plan.maps import Map, Stored

_LABELLED = 1024  # cells, at most, that have a text and a title each
WIDE = 46  # pixels of a cell with a text
DOT = 6  # pixels of a cell without


def pictures(maps: Sequence[Map], window: Window) -> list[Picture]:
    """The owners of each matrix of each map, cut to the window, and the stages of operands in shared memory."""
    found = []
    for at, one in enumerate(maps):
        places = {of.table.matrix: of for of in one.stored}
        for table in one.tables:
            if table.stage is None:
                found.append(owners(f"{at}-{table.matrix}", one, table, window, places.get(table.matrix)))
        found += [drawn for of in one.stored for drawn in stored.pictures(f"{at}-{of.table.matrix}", one.title, of)]
    return found


def still(of: Map) -> list[Picture]:
    """What `pictures` shows of a map without a window, without titles of cells, and of a stage only as many rows as its swizzle
    takes to repeat: a tenth of the bytes."""
    found = [owners(table.matrix, of, table, {}, titled=False) for table in of.tables if table.stage is None]
    for one in of.stored:
        found += stored.pictures(one.table.matrix, of.title, one, titled=False)
    return found


def owners(
    name: str, of: Map, table: Ownership, window: Window = None, places: Stored | None = None, titled: bool = True
) -> Picture:
    """A matrix coloured by thread; with few elements, each with its thread and value. places: where it lies in shared memory;
    titled: do cells say on hovering what they are?"""
    rows, columns = ranges(of, table, window)
    modes = modes_of(table.matrix)
    title = f"{table.matrix} ({modes[0]},{modes[1]}), {table.rows} x {table.columns}: {of.title}"
    if len(rows) < table.rows or len(columns) < table.columns:
        title += f"; rows {rows.start} to {rows.stop - 1}, columns {columns.start} to {columns.stop - 1}"
    labelled = len(rows) * len(columns) <= _LABELLED
    wide, high = (WIDE, HIGH) if labelled else (DOT, DOT)
    cells = table.owners_in(rows, columns)
    if labelled and titled:
        body = [
            _cell(table, row, column, cells[i][j], (i * high, j * wide), places)
            for i, row in enumerate(rows)
            for j, column in enumerate(columns)
        ]
    else:
        body = _paths([[cell[0][0] for cell in row] for row in cells], wide, high)
        if labelled:
            body += labels([[owner_text(*cell[0]) for cell in row] for row in cells], wide)
    step = 1 if labelled else 16
    numbers = [
        *(
            number(MARGIN + j * wide + wide // 2, MARGIN - 6, f"{modes[1].lower()}{columns[j]}")
            for j in range(0, len(columns), step)
        ),
        *(number(16, MARGIN + i * high + high // 2 + 4, f"{modes[0].lower()}{rows[i]}") for i in range(0, len(rows), step)),
    ]
    drawn = f'<g transform="translate({MARGIN} {MARGIN})">{"".join(body)}</g>{"".join(numbers)}'
    svg = document(title, MARGIN + len(columns) * wide, MARGIN + len(rows) * high, drawn)
    return Picture(name, title, svg, "" if labelled else grid(table, places, (rows, columns), DOT, MARGIN))


def _cell(
    table: Ownership,
    row: int,
    column: int,
    owners: Sequence[tuple[int, int]],
    at: tuple[int, int],
    places: Stored | None,
) -> str:
    says = f"{table.matrix}({row},{column}): " + ", ".join(f"thread {thread} value {value}" for thread, value in owners)
    if places:
        says += stored.place(places, row, column)
    y, x = at
    return (
        f'<g><title>{says}</title><rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" fill="{colour(owners[0][0])}"/>'
        f'<text x="{x + WIDE // 2}" y="{y + 14}">{owner_text(*owners[0])}</text></g>'
    )


def _paths(threads: Sequence[Sequence[int]], wide: int, high: int) -> list[str]:
    """A path for each thread, of runs of its cells in a row."""
    return [
        f'<path fill="{colour(thread)}" d="{found}"><title>thread {thread}</title></path>'
        for thread, found in runs(threads, wide, high).items()
    ]
