"""What lies in the cache folder, and removing it: `mmagen cache`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_STAGING = ".new-"  # of removal too: what a killed process leaves is removed by the next one that writes there
# Folders of the cache, and what an item of each is. Nothing else in the cache folder is touched: it may be one that somebody else
# uses too, and has a folder of the same name.
KINDS = {
    "builds": "compiled projects",
    "ptx": "kernels as PTX",
    "host": "host code for emulation",
    "code": "Python code of emulated kernels",
    "shared": "shared libraries for Python",
    "projects": "projects of mmagen.compile()",
    "binding": "compiled modules for Python",
    "templates": "compiled templates",
    "cuda": "linked CUDA toolkits",
    "registers": "registers of kernels",
}
_ITEM = re.compile(r"[0-9a-f]{16,64}|[0-9a-f]*-[0-9a-f]{24}\.json")
# Which files entries were made from; of no use without them.
_READS, _DIGESTS = "reads", "digests.json"
_LIST = re.compile(r"(?:[a-z]+-)?[0-9a-f]{40,64}\.json")


@dataclass(frozen=True)
class Item:
    """One entry. used: when it was made or last used, seconds since 1970."""

    kind: str
    path: Path
    bytes: int
    used: float


def items(root: Path) -> list[Item]:
    """Everything in the cache folder that can be removed by itself; [] where there is no such folder."""
    return [
        Item(kind, path, *_measured(path))
        for kind in KINDS
        for path in sorted(_children(root / kind))
        if _ITEM.fullmatch(path.name)
    ]


def prune(root: Path, now: float, days: float | None, most_bytes: int | None) -> list[Item]:
    """Remove what was not used for `days`, then the longest unused until `most_bytes` are left. Returns what was removed."""
    kept = sorted(items(root), key=lambda item: item.used)
    removed = [item for item in kept if days is not None and now - item.used > days * 86400]
    kept = kept[len(removed) :] if removed else kept
    left = sum(item.bytes for item in kept)
    for item in kept:
        if most_bytes is None or left <= most_bytes:
            break
        removed.append(item)
        left -= item.bytes
    gone = [item for item in removed if _remove(item.path)]
    if gone:
        _forget(root)
    return gone


def clear(root: Path) -> list[Item]:
    """Remove everything that mmagen keeps in the cache folder; files of others there stay."""
    gone = [item for item in items(root) if _remove(item.path)]
    for path in (root / _DIGESTS, *_lists(root)):
        _remove(path)
    for folder in (*(root / kind for kind in KINDS), root / _READS, root):
        for left in _children(folder):
            if left.name.startswith(_STAGING):
                _delete(left)
        with contextlib.suppress(OSError):
            folder.rmdir()  # if nothing else is in it
    return gone


def _lists(root: Path) -> list[Path]:
    return [path for path in _children(root / _READS) if _LIST.fullmatch(path.name)]


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _measured(path: Path) -> tuple[int, float]:
    """Bytes, and the latest time of the entry or its result.json, which is touched when the entry is used."""
    size, used = 0, 0.0
    inside = list(path.rglob("*")) if path.is_dir() and not path.is_symlink() else []
    for one in (path, *inside):
        with contextlib.suppress(OSError):
            about = one.lstat()
            size += about.st_size if not one.is_dir() else 0
            used = max(used, about.st_mtime)
    return size, used


def _remove(path: Path) -> bool:
    """Out of sight at once, so that nobody finds half of it."""
    aside = path.parent / f"{_STAGING}{os.getpid()}-{os.urandom(4).hex()}"
    try:
        path.rename(aside)
    except OSError:
        return False
    _delete(aside)
    return True


def _delete(path: Path) -> None:
    remove: Callable[[Path], None] = shutil.rmtree if path.is_dir() and not path.is_symlink() else Path.unlink
    with contextlib.suppress(OSError):
        remove(path)


def _forget(root: Path) -> None:
    """Remove lists of entries none of which is left, and the sets of files that no list names."""
    present = {item.path.name for item in items(root)}
    named: set[str] = set()
    sets = [path for path in _lists(root) if path.name.startswith("set-")]
    for path in _lists(root):
        if path in sets:
            continue
        pairs = _pairs(path)
        if any(entry in present for _, entry in pairs):
            named |= {read_set for read_set, _ in pairs}
        else:
            _delete(path)
    for path in sets:
        if path.stem.removeprefix("set-") not in named:
            _delete(path)


def _pairs(path: Path) -> Sequence[tuple[str, str]]:
    try:
        return [(str(read_set), str(entry)) for read_set, entry in json.loads(path.read_bytes())]
    except (OSError, ValueError, TypeError):
        return []
