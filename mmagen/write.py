"""Files to a project folder: whole or not at all, and nothing that a person wrote is lost.

A new folder is written beside its place and renamed into it. An existing project is changed by renames only, after
everything new lies complete in a hidden folder inside it; whatever goes wrong on the way is undone in reverse.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mmagen.errors import UsageError

try:
    import fcntl
except ImportError:  # Windows: no lock, and renames alone keep a project whole
    fcntl = None  # type: ignore[assignment]

MANIFEST = "mmagen.json"
_STAGING = ".mmagen-"


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
    _check_files(files)
    try:
        if not os.path.lexists(folder):
            try:
                return _create(files, folder)
            except FileExistsError:
                if not os.path.lexists(folder):
                    raise
                # Another writer was first: then this is an update.
        if os.path.islink(folder):
            raise UsageError(f"{folder} is a symbolic link; name the folder that it leads to")
        if not os.path.isdir(folder):
            raise UsageError(f"{folder} is a file; name another folder with -o, or move it away")
        with _locked(folder):
            return _update(files, folder, force)
    except OSError as error:
        if isinstance(error, (FileExistsError, NotADirectoryError)) and not os.path.lexists(folder):
            raise UsageError(f"{folder} cannot be made: a parent of it is a file") from error
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}; it was left as it was") from error


def check(files: Mapping[str, bytes], folder: Path) -> tuple[str, ...]:
    """The paths, sorted, in which `folder` differs from what would be written: other content, missing, or listed in
    its mmagen.json but generated no longer. Files that mmagen never wrote do not count."""
    _check_files(files)
    root = os.path.abspath(folder)
    recorded = _parse_manifest(_read(root, MANIFEST)) or {}
    stale = {path for path in recorded.keys() - files.keys() if os.path.lexists(f"{root}/{path}")}
    return tuple(sorted(stale | {path for path, content in files.items() if _read(root, path) != content}))


# --- A new folder --------------------------------------------------------------------------------------------------


def _create(files: Mapping[str, bytes], folder: Path) -> Written:
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = _staging_in(str(folder.parent))
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
        _discard(staging)
    return Written(folder, tuple(sorted(files)), (), 0)


def _staging_in(parent: str) -> str:
    return os.path.join(parent, f"{_STAGING}{os.urandom(8).hex()}")


def _discard(staging: str) -> None:
    try:
        shutil.rmtree(staging, ignore_errors=True)
    finally:  # Ctrl-C waits until this is done
        if os.path.lexists(staging):
            shutil.rmtree(staging, ignore_errors=True)


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
    recorded = _parse_manifest(_read(root, MANIFEST))
    if recorded is None and not force and _holds_something(root):
        raise UsageError(
            f"{folder} is not empty and holds no readable {MANIFEST}, so it is no project of mmagen; name another "
            "folder with -o, or --force to write into it (files that are in the way are kept as <file>.orig)"
        )
    changes = _compare(files, root, recorded)
    if changes.in_the_way and not force:
        listed = "".join(f"\n  {path}: {whose}" for path, whose in sorted(changes.in_the_way.items()))
        raise UsageError(
            f"{folder} holds files that mmagen would overwrite or remove:{listed}\n"
            "nothing was changed; --force goes ahead and keeps each of them as <file>.orig"
        )
    if changes.changed or changes.removed:
        _swap(files, root, changes)
    return Written(folder, tuple(changes.changed), tuple(changes.removed), len(files) - len(changes.changed))


def _compare(files: Mapping[str, bytes], root: str, manifest: Mapping[str, str] | None) -> _Changes:
    recorded = manifest or {}
    changes = _Changes([], [], {}, set())
    for path in sorted(recorded.keys() - files.keys()):
        # What lies beyond a symbolic link is not in this folder.
        if _obstacle(root, path) is None and os.path.lexists(f"{root}/{path}"):
            changes.removed.append(path)
            _note_owner(changes, root, path, recorded)
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
        elif os.path.lexists(f"{root}/{path}") and (path != MANIFEST or manifest is None):
            _note_owner(changes, root, path, recorded)
    return changes


def _note_owner(changes: _Changes, root: str, path: str, recorded: Mapping[str, str]) -> None:
    present = _read(root, path)
    if path not in recorded:
        changes.in_the_way[path] = "not written by mmagen"
    elif present is None:
        changes.in_the_way[path] = "no plain file any more"
    elif hashlib.sha256(present).hexdigest() != recorded[path]:
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
            and not entry.name.startswith(_STAGING)
            and not (entry.name.startswith("build") and entry.is_dir())
            for entry in entries
        )


# --- An existing folder: the change, whole or not at all -----------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """One path that changes. put_away: where what is there now goes, None if nothing is; staged: the new file, None
    if there is none. All three are in one folder, so each move is one rename."""

    target: str
    put_away: str | None
    staged: str | None


def _swap(files: Mapping[str, bytes], root: str, changes: _Changes) -> None:
    # Inside the folder, not beside it: that is the same filesystem even where the folder is a mount point.
    staging = _staging_in(root)
    outgoing, incoming = _steps(files, root, changes, staging)
    arriving = list(incoming.values())
    made: list[str] = []
    keep = False  # True while the staging folder holds the only copy of something
    try:
        os.mkdir(staging)
        for path, step in incoming.items():
            with open(str(step.staged), "xb") as file:
                file.write(files[path])
        keep = True
        try:
            _move(root, outgoing, arriving, made)
        except BaseException as error:
            keep = not _undo(outgoing, arriving, made)
            if keep:
                raise UsageError(
                    f"{root} could not be changed ({error}), nor put back; its previous files lie in {staging}"
                ) from error
            raise
        keep = False
    finally:
        if not keep:
            _discard(staging)


def _steps(
    files: Mapping[str, bytes], root: str, changes: _Changes, staging: str
) -> tuple[list[_Step], dict[str, _Step]]:
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
    outgoing = [_Step(f"{root}/{path}", put_away(path), None) for path in (*changes.removed, *parents)]
    incoming = {}
    for path in sorted(changes.changed, key=lambda path: (path == MANIFEST, path)):
        there = _obstacle(root, path) is None and os.path.lexists(f"{root}/{path}") and path not in changes.pruned
        staged = os.path.join(staging, f"{next(number)}.new")
        incoming[path] = _Step(f"{root}/{path}", put_away(path) if there else None, staged)
    return outgoing, incoming


def _move(root: str, outgoing: list[_Step], incoming: list[_Step], made: list[str]) -> None:
    """Renames everything into place; `made` receives each folder just before it is made."""
    for step in outgoing:
        os.replace(step.target, str(step.put_away))
    for step in outgoing:
        parent = os.path.dirname(step.target)
        with contextlib.suppress(OSError):  # until one is not empty
            while len(parent) > len(root):
                os.rmdir(parent)
                parent = os.path.dirname(parent)
    for step in incoming:
        missing = []
        parent = os.path.dirname(step.target)
        while not os.path.isdir(parent):
            missing.append(parent)
            parent = os.path.dirname(parent)
        for parent in reversed(missing):
            made.append(parent)
            os.mkdir(parent)
        if step.put_away:
            os.replace(step.target, step.put_away)
        os.replace(str(step.staged), step.target)


def _undo(outgoing: list[_Step], incoming: list[_Step], made: list[str]) -> bool:
    """Puts everything back, whatever had been reached; False if the disk refuses. What was done is read off the disk,
    because an interrupt may have come between a rename and any note of it."""
    while True:
        try:
            whole = True
            for step in reversed(incoming):
                whole &= _undo_step(step)
            for parent in reversed(made):
                with contextlib.suppress(OSError):
                    os.rmdir(parent)
            for step in reversed(outgoing):
                whole &= _undo_step(step)
            return whole
        except KeyboardInterrupt:  # it is being heeded already
            continue


def _undo_step(step: _Step) -> bool:
    try:
        if step.staged and not os.path.lexists(step.staged) and os.path.lexists(step.target):
            # The new file goes back to where it was staged, so that a second pass does not take the old for the new.
            os.replace(step.target, step.staged)
        if step.put_away and os.path.lexists(step.put_away):
            os.makedirs(os.path.dirname(step.target), exist_ok=True)
            os.replace(step.put_away, step.target)
    except OSError:
        return False
    return True


# --- Paths and manifests -------------------------------------------------------------------------------------------


def _check_files(files: Mapping[str, bytes]) -> None:
    for path in files:
        if not _is_inside(path):
            raise ValueError(f"{path!r} is no relative POSIX path inside a project")
        parent = path.rpartition("/")[0]
        while parent:
            if parent in files:
                raise ValueError(f"{parent!r} is a file and the folder of {path!r}")
            parent = parent.rpartition("/")[0]
    listed = _parse_manifest(files.get(MANIFEST))
    if listed is None or listed.keys() != files.keys() - {MANIFEST}:
        raise ValueError(f"{MANIFEST} must list the other files of the project, with their digests")


def _is_inside(path: str) -> bool:
    leads_out = not {"", ".", ".."}.isdisjoint(path.split("/")) or not set("\\:\0").isdisjoint(path)
    return not leads_out and not path.startswith(_STAGING)


def _parse_manifest(content: bytes | None) -> dict[str, str] | None:
    """{path: sha256} of a mmagen.json; None if it is none, or lists what no project can hold."""
    try:
        listed = json.loads(content or b"null")["files"]
        if all(isinstance(path, str) and _is_inside(path) and path != MANIFEST for path in listed):
            return {path: str(digest) for path, digest in listed.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
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
