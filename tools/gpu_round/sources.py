"""What a verdict depends on in the repository."""

from __future__ import annotations

import hashlib
from pathlib import Path

_FOLDERS = ("mmagen", "specs", "templates", "tests", "tools")


def digest(root: Path) -> str:
    """Of the contents and names of all sources; what one round found is not taken for a round with others."""
    found = hashlib.sha256()
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]
