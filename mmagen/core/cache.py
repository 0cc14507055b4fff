"""The user's cache folder: the linked CUDA toolkit, compiled projects, PTX and templates, shared by all invocations.

An entry is a folder, created as a whole and never changed. Its name is a digest of everything that it was made from, including
the content of all files that the compiler read. reads/<key> lists the entries of a key: which files each was made from, and
their digests. What is damaged counts as absent and is made again; a cache that cannot be written is not used.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmagen.core.digests import Digests, write_file
from mmagen.core.errors import BuildError
from mmagen.core.notices import notice
from mmagen.core.reads import Reading, ReadSet, holds, parse_read_set, placed, record

_RESULT = "result.json"
_STAGING = ".new-"
_ABANDONED_S = 24 * 3600.0  # staging folders older than this belong to a process that was killed
_VARIANTS = 8  # entries per key that are remembered: as many states of the headers

_off = False


@contextlib.contextmanager
def no_cache() -> Iterator[None]:
    """Within it, nothing is read from the cache folder or written to it."""
    global _off
    before, _off = _off, True
    try:
        yield
    finally:
        _off = before


def cache_is_off() -> bool:
    """Inside of no_cache()?"""
    return _off


def cache_root(env: Mapping[str, str] | None = None) -> Path:
    """The cache folder: `$MMAGEN_CACHE_DIR`, else the user's cache folder for mmagen. It may not exist yet.

    Within no_cache(), a temporary folder of this process.
    """
    if _off:
        return session_root()
    chosen = (os.environ if env is None else env).get("MMAGEN_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("mmagen", appauthor=False))


@functools.cache
def _session_root(process: int) -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix="mmagen-session-"))
    except OSError as error:
        raise BuildError(f"{tempfile.gettempdir()}: {error.strerror or error}; free space there, or set TMPDIR") from None
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def session_root() -> Path:
    """A temporary folder that is removed when this process ends. Raises BuildError if it cannot be made."""
    return _session_root(os.getpid())


def is_kept(path: Path) -> bool:
    """Does the file stay when this process ends?"""
    made = _session_root.cache_info().currsize > 0
    return not (made and path.is_relative_to(session_root()))


@dataclass(frozen=True)
class Entry:
    """A folder of the cache, its `result.json`, and what was read to make it."""

    folder: Path
    result: dict[str, Any]
    reading: Reading


class Cache:
    """Entries by key.

    roots: name -> folder, as `reads.record` takes them. One object serves one call: a set of files that was compared is not
    compared again.
    """

    def __init__(self, root: Path, roots: Mapping[str, Path] | None = None):
        self.root = root
        self.digests = Digests(root / "digests.json")
        self._roots = {name: os.path.normpath(folder) for name, folder in (roots or {}).items()}
        self._sets: dict[str, ReadSet | None] = {}
        self._lock = threading.Lock()

    def find(self, kind: str, key: str) -> Entry | None:
        """A whole entry of that key that was made from the files as they are now, or None."""
        with self._lock:
            for read_set, name in self._variants(key):
                stored = self._current(read_set)
                if stored and (found := load_entry(self.root / kind / name, self.digests)):
                    with contextlib.suppress(OSError):  # for `mmagen cache prune`: it was used now
                        os.utime(found[0] / _RESULT)
                    return Entry(*found, placed(stored, self._roots))
        return None

    def keep(self, kind: str, key: str, result: Mapping[str, Any], files: Mapping[str, Path], reading: Reading) -> Entry:
        """Store `files` (name in the entry -> current path) and `result`.

        If the cache cannot be written, or a file has changed while it was compiled, they are kept for this process alone.
        Raises BuildError if that is not possible either.
        """
        with self._lock:
            stored = record(reading, self._roots, self.digests)
            if stored and not _off:
                try:
                    return Entry(*self._store(kind, key, result, files, stored), reading)
                except OSError as error:
                    unwritable(self.root, error)
            try:
                folder = session_root() / kind / f"{key}-{os.urandom(4).hex()}"
                return Entry(*_stored(folder, result, files, self.digests), reading)
            except OSError as error:
                raise no_space(session_root(), error) from None

    def close(self) -> None:
        """Save the digests of files, for the next process."""
        if not _off:
            with self._lock:
                self.digests.save()

    def _store(
        self, kind: str, key: str, result: Mapping[str, Any], files: Mapping[str, Path], stored: ReadSet
    ) -> tuple[Path, dict[str, Any]]:
        name = hashlib.sha256(f"{key} {stored.name}".encode()).hexdigest()
        for folder in (self.root, self.root / "reads"):
            _remove_abandoned(folder)
        made = _stored(self.root / kind / name, result, files, self.digests)
        place = self._reads(f"set-{stored.name}")
        if self._load_set(stored.name) is None:
            write_file(place, stored.text.encode())
        others = [pair for pair in self._variants(key) if pair[1] != name]
        write_file(self._reads(key), json.dumps([[stored.name, name], *others[: _VARIANTS - 1]]).encode())
        self._sets[stored.name] = stored
        return made

    def _reads(self, name: str) -> Path:
        return self.root / "reads" / f"{name}.json"

    def _variants(self, key: str) -> list[tuple[str, str]]:
        """(name of a set of files, name of an entry), the latest first."""
        try:
            return [(str(read_set), str(name)) for read_set, name in json.loads(self._reads(key).read_bytes())]
        except (OSError, ValueError, TypeError):
            return []

    def _current(self, name: str) -> ReadSet | None:
        """The set of files if all are as they were."""
        if name not in self._sets:
            stored = self._load_set(name)
            self._sets[name] = stored if stored and holds(stored, self._roots, self.digests) else None
        return self._sets[name]

    def _load_set(self, name: str) -> ReadSet | None:
        try:
            return parse_read_set(self._reads(f"set-{name}").read_text("utf-8"), name)
        except (OSError, ValueError):
            return None


def unwritable(root: Path, error: OSError) -> None:
    """Remark that the cache cannot be written."""
    notice(
        f"the cache {root} cannot be written: {error.strerror or error}; continuing without it. "
        "Free space there, or set MMAGEN_CACHE_DIR to another folder"
    )


def no_space(place: Path, error: OSError) -> BuildError:
    """The error for a temporary folder that cannot be written."""
    return BuildError(f"{place}: {error.strerror or error}; free space there, or set TMPDIR to another folder")


def load_entry(folder: Path, digests: Digests) -> tuple[Path, dict[str, Any]] | None:
    """The entry's folder and its `result.json`, or None if it is absent, incomplete or damaged.

    Every file that the result lists must have its recorded digest. Executable bits lost in copying are restored.
    """
    try:
        result = json.loads((folder / _RESULT).read_text("utf-8"))
        if result.pop("result") != _digest_of(result):
            return None
        for name, digest in result["digests"].items():
            if digests.of(folder / name) != digest:
                return None
        for name in result["programs"].values():
            if not os.access(folder / name, os.X_OK):
                mode = (folder / name).stat().st_mode
                (folder / name).chmod(mode | (mode & 0o444) >> 2)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return folder, result


def _stored(
    folder: Path, result: Mapping[str, Any], files: Mapping[str, Path], digests: Digests
) -> tuple[Path, dict[str, Any]]:
    """Store an entry atomically; two processes may store the same one. Raises OSError if it cannot be written."""

    def fill(staging: Path) -> None:
        for name, path in files.items():
            shutil.copyfile(path, staging / name)
            # Executable for those who may read it.
            if path.stat().st_mode & stat.S_IXUSR:
                mode = (staging / name).stat().st_mode
                (staging / name).chmod(mode | (mode & 0o444) >> 2)
        whole = {"programs": {}, **result, "digests": {name: digests.of(staging / name) for name in files}}
        text = json.dumps({**whole, "result": _digest_of(whole)}, indent=1) + "\n"
        (staging / _RESULT).write_text(text, "utf-8")

    make_folder(folder, fill, whole=lambda: load_entry(folder, digests) is not None)
    if found := load_entry(folder, digests):
        return found
    raise OSError(f"{folder} is damaged")


def _digest_of(result: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()


def make_folder(folder: Path, fill: Callable[[Path], None], whole: Callable[[], bool]) -> Path:
    """Create `folder` atomically. `fill` is called with an empty staging folder beside it and writes the contents.

    whole: is the existing `folder` valid? A valid one is kept, an invalid one replaced. Returns `folder`; raises OSError if it
    cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder.parent)
    # Not tempfile.mkdtemp: its folders are closed to other users.
    staging = folder.parent / f"{_STAGING}{os.getpid()}-{os.urandom(4).hex()}"
    staging.mkdir()
    try:
        fill(staging)
        return _settle(staging, folder, whole)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove what processes that were killed have left."""
    for left in parent.glob(f"{_STAGING}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()


def _settle(staging: Path, folder: Path, whole: Callable[[], bool]) -> Path:
    for _ in range(3):
        try:
            staging.rename(folder)
            return folder
        except OSError:
            if not folder.exists():
                raise
            if whole():
                return folder
            shutil.rmtree(folder, ignore_errors=True)
    raise OSError(f"{folder} is in use and incomplete; remove it")
