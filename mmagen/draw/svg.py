"""Documents, colours and boxes of pictures."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape

_STYLE = "text{font:11px monospace;text-anchor:middle}.n{fill:#666}.l{text-anchor:start}"
HIGH = 20  # pixels of a cell with a text
MARGIN = 34  # left of cells and above them


@dataclass(frozen=True)
class Picture:
    """name: of its file, without the suffix; title: a sentence; svg: the whole document. grid: what its cells are, as JSON
    (grid.py), where they are too many to have titles; else ""."""

    name: str
    title: str
    svg: str
    grid: str = ""


@cache
def colour(thread: int) -> str:
    """Neighbouring threads differ: hues a golden angle apart, in two degrees of lightness."""
    red, green, blue = colorsys.hls_to_rgb(thread * 0.381966 % 1, 0.72 + 0.1 * (thread // 8 % 2), 0.7)
    return "#" + "".join(f"{round(part * 255):02x}" for part in (red, green, blue))


def document(title: str, width: int, height: int, drawn: str) -> str:
    """An SVG document of that size in pixels. title: for those who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}"><style>{_STYLE}</style><path fill="#fff" d="M0 0h{width}v{height}H0z"/>{drawn}</svg>\n'
    )


def bar(box: tuple[float, float, float, float], fill: str, says: str, label: str) -> str:
    """A box (x, y, width, height) in pixels, with a label in its middle and what it says to those who point at it."""
    x, y, wide, high = (round(value, 1) for value in box)
    text = f'<text x="{round(x + wide / 2, 1):g}" y="{round(y + high / 2 + 4, 1):g}">{label}</text>' if label else ""
    shape = f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" fill="{fill}" stroke="#fff"/>'
    return f"<g><title>{escape(says)}</title>{shape}{text}</g>"


def runs(cells: Sequence[Sequence[int]], wide: int, high: int) -> dict[int, str]:
    """For each number, in order, the outlines of its runs in a row, of cells of so many pixels."""
    found: dict[int, list[str]] = {}
    for i, row in enumerate(cells):
        j = 0
        while j < len(row):
            end = j
            while end < len(row) and row[end] == row[j]:
                end += 1
            found.setdefault(row[j], []).append(f"M{j * wide} {i * high}h{(end - j) * wide}v{high}h-{(end - j) * wide}z")
            j = end
    return {number: "".join(outlines) for number, outlines in sorted(found.items())}


def labels(texts: Sequence[Sequence[str]], wide: int) -> list[str]:
    """A text for each row, as long as its cells, whose labels all have as many characters."""
    most = max(len(text) for row in texts for text in row) + 1
    return [
        f'<text class="l" x="0" y="{i * HIGH + 14}" textLength="{len(row) * wide}" xml:space="preserve">'
        f"{''.join(text.center(most) for text in row)}</text>"
        for i, row in enumerate(texts)
    ]


def number(x: int, y: int, text: str) -> str:
    """Of a row or a column."""
    return f'<text class="n" x="{x}" y="{y}">{text}</text>'
