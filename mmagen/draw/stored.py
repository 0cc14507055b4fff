"""Operands in the banks of shared memory, as SVG: with the swizzle and without it, and which banks are accessed together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mmagen.draw.svg import HIGH, MARGIN, Picture, colour, document, labels, number, runs
from mmagen.mma.ownership import Stage
from mmagen.plan.maps import Stored

WORD, BANKS, CHUNK = 4, 32, 16  # bytes of a word, words of a row, bytes that a swizzle exchanges
SWIZZLED = 8  # rows of 128 bytes after which the widest swizzle repeats
WIDE = 23  # pixels of a bank
_MOST = 32  # rows of a picture whose cells have titles


def place(of: Stored, row: int, column: int) -> str:
    """Where an element of the matrix is, for a sentence about it; of a sparse matrix, what is stored of its group."""
    stage = of.table.stage
    assert stage
    element = row * of.table.columns + column // stage.group * stage.kept
    byte, plain = of.places[element] * of.element_bytes, of.plain[element] * of.element_bytes
    says = f"; {_part(stage, column)}byte {byte} of its stage, bank {byte // WORD % BANKS}"
    return says + (f"; without the swizzle byte {plain}, bank {plain // WORD % BANKS}" if of.swizzle.bits else "")


def _part(stage: Stage, column: int) -> str:
    """Before the byte of a column: which bits of the byte, or of which columns something is stored from that byte on."""
    if stage.sparse:
        first = column // stage.group * stage.group
        return f"what is stored of columns {first} to {first + stage.group - 1} begins at "
    if stage.packed > 1:
        bits = 8 * stage.element_bytes // stage.packed
        low = column % stage.packed * bits
        return f"bits {low} to {low + bits - 1} of "
    return ""


def _held(one: Stored, row: int, column: int) -> str:
    """What a place of the stage holds. column: of what is stored."""
    stage, matrix = one.table.stage, one.table.matrix
    assert stage
    if stage.sparse:
        first = column // stage.kept * stage.group
        return f"one of {matrix}({row},{first}) to {matrix}({row},{first + stage.group - 1})"
    return ", ".join(f"{matrix}({row},{column * stage.packed + i})" for i in range(stage.packed))


def pictures(name: str, of: str, one: Stored, titled: bool = True) -> Iterator[Picture]:
    """The first rows of 128 bytes of a stage, and if it is swizzled as many as it takes to repeat as they were without. of: the
    kernel, for titles; titled: do cells say on hovering what they are?"""
    matrix, rows = one.table.matrix, _MOST if titled else SWIZZLED
    what = f"Stage of {matrix} in the banks of shared memory"
    swizzled = ", swizzled" if one.swizzle.bits else ""
    yield _banks(f"{name}-banks", f"{what}{swizzled}", one, one.places, of, rows, titled)
    if swizzled:
        yield _banks(f"{name}-banks-plain", f"{what}, as it were without the swizzle", one, one.plain, of, SWIZZLED, titled)


def _banks(name: str, what: str, one: Stored, places: Sequence[int], of: str, most: int, titled: bool) -> Picture:
    """A cell is a bank: its text is the line of the matrix, its colour which 16 bytes of the line, which a swizzle exchanges, and a
    title says what it holds. most: rows, but for those that are read together."""
    table, size = one.table, one.element_bytes
    assert table.stage
    lines_are_rows = table.stage.contiguous_columns
    elements, words = _inverse(places), len(places) * size // WORD
    touched = _touched(one, places)
    most = min(_MOST, max(most, touched[-1] // BANKS + 1)) if touched else most
    rows = min(most, -(-words // BANKS))
    # Of elements that are larger than a word, the one that it is part of.
    held = [range(word * WORD // size, max(1, WORD // size) + word * WORD // size) for word in range(min(rows * BANKS, words))]
    shown = [[divmod(elements[place], table.columns) for place in places_of] for places_of in held]
    lines = [at[0][0] if lines_are_rows else at[0][1] for at in shown]
    of_chunk = max(1, CHUNK // size)
    chunks = [(at[0][1] if lines_are_rows else at[0][0]) // of_chunk for at in shown]
    if titled:
        body = [
            _cell(one, places, word, at, line, chunk)
            for word, (at, line, chunk) in enumerate(zip(shown, lines, chunks, strict=True))
        ]
    else:
        starts = range(0, len(lines), BANKS)
        painted = runs([[chunk % 8 for chunk in chunks[first : first + BANKS]] for first in starts], WIDE, HIGH)
        body = [f'<path fill="{colour(chunk)}" d="{found}"/>' for chunk, found in painted.items()]
        body += labels([[str(line) for line in lines[first : first + BANKS]] for first in starts], WIDE)
    numbers = [number(MARGIN + bank * WIDE + WIDE // 2, MARGIN - 6, str(bank)) for bank in range(BANKS)]
    numbers += [number(16, MARGIN + row * HIGH + 14, str(row * BANKS * WORD)) for row in range(rows)]
    modes = ["MN"["AB".index(table.matrix)].lower(), "k"]
    mode, along = modes if lines_are_rows else modes[::-1]
    some = f"; the first {rows * BANKS * WORD:,} of {words * WORD:,} B" if rows * BANKS < words else ""
    together = f"; outlined {one.by}: {_in_banks(touched)}" if touched else ""
    title = (
        f"{what}: columns are banks, rows 128 bytes; each word has the {mode} of its elements, and a colour for each 16 bytes "
        f"along {along}{some}{together}: {of}"
    )
    body += [_outlined([word for word in touched if word < rows * BANKS])] if touched else []
    drawn = f'<g transform="translate({MARGIN} {MARGIN})">{"".join(body)}</g>{"".join(numbers)}'
    return Picture(name, title, document(title, MARGIN + BANKS * WIDE, MARGIN + rows * HIGH, drawn))


def _cell(one: Stored, places: Sequence[int], word: int, at: Sequence[tuple[int, int]], line: int, chunk: int) -> str:
    holds = ", ".join(_held(one, row, column) for row, column in at)
    if one.swizzle.bits:
        swizzled = places is one.places
        first, size = at[0][0] * one.table.columns + at[0][1], one.element_bytes
        other = ((one.plain if swizzled else one.places)[first] - places[first]) * size + word * WORD
        holds += f"; {'without' if swizzled else 'with'} the swizzle byte {other}, bank {other // WORD % BANKS}"
    x, y = word % BANKS * WIDE, word // BANKS * HIGH
    return (
        f"<g><title>byte {word * WORD}, bank {word % BANKS}: {holds}</title>"
        f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" fill="{colour(chunk % 8)}"/>'
        f'<text x="{x + WIDE // 2}" y="{y + 14}">{line}</text></g>'
    )


def _inverse(places: Sequence[int]) -> list[int]:
    """The element at each place."""
    found = [0] * len(places)
    for element, place in enumerate(places):
        found[place] = element
    return found


def _touched(one: Stored, places: Sequence[int]) -> list[int]:
    """The words of the elements that are read together."""
    size = one.element_bytes
    return sorted(
        {byte // WORD for at in one.access for byte in range(places[at] * size, (places[at] + 1) * size, min(size, WORD))}
    )


def _in_banks(words: Sequence[int]) -> str:
    """How many words they are, and how many of them the bank has that has most."""
    banks = Counter(word % BANKS for word in words)
    most = max(banks.values())
    return f"{len(words)} words in {len(banks)} banks, " + (f"{most} of them in one" if most > 1 else "no two in one")


def _outlined(words: Sequence[int]) -> str:
    """A box around each run of words of a row."""
    ends = [word for word in words if word + 1 not in words or (word + 1) % BANKS == 0]
    starts = [word for word in words if word - 1 not in words or word % BANKS == 0]
    boxes = "".join(
        f"M{first % BANKS * WIDE + 1} {first // BANKS * HIGH + 1}h{(last - first + 1) * WIDE - 2}v{HIGH - 2}"
        f"h-{(last - first + 1) * WIDE - 2}z"
        for first, last in zip(starts, ends, strict=True)
    )
    return f'<path fill="none" stroke="#000" stroke-width="1.5" pointer-events="none" d="{boxes}"/>'
