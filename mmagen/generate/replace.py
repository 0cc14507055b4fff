"""Replaces files of an existing folder atomically by renames; after a failure the renames are undone in reverse."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmagen.core.errors import UsageError
from mmagen.generate.manifest import RESERVED


@dataclass(frozen=True)
class Step:
    """One path that changes. put_away: where what is there now goes, None if nothing is; staged: the new file, None
    if there is none. All three are in one folder, so each move is one rename."""

    target: str
    put_away: str | None
    staged: str | None


def staging_in(parent: str) -> str:
    """An unused name in the folder `parent`; nothing is created."""
    return os.path.join(parent, f"{RESERVED}{os.urandom(8).hex()}")


def discard(staging: str) -> None:
    """Removes the folder `staging`, if it is there."""
    try:
        shutil.rmtree(staging, ignore_errors=True)
    finally:  # Ctrl-C waits until this is done
        if os.path.lexists(staging):
            shutil.rmtree(staging, ignore_errors=True)


def replace_files(root: str, staging: str, outgoing: Sequence[Step], incoming: Mapping[Step, bytes]) -> None:
    """Do all steps in the folder `root`, or none. outgoing: steps that only remove something; incoming: steps that add
    a file, with its content, in this order. staging: the folder that the steps name, not there yet.

    After any exception `root` is as it was, unless undoing fails as well: then UsageError says where the files are.
    """
    added = list(incoming)
    made: list[str] = []
    keep = False  # True while the staging folder holds the only copy of something
    try:
        os.mkdir(staging)
        for step, content in incoming.items():
            with open(str(step.staged), "xb") as file:
                file.write(content)
        keep = True
        try:
            _move(root, outgoing, added, made)
        except BaseException as error:
            keep = not _undo(outgoing, added, made)
            if keep:
                raise UsageError(
                    f"{root} could not be changed ({error}), nor restored; its previous files are in {staging}"
                ) from error
            raise
        keep = False
    finally:
        if not keep:
            discard(staging)


def _move(root: str, outgoing: Sequence[Step], incoming: Sequence[Step], made: list[str]) -> None:
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


def _undo(outgoing: Sequence[Step], incoming: Sequence[Step], made: list[str]) -> bool:
    """Undo whatever was done; False if a rename fails. What was done is read from the disk, because an interrupt may come
    between a rename and a record of it."""
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
        except KeyboardInterrupt:  # the call is ending already
            continue


def _undo_step(step: Step) -> bool:
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
