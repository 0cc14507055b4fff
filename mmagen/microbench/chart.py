"""A bar chart as SVG, written out by hand: bars of TFLOPS, grouped by operation, one colour for each kind of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from mmagen.microbench.figures import Figure, Machine, best_of_groups
from mmagen.microbench.report import MOST_ROWS

_WIDTH, _LABELS, _VALUES, _BAR, _GAP, _TOP = 980, 360, 150, 13, 7, 62
_COLOURS = ("#3b6ea5", "#c8a24a", "#6b8f71", "#9a5b6a")


def to_svg(figures: Sequence[Figure], machine: Machine) -> str:
    """The chart; of many operations the fastest of each kind."""
    measured = [one for one in figures if one["tflops"]]
    if len(measured) > MOST_ROWS:
        measured = best_of_groups(measured)
    inputs = list(dict.fromkeys(one["inputs"] for one in measured))
    colours = dict(zip(inputs, _COLOURS * len(inputs), strict=False))
    top = max((one["tflops"] for one in measured), default=1.0)
    scale = (_WIDTH - _LABELS - _VALUES) / top
    lines, y, last = [], _TOP, None
    for one in measured:
        y += _GAP if one["name"] != last else 1
        lines += _bar(one, y, scale, colours[one["inputs"]], one["name"] != last)
        y += _BAR
        last = one["name"]
    legend = [
        f'<rect x="{_LABELS + 120 * i}" y="36" width="11" height="11" fill="{colour}"/>'
        f'<text x="{_LABELS + 120 * i + 16}" y="46">{escape(name)}</text>'
        for i, (name, colour) in enumerate(colours.items())
    ]
    height = y + 16
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="sans-serif" font-size="11">\n<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>\n'
        f'<text x="12" y="22" font-size="13">TFLOPS (TOPS for integers) · {escape(machine.text)}</text>'
    )
    return "\n".join([head, *legend, *lines, "</svg>"]) + "\n"


def _bar(one: Figure, y: int, scale: float, colour: str, labelled: bool) -> list[str]:
    width = max(1.0, one["tflops"] * scale)
    share = "" if one["pct_rate"] is None else f", {one['pct_rate']:.0f} % of rate"
    label = [f'<text x="{_LABELS - 8}" y="{y + 10}" text-anchor="end">{escape(one["name"])}</text>'] if labelled else []
    return [
        *label,
        f'<rect x="{_LABELS}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'
        f'<text x="{_LABELS + width + 6:.1f}" y="{y + 10}">{one["tflops"]:.1f}{share}</text>',
    ]
