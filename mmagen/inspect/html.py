"""The page of `mmagen inspect` as one HTML file: its sections as tables, and its pictures, whose cells say on hovering what they
are. Nothing is loaded from elsewhere, and there is no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mmagen.draw.svg import Picture
from mmagen.plan.pages import Section

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; }
td { border: 1px solid #ccc; padding: 0.15em 0.6em; vertical-align: top; }
td:first-child { font-weight: 600; }
figure { margin: 1em 0 2em; overflow-x: auto; }
"""


def page(name: str, title: str, sections: Sequence[Section], pictures: Sequence[Picture]) -> str:
    """A whole document."""
    tables = "".join(f"<h2>{escape(heading)}</h2>\n{_table(rows)}\n" for heading, rows in sections)
    figures = "".join(
        f'<figure id="{one.name}">\n<figcaption>{escape(one.title)}</figcaption>\n{one.svg}</figure>\n' for one in pictures
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(name)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(name)}</h1>\n<p>{escape(title)}</p>\n{tables}"
        f"<h2>Pictures</h2>\n<p>Point at a cell to see what it is: threads and values, of an operand its byte and bank in shared "
        f"memory, of a pipeline the k tile and what is waited for.</p>\n{figures}</body>\n</html>\n"
    )


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return "<table>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table>"
