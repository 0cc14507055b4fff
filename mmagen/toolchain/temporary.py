"""Where compilers write their temporary files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mmagen.core.errors import BuildError


def check_temporary_folder(env: Mapping[str, str]) -> None:
    """Raises BuildError where TMPDIR names a folder that compilers cannot use: nvcc takes no other one, unlike gcc and Python."""
    given = env.get("TMPDIR")
    if given is not None and (why := _unusable(Path(given))):
        remedy = "name a folder that can be written, or unset TMPDIR"
        raise BuildError(f"TMPDIR is {given!r}, {why}; compilers write temporary files there: {remedy}")


def _unusable(folder: Path) -> str:
    if not folder.is_absolute():
        return "which is no full path"
    if not folder.is_dir():
        return "which is no folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "which cannot be written"
    # nvcc passes the path to a shell, in double quotes.
    return "in which $ and ` mean something to nvcc" if set("$`") & set(str(folder)) else ""
