"""Documents, colours and boxes of pictures."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from html import escape

_STYLE = "text{font:11px monospace;text-anchor:middle}.n{fill:#666}.l{text-anchor:start}"


@dataclass(frozen=True)
class Picture:
    """name: of its file, without the suffix; title: a sentence; svg: the whole document."""

    name: str
    title: str
    svg: str


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
