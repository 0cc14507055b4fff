"""Which entry of a module a name means."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import cache

from mmagen.core.process import capture
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.ptx.model import Module


def entry_named(module: Module, name: str | None) -> str:
    """The entry called `name`, or the only one in whose name, mangled or demangled, it occurs; None: the only one.

    Demangling needs c++filt. Raises EmulationError, with the names of the entries, where there is none or more than one.
    """
    entries = list(module.entries)
    if name in module.entries:
        return str(name)
    found = entries if name is None else [entry for entry in entries if name in entry]
    if not found and name is not None:
        wanted = name.replace(" ", "")
        readable = demangled(tuple(entries))
        found = [entry for entry, text in zip(entries, readable, strict=True) if wanted in text.replace(" ", "")]
    if len(found) == 1:
        return found[0]
    asked = "an entry has to be named" if name is None else f"{len(found) or 'no'} entries are called {name}"
    there = "\n  ".join(_listed(found or entries)) or "none"
    raise EmulationError(f"{module.file}: {asked}; there are:\n  {there}")


def _listed(entries: Sequence[str]) -> list[str]:
    readable = demangled(tuple(entries))
    return [entry if entry == text else f"{entry}  {text}" for entry, text in zip(entries, readable, strict=True)]


@cache
def demangled(names: tuple[str, ...]) -> tuple[str, ...]:
    """C++ names as in the source; unchanged where c++filt is not installed."""
    program = shutil.which("c++filt")
    if not program or not names:
        return names
    done = capture([program, *names], timeout_s=20.0)
    lines = tuple(done.stdout.splitlines())
    return lines if done.exit_code == 0 and len(lines) == len(names) else names
