"""Digests of files, remembered by what stat says of them, so that unchanged files are not read again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from pathlib import Path

# A file that changed more recently than this may change again without a new time stamp: it is digested again.
_SETTLED_NS = 2_000_000_000
_MOST = 50_000  # files that are remembered

# What stat says of a file: device, inode, size in bytes, times of modification and of status change in ns.
_Stat = tuple[int, int, int, int, int]


class Digests:
    """SHA-256 digests of files and of the names in folders.

    file: where they are kept between processes, None to keep them in memory alone. What is damaged there is ignored.
    """

    def __init__(self, file: Path | None = None):
        self._file = file
        self._known: dict[str, tuple[_Stat, str]] = _load(file) if file else {}
        self._changed = False

    def of(self, path: str | Path) -> str | None:
        """The digest of the file's content, or None if it cannot be read or is no regular file."""
        path = os.fspath(path)
        try:
            facts = os.stat(path)
            if not stat.S_ISREG(facts.st_mode):
                return None
            seen = _facts(facts)
            known = self._known.get(path)
            if known and known[0] == seen:
                return known[1]
            with open(path, "rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                if _facts(os.fstat(stream.fileno())) != seen:
                    return digest
        except OSError:
            return None
        self._remember(path, seen, digest)
        return digest

    def of_names(self, folder: str | Path) -> str | None:
        """The digest of the names in the folder, or None if it cannot be read. Hidden files and editors' backups do not
        count."""
        folder = os.fspath(folder)
        try:
            seen = _facts(os.stat(folder))
            known = self._known.get(folder)
            if known and known[0] == seen:
                return known[1]
            names = sorted(name for name in os.listdir(folder) if not name.startswith(".") and not name.endswith("~"))
        except OSError:
            return None
        digest = hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()
        self._remember(folder, seen, digest)
        return digest

    def save(self) -> None:
        """Write what is new to the file. A file that cannot be written is no error: the digests are computed again."""
        if not self._file or not self._changed:
            return
        self._changed = False
        # What other processes have added since; a path in both is this process's.
        merged = _load(self._file) | self._known
        kept = dict(list(merged.items())[-_MOST:])
        text = json.dumps({path: [*seen, digest] for path, (seen, digest) in kept.items()}, ensure_ascii=True)
        with contextlib.suppress(OSError):
            write_file(self._file, text.encode())

    def _remember(self, path: str, seen: _Stat, digest: str) -> None:
        if time.time_ns() - max(seen[3:]) > _SETTLED_NS:
            self._known[path] = (seen, digest)
            self._changed = True


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically, with the permissions that the umask gives. Raises OSError; then nothing is left behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile.mkstemp: its files are closed to other users.
    temporary = path.with_name(f".new-{path.name}-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _facts(seen: os.stat_result) -> _Stat:
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _load(file: Path) -> dict[str, tuple[_Stat, str]]:
    try:
        stored = json.loads(file.read_bytes())
        return {
            path: ((device, inode, size, modified, changed), digest)
            for path, (device, inode, size, modified, changed, digest) in stored.items()
            if isinstance(digest, str)
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
