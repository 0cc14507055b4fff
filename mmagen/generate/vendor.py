"""vendor: the CUTLASS headers that generated projects include, and all that those include, with their licence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from mmagen.core.errors import BuildError
from mmagen.core.templates import templates_folder

# mmagen_cutlass.cmake of a generated project looks in FOLDER/include.
FOLDER = "third_party/cutlass"

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]+)[">]', re.MULTILINE)
# Half of all bytes, behind a switch that only few generated projects need: wgmma shapes with unusual N.
_SWITCHED_OFF = re.compile(r"#if defined\(CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED\)\s+(?:#include[^\n]*\s+)+#endif")
_COMMENT = re.compile(r"\A\s*/\*.*?\*/", re.DOTALL)


def vendor_cutlass(cutlass_include: Path, extended: bool = False) -> dict[str, bytes]:
    """The headers by their path in a project, and LICENSE.txt. `cutlass_include` holds cute/ and cutlass/; `extended`:
    whether the project's atom is one of those behind CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED.

    The closure is textual: both branches of conditionals are followed, so the headers serve any compiler and
    architecture. Names that are not in `cutlass_include` are the CUDA toolkit's or the C++ library's.
    Raises BuildError when a header that a project includes itself is not there.
    """
    found: dict[str, bytes] = {}
    waiting = sorted(_roots())
    for header in waiting:
        if not (cutlass_include / header).is_file():
            raise BuildError(f"{cutlass_include} has no {header}: CUTLASS 4.2 or later is needed")
    while waiting:
        header = waiting.pop()
        if header not in found:
            found[header] = (cutlass_include / header).read_bytes()
            waiting += _included(found[header], header, cutlass_include, extended)
    files = {f"{FOLDER}/include/{header}": content for header, content in sorted(found.items())}
    return {f"{FOLDER}/LICENSE.txt": _licence(cutlass_include), **files}


def _roots() -> set[str]:
    """CUTLASS headers that some template names, and the one that tells their version to CMake and `cutlass_in`."""
    return {"cutlass/version.h"} | {
        name
        for path in templates_folder().rglob("*")
        if path.is_file()
        for name in _INCLUDE.findall(path.read_text("utf-8"))
        if name.startswith(("cute/", "cutlass/"))
    }


def _included(content: bytes, header: str, root: Path, extended: bool) -> Iterator[str]:
    text = content.decode("utf-8", errors="replace")
    for name in _INCLUDE.findall(text if extended else _SWITCHED_OFF.sub("", text)):
        beside = os.path.normpath(f"{os.path.dirname(header)}/{name}")
        for candidate in (beside, os.path.normpath(name)):
            if not candidate.startswith(("../", "/")) and (root / candidate).is_file():
                yield candidate


def _licence(root: Path) -> bytes:
    """LICENSE.txt of the checkout or of the wheel that `root` belongs to, else what the headers say themselves."""
    for place in (
        root.parent / "LICENSE.txt",
        root / "LICENSE.txt",
        *sorted(root.parents[min(2, len(root.parents) - 1)].glob("nvidia_cutlass-*/licenses/LICENSE.txt")),
    ):
        if place.is_file():
            return place.read_bytes()
    comment = _COMMENT.match((root / "cute" / "tensor.hpp").read_text("utf-8"))
    if comment is None or "Redistribution" not in comment[0]:
        raise BuildError(f"{root}: no LICENSE.txt beside the headers and no licence in cute/tensor.hpp")
    return comment[0].strip().encode() + b"\n"
