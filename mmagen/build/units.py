"""Which source files a project's CMakeLists.txt compiles together."""

from __future__ import annotations

import re
from collections.abc import Iterable

_COMMENT = re.compile(r"(?m)#.*$")
_TOGETHER = re.compile(r"(?m)^\s*mmagen_unit\(\s*\w+\s+([\w-]+)\s+([^)]*)\)")


def translation_units(cmake: str, sources: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The source files of each translation unit, by its name: that of mmagen_unit(), or the file's name without .cu. Those of
    mmagen_unit() have a hyphen in generated projects, which no file's name has.

    cmake: the text of CMakeLists.txt. sources: all paths src/*.cu of the project; what no mmagen_unit() names is a unit by itself.
    """
    left = list(dict.fromkeys(sources))
    units: dict[str, tuple[str, ...]] = {}
    for name, words in _TOGETHER.findall(_COMMENT.sub("", cmake)):
        together = tuple(word for word in words.split() if word in left)
        if together:
            units[name] = together
            left = [one for one in left if one not in together]
    return {**{one.removeprefix("src/").removesuffix(".cu"): (one,) for one in left}, **units}
