"""Tables and sentences that fit a number of columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

# A row, or a line of its own above the rows that follow.
Line = Sequence[str] | str
# A blank at which no cell is folded; `table` shows it as a blank.
UNBROKEN = "\xa0"
_GAP = "  "
_LEAST_KEY = 16
_INDENT = 4
_LEAST_CELL = 14  # a word of a cell that is longer may be broken


def fold(text: str, columns: int | None) -> str:
    """The text with lines of at most `columns` characters, broken at blanks where there are some; what is broken off is indented
    by two more."""
    if columns is None:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        indent = re.match(r"\s*", line)[0]  # type: ignore[index]  # it always matches
        lines += [line] if len(line) <= columns else _wrapped(line, columns, indent + "  ")
    return "\n".join(lines)


class _Wrapper(textwrap.TextWrapper):
    """Breaks a word that is longer than a line, such as a path, after its separators where it has some."""

    def _split(self, text: str) -> list[str]:
        longest = self.width - len(self.subsequent_indent)
        words = super()._split(text)
        return [part for word in words for part in (re.split(r"(?<=[/:,;_])", word) if len(word) > longest else [word]) if part]


def _wrapped(text: str, columns: int, indent: str = "") -> list[str]:
    """Lines of `text`, those after the first with `indent`."""
    wrapper = _Wrapper(columns, subsequent_indent=indent[: columns // 2], break_on_hyphens=False)
    return wrapper.wrap(text) or [""]


def table(
    heads: Sequence[str], rows: Sequence[Line], columns: int | None = None, *, right: Sequence[str] = (), indent: str = ""
) -> str:
    """Rows below heads, without heads if there are none.

    Wider than `columns`, cells with words are folded; if that is not enough, the columns are shown in several blocks, each with the
    first column. The first column is never broken, so that it can be copied: where it is long, the rest of the row is below it.
    right: heads of the columns to align to the right, which are not folded either.
    """
    if columns is not None:
        columns -= len(indent)
    count = len(heads) or max((len(row) for row in rows if not isinstance(row, str)), default=0)
    folded = [head not in right for head in heads] or [True] * count
    cells = [row if isinstance(row, str) else [*row] for row in rows]
    blocks = _blocks(heads, cells, folded, count, columns)
    text = "\n\n".join("\n".join(_rendered(block, widths, heads, cells, folded, columns)) for block, widths in blocks)
    return textwrap.indent(text, indent).replace(UNBROKEN, " ")


def _column(heads: Sequence[str], cells: Sequence[Line], i: int) -> list[str]:
    return [*([heads[i]] if heads else []), *(row[i] for row in cells if not isinstance(row, str))]


def _blocks(
    heads: Sequence[str], cells: Sequence[Line], folded: Sequence[bool], count: int, columns: int | None
) -> list[tuple[list[int], dict[int, int]]]:
    """The columns of each block, with their widths."""
    natural = {i: max(map(len, _column(heads, cells, i)), default=0) for i in range(count)}
    everything = [*range(count)]
    if columns is None or not everything or _total(natural.values()) <= columns:
        return [(everything, natural)]
    least = {i: _least(_column(heads, cells, i)) if folded[i] else natural[i] for i in everything}
    least[0] = min(natural[0], max(_LEAST_KEY, columns // 5, len(heads[0]) if heads else 0))
    blocks: list[list[int]] = [[0]]
    for i in everything[1:]:
        if len(blocks[-1]) > 1 and _total(least[j] for j in [*blocks[-1], i]) > columns:
            blocks.append([0])
        blocks[-1].append(i)
    return [(block, _best_widths(block, natural, least, columns, cells, folded)) for block in blocks]


def _total(widths: Iterable[int]) -> int:
    each = [*widths]
    return sum(each) + len(_GAP) * (len(each) - 1)


def _least(column: Sequence[str]) -> int:
    """The width below which a column is not folded: its longest word, unless that is very long."""
    words = [word for cell in column for word in re.split(r"[ \n]+", cell)]
    return max((len(word) if UNBROKEN in word else min(len(word), _LEAST_CELL) for word in words), default=0)


def _best_widths(
    block: Sequence[int],
    natural: Mapping[int, int],
    least: Mapping[int, int],
    columns: int,
    cells: Sequence[Line],
    folded: Sequence[bool],
) -> dict[int, int]:
    """Widths that fit, with the fewer lines: the first column is narrowed before the others, or after them."""
    sample = [row for row in cells if not isinstance(row, str)][:200]
    tried = [_widths(block, natural, least, columns, key_first) for key_first in (False, True)]
    return min(tried, key=lambda widths: sum(len(_row(block, widths, row, folded, columns)) for row in sample))


def _widths(
    block: Sequence[int], natural: Mapping[int, int], least: Mapping[int, int], columns: int, key_first: bool
) -> dict[int, int]:
    """Widths that fit, the widest column narrowed first. The first column may end up with what is left."""
    widths = {i: natural[i] for i in block}
    rest = block[1:]
    if key_first:
        # It may become so narrow that all of its cells stand on lines of their own.
        widths[0] = max(min(least[0], _INDENT), min(widths[0], columns - _total(widths[i] for i in rest) - len(_GAP)))
    while _total(widths.values()) > columns and (wide := [i for i in rest if widths[i] > least[i]]):
        widths[max(wide, key=lambda i: widths[i])] -= 1
    if _total(widths.values()) > columns:
        widths[0] = max(min(least[0], _INDENT), columns - _total(widths[i] for i in rest) - len(_GAP))
    return widths


def _rendered(
    block: Sequence[int],
    widths: Mapping[int, int],
    heads: Sequence[str],
    cells: Sequence[Line],
    folded: Sequence[bool],
    columns: int | None,
) -> list[str]:
    lines = []
    if heads:
        lines += _row(block, widths, heads, folded, columns)
        lines.append(_GAP.join("-" * widths[i] for i in block))
    for row in cells:
        if isinstance(row, str):
            lines += [*([""] if len(lines) > 2 else []), fold(row, columns)]
        else:
            lines += _row(block, widths, row, folded, columns)
    return lines


def _row(
    block: Sequence[int], widths: Mapping[int, int], row: Sequence[str], folded: Sequence[bool], columns: int | None
) -> list[str]:
    key = row[block[0]]
    alone = len(key) > widths[block[0]]
    parts = [[""] if alone else [key], *(_wrapped(row[i], widths[i]) if folded[i] else [row[i]] for i in block[1:])]
    lines = _wrapped(key, columns or len(key), _GAP) if alone else []
    if alone and not any(row[i] for i in block[1:]):
        return lines
    for number in range(max(map(len, parts))):
        texts = [part[number] if number < len(part) else "" for part in parts]
        aligned = [text.ljust(widths[i]) if folded[i] else text.rjust(widths[i]) for i, text in zip(block, texts, strict=True)]
        lines.append(_GAP.join(aligned).rstrip())
    return lines
