"""Maps of owners, and operands in the banks of shared memory, as SVG. Drawn from the tables of `plan.maps` and nothing else.

`tensor-layouts` draws through matplotlib, which takes seconds and megabytes for a CTA tile; these are a path a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmagen.draw.svg import Picture, colour, document
from mmagen.inspect.maps import Window, owner_text, ranges
from mmagen.mma.ownership import MODES, Ownership
from mmagen.plan.maps import Map

WORD, BANKS = 4, 32
_LABELLED = 1024  # cells, at most, that have a text and a title each
_WIDE, _HIGH = 46, 20  # pixels of a cell with a text
_DOT = 6  # pixels of a cell without
_MARGIN = 34


def pictures(maps: Sequence[Map], window: Window) -> list[Picture]:
    """The owners of each matrix of each map, cut to the window, and the stages of operands in shared memory."""
    found = []
    for number, one in enumerate(maps):
        stages = {table.matrix: table for table in one.staged}
        for table in one.tables:
            if table.stage is None:
                found.append(owners(f"{number}-{table.matrix}", one, table, window, stages.get(table.matrix)))
        found += [_banks(f"{number}-{table.matrix}-banks", one, table) for table in one.staged]
    return found


def owners(name: str, of: Map, table: Ownership, window: Window = None, stage: Ownership | None = None) -> Picture:
    """A matrix coloured by thread; with few elements, each with its thread and value. stage: where it lies in shared memory."""
    rows, columns = ranges(of, table, window)
    modes = "".join("MNK"[mode] for mode in MODES[table.matrix]) if table.matrix in MODES else "MK"
    title = f"{table.matrix} ({modes[0]},{modes[1]}), {table.rows} x {table.columns}: {of.title}"
    if len(rows) < table.rows or len(columns) < table.columns:
        title += f"; rows {rows.start} to {rows.stop - 1}, columns {columns.start} to {columns.stop - 1}"
    owners = table.owners()
    labelled = len(rows) * len(columns) <= _LABELLED
    wide, high = (_WIDE, _HIGH) if labelled else (_DOT, _DOT)
    if labelled:
        bytes_of = _bytes(stage)
        body = [
            _cell(table, row, column, owners[row * table.columns + column], (i * high, j * wide), bytes_of)
            for i, row in enumerate(rows)
            for j, column in enumerate(columns)
        ]
    else:
        body = _paths([[owners[row * table.columns + column][0][0] for column in columns] for row in rows])
    step = 1 if labelled else 16
    numbers = [
        *(
            _number(_MARGIN + j * wide + wide // 2, _MARGIN - 6, f"{modes[1].lower()}{columns[j]}")
            for j in range(0, len(columns), step)
        ),
        *(_number(16, _MARGIN + i * high + high // 2 + 4, f"{modes[0].lower()}{rows[i]}") for i in range(0, len(rows), step)),
    ]
    drawn = f'<g transform="translate({_MARGIN} {_MARGIN})">{"".join(body)}</g>{"".join(numbers)}'
    return Picture(name, title, document(title, _MARGIN + len(columns) * wide, _MARGIN + len(rows) * high, drawn))


def _cell(
    table: Ownership, row: int, column: int, owners: Sequence[tuple[int, int]], at: tuple[int, int], bytes_of: Sequence[int]
) -> str:
    says = f"{table.matrix}({row},{column}): " + ", ".join(f"thread {thread} value {value}" for thread, value in owners)
    if bytes_of:
        byte = bytes_of[row * table.columns + column]
        says += f"; byte {byte} of its stage, bank {byte // WORD % BANKS}"
    y, x = at
    return (
        f'<g><title>{says}</title><rect x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}" fill="{colour(owners[0][0])}"/>'
        f'<text x="{x + _WIDE // 2}" y="{y + 14}">{owner_text(*owners[0])}</text></g>'
    )


def _bytes(stage: Ownership | None) -> list[int]:
    """The byte of each element in its stage; [] without one."""
    if stage is None or stage.stage is None:
        return []
    found = [0] * (stage.rows * stage.columns)
    for place, element in enumerate(stage.elements[0]):
        found[element] = place * stage.stage.element_bytes
    return found


def _paths(cells: Sequence[Sequence[int]]) -> list[str]:
    """A path for each thread, of runs of its cells in a row."""
    runs: dict[int, list[str]] = {}
    for i, row in enumerate(cells):
        j = 0
        while j < len(row):
            end = j
            while end < len(row) and row[end] == row[j]:
                end += 1
            runs.setdefault(row[j], []).append(f"M{j * _DOT} {i * _DOT}h{(end - j) * _DOT}v{_DOT}h-{(end - j) * _DOT}z")
            j = end
    return [
        f'<path fill="{colour(thread)}" d="{"".join(found)}"><title>thread {thread}</title></path>'
        for thread, found in sorted(runs.items())
    ]


def _banks(name: str, of: Map, table: Ownership) -> Picture:
    """The first 32 rows of 128 bytes of a stage: a cell is a bank, coloured by the line of the matrix, a title says what it
    holds."""
    assert table.stage
    size = table.stage.element_bytes
    per_word = max(1, WORD // size)
    words = [table.elements[0][first : first + per_word] for first in range(0, len(table.elements[0]), per_word)]
    if size > WORD:
        words = [word for word in words for _ in range(size // WORD)]
    rows = min(32, -(-len(words) // BANKS))
    lines_are_rows = table.stage.contiguous_columns
    cells = []
    for number, word in enumerate(words[: rows * BANKS]):
        at = [divmod(element, table.columns) for element in word]
        line = at[0][0] if lines_are_rows else at[0][1]
        holds = ", ".join(f"{table.matrix}({row},{column})" for row, column in at)
        x, y = number % BANKS * _WIDE // 2, number // BANKS * _HIGH
        cells.append(
            f"<g><title>byte {number * WORD}, bank {number % BANKS}: {holds}</title>"
            f'<rect x="{x}" y="{y}" width="{_WIDE // 2}" height="{_HIGH}" fill="{colour(line % 8)}"/>'
            f'<text x="{x + _WIDE // 4}" y="{y + 14}">{line}</text></g>'
        )
    numbers = [_number(_MARGIN + bank * _WIDE // 2 + _WIDE // 4, _MARGIN - 6, str(bank)) for bank in range(BANKS)]
    numbers += [_number(16, _MARGIN + row * _HIGH + 14, str(row * BANKS * WORD)) for row in range(rows)]
    mode = ("MN"["AB".index(table.matrix)] if lines_are_rows else "K").lower()
    title = (
        f"Stage of {table.matrix} in the banks of shared memory: columns are banks, rows 128 bytes; each word has the {mode} of "
        f"its elements: {of.title}"
    )
    drawn = f'<g transform="translate({_MARGIN} {_MARGIN})">{"".join(cells)}</g>{"".join(numbers)}'
    return Picture(name, title, document(title, _MARGIN + BANKS * _WIDE // 2, _MARGIN + rows * _HIGH, drawn))


def _number(x: int, y: int, text: str) -> str:
    return f'<text class="n" x="{x}" y="{y}">{text}</text>'
