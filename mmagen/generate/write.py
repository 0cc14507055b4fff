"""Writes files to a project folder atomically, without losing hand-written files.

A new folder is written beside its destination and renamed. An existing project is changed by renames only, after all new files
are complete in a hidden folder inside it; on failure, the renames are undone in reverse.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mmagen.core.errors import UsageError
from mmagen.generate.manifest import MANIFEST, RESERVED, check_files, digest, recorded
from mmagen.generate.replace import Step, discard, replace_files, staging_in

try:
    import fcntl
except ImportError:  # Windows: no lock, and renames alone keep a project whole
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Written:
    """What `write` did. changed: paths written, new ones included; removed: paths no longer generated and deleted;
    unchanged: how many files were already as they should be, and were not touched."""

    folder: Path
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int


def write(files: Mapping[str, bytes], folder: Path, force: bool = False) -> Written:
    """Makes `folder` hold the project `files` ({relative POSIX path: content}, with its mmagen.json).

    Files that are as they should be keep their times. Files changed by hand since they were generated, or never
    generated, are only replaced with `force`, and then kept beside as `<file>.orig`. UsageError names every file
    that is in the way; it also stands for a disk that refuses. After any exception the folder is as it was.
    ValueError: `files` is no project (a path leads out, or mmagen.json does not list the others).
    """
    check_files(files)
    try:
        if not os.path.lexists(folder):
            try:
                return _create(files, folder)
            except FileExistsError:
                if not os.path.lexists(folder):
                    raise
                # Another process created the folder first: update it.
        if os.path.islink(folder):
            raise UsageError(f"{folder} is a symbolic link; name the folder that it leads to")
        if not os.path.isdir(folder):
            raise UsageError(f"{folder} is a file; name another folder, or move it away")
        with _locked(folder):
            return _update(files, folder, force)
    except OSError as error:
        if isinstance(error, (FileExistsError, NotADirectoryError)) and not os.path.lexists(folder):
            raise UsageError(f"{folder} cannot be made: a parent of it is a file") from error
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}; it was left as it was") from error


def check(files: Mapping[str, bytes], folder: Path) -> tuple[str, ...]:
    """The paths, sorted, in which `folder` differs from what would be written: other content, missing, or listed in
    its mmagen.json but generated no longer. Files that mmagen never wrote do not count."""
    check_files(files)
    root = os.path.abspath(folder)
    listed = recorded(_read(root, MANIFEST)) or {}
    stale = {path for path in listed.keys() - files.keys() if os.path.lexists(f"{root}/{path}")}
    return tuple(sorted(stale | {path for path, content in files.items() if _read(root, path) != content}))


# --- A new folder --------------------------------------------------------------------------------------------------


def _create(files: Mapping[str, bytes], folder: Path) -> Written:
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = staging_in(str(folder.parent))
    try:
        # Not tempfile.mkdtemp: its folders are closed to other users, and this one becomes the project.
        os.mkdir(staging)
        for parent in sorted({path.rpartition("/")[0] for path in files} - {""}):
            os.makedirs(f"{staging}/{parent}", exist_ok=True)
        for path, content in files.items():
            with open(f"{staging}/{path}", "xb") as file:
                file.write(content)
        try:
            os.replace(staging, folder)
        except OSError as error:
            if os.path.lexists(folder):
                raise FileExistsError(str(folder)) from error
            raise
    finally:
        discard(staging)
    return Written(folder, tuple(sorted(files)), (), 0)


# --- An existing folder: what has to change ------------------------------------------------------------------------


@dataclass
class _Changes:
    """changed, removed: paths. in_the_way: path -> whose it is; these may not be lost. pruned: folders that are empty
    once `removed` is gone, and stand where a file has to go."""

    changed: list[str]
    removed: list[str]
    in_the_way: dict[str, str]
    pruned: set[str]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keeps other mmagen processes out of `folder`, by a lock that leaves no file and ends with the process."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network filesystems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _update(files: Mapping[str, bytes], folder: Path, force: bool) -> Written:
    root = os.path.abspath(folder)
    listed = recorded(_read(root, MANIFEST))
    if listed is None and not force and _holds_something(root):
        raise UsageError(
            f"{folder} is not empty and holds no readable {MANIFEST}, so it is no project of mmagen; name another "
            "folder, or --force to write into it (files that are in the way are kept as <file>.orig)"
        )
    changes = _compare(files, root, listed)
    if changes.in_the_way and not force:
        each = "".join(f"\n  {path}: {whose}" for path, whose in sorted(changes.in_the_way.items()))
        raise UsageError(
            f"{folder} holds files that mmagen would overwrite or remove:{each}\n"
            "nothing was changed; --force goes ahead and keeps each of them as <file>.orig"
        )
    if changes.changed or changes.removed:
        # Inside the folder, not beside it: that is the same filesystem even where the folder is a mount point.
        staging = staging_in(root)
        replace_files(root, staging, *_steps(files, root, changes, staging))
    return Written(folder, tuple(changes.changed), tuple(changes.removed), len(files) - len(changes.changed))


def _compare(files: Mapping[str, bytes], root: str, listed: Mapping[str, str] | None) -> _Changes:
    """listed: what the folder's own mmagen.json lists, None if it has none."""
    known = listed or {}
    changes = _Changes([], [], {}, set())
    for path in sorted(known.keys() - files.keys()):
        # What lies beyond a symbolic link is not in this folder.
        if _obstacle(root, path) is None and os.path.lexists(f"{root}/{path}"):
            changes.removed.append(path)
            _note_owner(changes, root, path, known)
    for path in sorted(files):
        obstacle = _obstacle(root, path)
        if obstacle is None and _read(root, path) == files[path]:
            continue
        changes.changed.append(path)
        if obstacle is not None:
            if obstacle not in changes.removed:
                changes.in_the_way[obstacle] = "a file or link of yours where a folder has to be"
        elif os.path.isdir(f"{root}/{path}") and not os.path.islink(f"{root}/{path}"):
            if _emptied(root, path, changes.removed):
                changes.pruned.add(path)
            else:
                changes.in_the_way[path] = "a folder of yours where a file has to be"
        elif os.path.lexists(f"{root}/{path}") and (path != MANIFEST or listed is None):
            _note_owner(changes, root, path, known)
    return changes


