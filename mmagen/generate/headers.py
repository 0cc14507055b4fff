"""Selects the runtime headers of a project: the closure of `#include`s of its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from mmagen.core.templates import templates_folder
from mmagen.generate.licence import licensed

_INCLUDE = re.compile(rb'^\s*#include "(?:\.\./)?(mmagen/)?([A-Za-z0-9_]+\.cuh)"', re.MULTILINE)
# Names of folders in templates/runtime whose headers only the tests of a project need; all others go to its include/.
_TESTS = ("test", "bench")


def with_headers(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a project, and the closure of their `#include`s over templates/runtime.

    A header named as "mmagen/x.cuh" comes from the include path, and its folder in templates/runtime decides between
    include/mmagen and tests/mmagen; one named as "x.cuh" lies beside the file that names it.
    """
    found = dict(files)
    open_ones = [path for path in files if path.endswith((".cu", ".cuh"))]
    while open_ones:
        path = open_ones.pop()
        for from_path, name in _included(found[path]):
            source = _headers().get(name)
            if source is None:
                continue  # a header of the project's own
            beside = path.rpartition("/")[0]
            target = f"{_folder(source) if from_path else beside}/{name}"
            if target not in found:
                found[target] = _content(source)
                open_ones.append(target)
    return found


@cache
def _included(content: bytes) -> tuple[tuple[bool, str], ...]:
    """(through the include path, name) of each header that a file names in quotes."""
    return tuple((bool(from_path), name.decode()) for from_path, name in _INCLUDE.findall(content))


def _folder(source: Path) -> str:
    """Where a header goes that is found through the include path."""
    return "tests/mmagen" if source.parent.name in _TESTS else "include/mmagen"


@cache
def _headers() -> dict[str, Path]:
    """Runtime headers by name."""
    return {path.name: path for path in sorted((templates_folder() / "runtime").rglob("*.cuh"))}


@cache
def _content(source: Path) -> bytes:
    return licensed(source.name, source.read_bytes())
