"""The text of a translation unit of loops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from mmagen.core.templates import templates_folder
from mmagen.families.peak.loops import Loop


def unit(batch: Sequence[Loop]) -> str:
    """The translation unit that holds `batch`."""
    headers = dict.fromkeys(header for loop in batch for header in loop.headers)
    return _template().render(loops=batch, headers=headers, own=sorted({loop.own for loop in batch}))


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(templates_folder() / "project"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template("peak/src/NAME.cu.j2")