def _note_owner(changes: _Changes, root: str, path: str, known: Mapping[str, str]) -> None:
    present = _read(root, path)
    if path not in known:
        changes.in_the_way[path] = "not written by mmagen"
    elif present is None:
        changes.in_the_way[path] = "no plain file any more"
    elif digest(present) != known[path]:
        changes.in_the_way[path] = "changed by hand" + ("" if path in changes.changed else ", and no longer generated")


def _obstacle(root: str, path: str) -> str | None:
    """The outermost parent of `path` inside the folder `root` that is there and is no real folder."""
    end = path.find("/")
    while end >= 0:
        try:
            mode = os.lstat(f"{root}/{path[:end]}").st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISDIR(mode):
            return path[:end]
        end = path.find("/", end + 1)
    return None


def _read(root: str, path: str) -> bytes | None:
    """Content of a plain file that lies in `root` itself; None if it is missing, or anything else."""
    try:
        if _obstacle(root, path) is not None or not stat.S_ISREG(os.lstat(f"{root}/{path}").st_mode):
            return None
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(f"{root}/{path}", "rb") as file:
        return file.read()


def _emptied(root: str, path: str, removed: list[str]) -> bool:
    """Whether nothing but `removed` files and their folders lies below the folder `path`."""
    gone = set(removed)
    gone |= {name[:i] for name in removed for i, letter in enumerate(name) if letter == "/"}
    for below, folders, names in os.walk(f"{root}/{path}"):
        inside = os.path.relpath(below, root).replace(os.sep, "/")
        if any(f"{inside}/{name}" not in gone for name in (*folders, *names)):
            return False
    return True


def _holds_something(root: str) -> bool:
    """Whether there is anything but what building leaves behind."""
    with os.scandir(root) as entries:
        return any(
            entry.name not in (".git", "CMakeUserPresets.json")
            and not entry.name.startswith(RESERVED)
            and not (entry.name.startswith("build") and entry.is_dir())
            for entry in entries
        )


def _steps(files: Mapping[str, bytes], root: str, changes: _Changes, staging: str) -> tuple[list[Step], dict[Step, bytes]]:
    """Steps that only take something away, and steps that bring a new file, mmagen.json last."""

    def put_away(path: str) -> str:
        if path not in changes.in_the_way:
            return os.path.join(staging, f"{next(number)}.old")
        names = (f"{path}.orig" + (f".{i}" if i else "") for i in itertools.count())
        free = next(n for n in names if n not in files and n not in taken and not os.path.lexists(f"{root}/{n}"))
        taken.add(free)
        return f"{root}/{free}"

    number = itertools.count()
    taken: set[str] = set()
    parents = [path for path in sorted(changes.in_the_way) if path not in {*changes.changed, *changes.removed}]
    outgoing = [Step(f"{root}/{path}", put_away(path), None) for path in (*changes.removed, *parents)]
    incoming = {}
    for path in sorted(changes.changed, key=lambda path: (path == MANIFEST, path)):
        there = _obstacle(root, path) is None and os.path.lexists(f"{root}/{path}") and path not in changes.pruned
        staged = os.path.join(staging, f"{next(number)}.new")
        incoming[Step(f"{root}/{path}", put_away(path) if there else None, staged)] = files[path]
    return outgoing, incoming
