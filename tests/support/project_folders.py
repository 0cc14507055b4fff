"""Two small projects, one after the other of which a folder may hold, and what a folder holds."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

OLD = {"CMakeLists.txt": b"old cmake", "src/g.cu": b"old kernel", "src/gone/a.cu": b"gone", "include/g/g.h": b"same"}
NEW = {"CMakeLists.txt": b"new cmake", "src/g.cu": b"new kernel", "tests/new/v.cu": b"new", "include/g/g.h": b"same"}


def project(files: dict[str, bytes]) -> dict[str, bytes]:
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    return files | {"mmagen.json": json.dumps({"files": digests}).encode()}


def tree(folder: Path) -> dict[str, object]:
    """Everything below `folder`: content of files, target of links, None for folders."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def plain(folder: Path) -> dict[str, bytes]:
    return {path: content for path, content in tree(folder).items() if isinstance(content, bytes)}
