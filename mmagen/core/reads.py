"""The files that a compiler read, and whether they still are what it read (as ccache's direct mode does).

A lookup compares the content of each file. It also compares the names in the folders of those files and in their parents up to
the root that they were found under: a header that newly appears there might be found first. Not noticed is a new header in an
include folder from which nothing was read, if that folder is not named in the environment (CPATH and its like).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmagen.core.digests import Digests

# Folders of the system's own headers change with every package that is installed, and are searched last.
_SYSTEM = ("/usr/include", "/usr/lib", "/usr/lib64", "/usr/local/include")


@dataclass(frozen=True)
class Reading:
    """What one compilation read. paths: absolute, headers and sources outside of the compiled project itself.
    folders: further include folders, whose names count. began_ns: when it began, as time.time_ns(); 0 if nothing can have
    changed since."""

    paths: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    began_ns: int = 0


@dataclass(frozen=True)
class ReadSet:
    """Digests of files and of the names in folders, by path. Paths below a named root begin with its name, e.g.
    "<cutlass>/cute/tensor.hpp", so that a cache may be used where the root lies elsewhere."""

    files: Mapping[str, str]
    folders: Mapping[str, str]

    @property
    def text(self) -> str:
        """As JSON, always the same for the same digests."""
        return json.dumps({"files": self.files, "folders": self.folders}, sort_keys=True)

    @property
    def name(self) -> str:
        """A digest of the whole."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:40]


def parse_read_set(text: str, name: str) -> ReadSet:
    """The reverse of `text`. Raises ValueError if it is damaged: no longer what `name` was computed from."""
    try:
        stored = json.loads(text)
        found = ReadSet(dict(stored["files"]), dict(stored["folders"]))
    except (TypeError, KeyError) as error:
        raise ValueError(str(error)) from None
    if found.name != name:
        raise ValueError("damaged")
    return found


def record(reading: Reading, roots: Mapping[str, str], digests: Digests) -> ReadSet | None:
    """The digests of what was read; None if a file has changed since the compilation began, or is gone.

    roots: name, e.g. "<cutlass>", -> folder, normalized.
    """
    now = time.time_ns()
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    try:
        for path in sorted({os.path.normpath(path) for path in reading.paths}):
            seen = os.stat(path)
            digest = digests.of(path)
            if digest is None or any(0 < reading.began_ns <= at <= now for at in (seen.st_mtime_ns, seen.st_ctime_ns)):
                return None
            files[_named(path, roots)] = digest
        for folder in sorted({*map(os.path.normpath, reading.folders), *_searched(reading.paths, roots)}):
            folders[_named(folder, roots)] = digests.of_names(folder) or ""
    except OSError:
        return None
    return ReadSet(files, folders)


def holds(stored: ReadSet, roots: Mapping[str, str], digests: Digests) -> bool:
    """Is everything still as it was read?"""
    return all(digests.of(_placed(path, roots)) == digest for path, digest in stored.files.items()) and all(
        (digests.of_names(_placed(folder, roots)) or "") == digest for folder, digest in stored.folders.items()
    )


def placed(stored: ReadSet, roots: Mapping[str, str]) -> Reading:
    """What was read, as paths on this machine."""
    return Reading(
        tuple(_placed(path, roots) for path in stored.files), tuple(_placed(folder, roots) for folder in stored.folders)
    )


def _searched(paths: Iterable[str], roots: Mapping[str, str]) -> set[str]:
    """The folders of the paths and their parents up to a root; of other paths the folder alone. Without the system's."""
    tops = set(roots.values())
    found: set[str] = set()
    for path in paths:
        folder = os.path.dirname(os.path.normpath(path))
        below = next((top for top in tops if folder == top or folder.startswith(f"{top}/")), None)
        if below is None and (folder in _SYSTEM or folder.startswith(tuple(f"{place}/" for place in _SYSTEM))):
            continue
        while folder not in found:
            found.add(folder)
            if below is None or folder == below:
                break
            folder = os.path.dirname(folder)
    return found


def _named(path: str, roots: Mapping[str, str]) -> str:
    for name, top in roots.items():
        if path == top or path.startswith(f"{top}/"):
            return name + path[len(top) :]
    return path


def _placed(path: str, roots: Mapping[str, str]) -> str:
    name = path.split("/", 1)[0]
    return roots[name] + path[len(name) :] if name in roots else path


_WORD = re.compile(r"(?:\\.|\$\$|[^\s\\])+")


def parse_depfile(text: str, folder: Path) -> list[str]:
    """The absolute paths of the prerequisites in a makefile rule that a compiler wrote. folder: where it ran."""
    rules = text.replace("\\\n", " ")
    found: list[str] = []
    for rule in rules.splitlines():
        _, colon, prerequisites = rule.partition(": ") if ": " in rule else rule.partition(":")
        if colon:
            found += [re.sub(r"\\([ #\\:])", r"\1", word.replace("$$", "$")) for word in _WORD.findall(prerequisites)]
    return list(dict.fromkeys(os.path.normpath(folder / path) for path in found))


def read_depfile(file: Path, folder: Path) -> tuple[str, ...]:
    """The absolute paths outside of `folder` in a depfile of a compiler that ran there.

    If it cannot be read, one path that does not exist: `record` then refuses what was made.
    """
    try:
        return outside(parse_depfile(file.read_text("utf-8", "surrogateescape"), folder), folder)
    except OSError:
        return ("/dev/null/depfile",)


def outside(paths: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Those of `paths` that are not below `folder`."""
    tops = (f"{os.path.normpath(folder)}/", f"{folder.resolve()}/")
    return tuple(path for path in paths if not path.startswith(tops))
