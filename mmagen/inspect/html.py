"""The page of `mmagen inspect` as one HTML file: its sections as tables, and its pictures, whose cells say on hovering what they
are. Nothing is loaded from elsewhere: its policy (CSP) allows its own style and its own script, and no requests.

The script (hover.js) says at once, and to the keyboard too, what the titles of cells say; it is not needed to read the page.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

from mmagen.draw.svg import Picture
from mmagen.plan.pages import Section

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; }
td { border: 1px solid #ccc; padding: 0.15em 0.6em; vertical-align: top; }
td:first-child { font-weight: 600; }
figure { margin: 1em 0 2em; }
.drawn { overflow: auto hidden; content-visibility: auto; }
svg { display: block; }
svg:focus-visible { outline: 2px solid #1a73e8; outline-offset: -2px; }
.at { fill: none; stroke: #000; stroke-width: 2; pointer-events: none; }
#says { position: fixed; max-width: 34em; padding: 0.2em 0.6em; background: #222; color: #fff; pointer-events: none; }
"""
_SCROLL_BAR = 16  # pixels


def page(name: str, title: str, sections: Sequence[Section], pictures: Sequence[Picture], *, of_several: bool = False) -> str:
    """A whole document. of_several: the pictures are of several kernels, and those that are alike are shown once."""
    figures = _alike(pictures) if of_several else [[one] for one in pictures]
    tables = "".join(f"<h2>{escape(heading)}</h2>\n{_table(rows)}\n" for heading, rows in sections)
    script = _script()
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>{escape(name)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(name)}</h1>\n<p>{escape(title)}</p>\n{tables}"
        f"<h2>Pictures</h2>\n<p>Point at a cell to see what it is: threads and values, of an operand its byte and bank in shared "
        f"memory, of a pipeline the k tile and what is waited for. On the keyboard, Tab goes to the next picture and arrow keys "
        f'to the cells of it.</p>\n{"".join(map(_figure, figures))}<div id="says" role="status" hidden></div>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _alike(pictures: Sequence[Picture]) -> list[list[Picture]]:
    """Those that show the same, in order of the first of each: the kernels of a library have most of the bytes in common."""
    found: dict[tuple[str, str], list[Picture]] = {}
    for one in pictures:
        found.setdefault((one.svg.replace(escape(one.title), "", 1), one.grid), []).append(one)
    return list(found.values())


def _figure(alike: Sequence[Picture]) -> str:
    one = alike[0]
    grid = f' data-grid="{escape(one.grid)}"' if one.grid else ""
    # As high as it is drawn, with a scroll bar: what is not to be seen is not drawn, and yet all have their places on the page.
    height = int(one.svg.partition('height="')[2].partition('"')[0]) + _SCROLL_BAR
    titles = "".join(f'<div id="{other.name}">{escape(other.title)}</div>' for other in alike[1:])
    return (
        f'<figure id="{one.name}"{grid}>\n<figcaption>{escape(one.title)}{titles}</figcaption>\n'
        f'<div class="drawn" style="height:{height}px">{one.svg}</div></figure>\n'
    )


@cache
def _script() -> str:
    return Path(__file__).with_name("hover.js").read_text("utf-8")


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return "<table>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table>"
