"""The text of a translation unit of loops, and the headers that it and its program include."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from mmagen.core.templates import templates_folder
from mmagen.families.peak.loops import Loop

# Headers of a unit, and of the program.
LOOP_HEADERS = ("peak/element", "peak/entry", "peak/loop", "peak/register_loop", "peak/wgmma_loop")
HEADERS = (
    *LOOP_HEADERS,
    "peak/measure",
    "peak/fill_operands",
    "peak/peak_main",
    "peak/predict",
    "test/device",
    "test/options",
    "test/record",
)


def unit(batch: Sequence[Loop]) -> str:
    """The translation unit that holds `batch`."""
    headers = dict.fromkeys(header for loop in batch for header in loop.headers)
    return _template().render(loops=batch, headers=headers, own=sorted({loop.own for loop in batch}))


def header_files() -> dict[str, bytes]:
    """HEADERS by their include path: mmagen/entry.cuh."""
    return {f"mmagen/{name.rpartition('/')[2]}.cuh": header(name) for name in HEADERS}


@cache
def header(name: str) -> bytes:
    """The content of one of HEADERS."""
    return (templates_folder() / "runtime" / f"{name}.cuh").read_bytes()


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(templates_folder() / "project"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template("peak/src/NAME.cu.j2")
