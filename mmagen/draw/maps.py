"""Maps of owners, and operands in the banks of shared memory, as SVG. Drawn from the tables of `plan.maps` and nothing else.

`tensor-layouts` draws through matplotlib, which takes seconds and megabytes for a CTA tile; these are a path a thread. Cells with
a title say on hovering what they are; a README shows a picture as an image, which does not hover, so that its cells have none.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmagen.draw.svg import Picture, colour, document
from mmagen.draw.windows import Window, modes_of, owner_text, ranges
from mmagen.mma.ownership import Ownership
from mmagen.plan.maps import Map

WORD, BANKS, CHUNK = 4, 32, 16  # bytes of a word, words of a row, bytes that a swizzle exchanges
SWIZZLED = 8  # rows of 128 bytes after which the widest swizzle repeats
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


def still(of: Map) -> list[Picture]:
    """What `pictures` shows of a map without a window, without titles of cells, and of a stage only as many rows as its swizzle
    takes to repeat: a tenth of the bytes."""
    found = [owners(table.matrix, of, table, {}, titled=False) for table in of.tables if table.stage is None]
    return found + [_banks(f"{table.matrix}-banks", of, table, SWIZZLED, titled=False) for table in of.staged]


def owners(
    name: str, of: Map, table: Ownership, window: Window = None, stage: Ownership | None = None, titled: bool = True
) -> Picture:
    """A matrix coloured by thread; with few elements, each with its thread and value. stage: where it lies in shared memory;
    titled: do cells say on hovering what they are?"""
    rows, columns = ranges(of, table, window)
    modes = modes_of(table.matrix)
    title = f"{table.matrix} ({modes[0]},{modes[1]}), {table.rows} x {table.columns}: {of.title}"
    if len(rows) < table.rows or len(columns) < table.columns:
        title += f"; rows {rows.start} to {rows.stop - 1}, columns {columns.start} to {columns.stop - 1}"
    labelled = len(rows) * len(columns) <= _LABELLED
    wide, high = (_WIDE, _HIGH) if labelled else (_DOT, _DOT)
    cells = table.owners_in(rows, columns)
    if labelled and titled:
        bytes_of = _bytes(stage)
        body = [
            _cell(table, row, column, cells[i][j], (i * high, j * wide), bytes_of)
            for i, row in enumerate(rows)
            for j, column in enumerate(columns)
        ]
    else:
        body = _paths([[cell[0][0] for cell in row] for row in cells], wide, high)
        if labelled:
            body += _labels([[owner_text(*cell[0]) for cell in row] for row in cells], wide, high)
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


def _paths(threads: Sequence[Sequence[int]], wide: int, high: int) -> list[str]:
    """A path for each thread, of runs of its cells in a row."""
    return [
        f'<path fill="{colour(thread)}" d="{found}"><title>thread {thread}</title></path>'
        for thread, found in _runs(threads, wide, high).items()
    ]


def _runs(cells: Sequence[Sequence[int]], wide: int, high: int) -> dict[int, str]:
    """For each number, in order, the outlines of its runs in a row, of cells of so many pixels."""
    runs: dict[int, list[str]] = {}
    for i, row in enumerate(cells):
        j = 0
        while j < len(row):
            end = j
            while end < len(row) and row[end] == row[j]:
                end += 1
            runs.setdefault(row[j], []).append(f"M{j * wide} {i * high}h{(end - j) * wide}v{high}h-{(end - j) * wide}z")
            j = end
    return {number: "".join(found) for number, found in sorted(runs.items())}


def _labels(texts: Sequence[Sequence[str]], wide: int, high: int) -> list[str]:
    """A text for each row, as long as its cells, whose labels all have as many characters."""
    most = max(len(text) for row in texts for text in row) + 1
    return [
        f'<text class="l" x="0" y="{i * high + 14}" textLength="{len(row) * wide}" xml:space="preserve">'
        f"{''.join(text.center(most) for text in row)}</text>"
        for i, row in enumerate(texts)
    ]


def _banks(name: str, of: Map, table: Ownership, most: int = 32, titled: bool = True) -> Picture:
    """The first rows of 128 bytes of a stage, at most so many. A cell is a bank: its text is the line of the matrix, its colour
    which 16 bytes of the line, which a swizzle exchanges, and a title says what it holds."""
    assert table.stage
    lines_are_rows = table.stage.contiguous_columns
    words = _words(table)
    rows = min(most, -(-len(words) // BANKS))
    wide = _WIDE // 2
    shown = [[divmod(element, table.columns) for element in word] for word in words[: rows * BANKS]]
    lines = [at[0][0] if lines_are_rows else at[0][1] for at in shown]
    of_chunk = max(1, CHUNK // table.stage.element_bytes)
    chunks = [(at[0][1] if lines_are_rows else at[0][0]) // of_chunk for at in shown]
    if titled:
        body = []
        for number, (at, line, chunk) in enumerate(zip(shown, lines, chunks, strict=True)):
            holds = ", ".join(f"{table.matrix}({row},{column})" for row, column in at)
            x, y = number % BANKS * wide, number // BANKS * _HIGH
            body.append(
                f"<g><title>byte {number * WORD}, bank {number % BANKS}: {holds}</title>"
                f'<rect x="{x}" y="{y}" width="{wide}" height="{_HIGH}" fill="{colour(chunk % 8)}"/>'
                f'<text x="{x + _WIDE // 4}" y="{y + 14}">{line}</text></g>'
            )
    else:
        starts = range(0, len(lines), BANKS)
        painted = _runs([[chunk % 8 for chunk in chunks[first : first + BANKS]] for first in starts], wide, _HIGH)
        body = [f'<path fill="{colour(chunk)}" d="{found}"/>' for chunk, found in painted.items()]
        body += _labels([[str(line) for line in lines[first : first + BANKS]] for first in starts], wide, _HIGH)
    numbers = [_number(_MARGIN + bank * wide + _WIDE // 4, _MARGIN - 6, str(bank)) for bank in range(BANKS)]
    numbers += [_number(16, _MARGIN + row * _HIGH + 14, str(row * BANKS * WORD)) for row in range(rows)]
    modes = ["MN"["AB".index(table.matrix)].lower(), "k"]
    mode, along = modes if lines_are_rows else modes[::-1]
    some = f"; the first {rows * BANKS * WORD:,} of {len(words) * WORD:,} B" if rows * BANKS < len(words) else ""
    title = (
        f"Stage of {table.matrix} in the banks of shared memory: columns are banks, rows 128 bytes; each word has the {mode} of "
        f"its elements, and a colour for each 16 bytes along {along}{some}: {of.title}"
    )
    drawn = f'<g transform="translate({_MARGIN} {_MARGIN})">{"".join(body)}</g>{"".join(numbers)}'
    return Picture(name, title, document(title, _MARGIN + BANKS * wide, _MARGIN + rows * _HIGH, drawn))


def _words(table: Ownership) -> list[tuple[int, ...]]:
    """The elements in each word of a stage; of those that are larger than a word, the one that it is part of."""
    assert table.stage
    size, places = table.stage.element_bytes, table.elements[0]
    if size > WORD:
        return [(element,) for element in places for _ in range(size // WORD)]
    return [places[first : first + WORD // size] for first in range(0, len(places), WORD // size)]


def _number(x: int, y: int, text: str) -> str:
    return f'<text class="n" x="{x}" y="{y}">{text}</text>'
