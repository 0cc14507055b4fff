"""Which entry of a module a name means."""

from __future__ import annotations

from collections.abc import Sequence

from mmagen.core.demangled import demangled
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.ptx.model import Module


def entry_named(module: Module, name: str | None) -> str:
    """The entry called `name`, or the only one in whose name, mangled or demangled, it occurs; None: the only one.

    Demangling needs c++filt. Raises EmulationError, with the names of the entries, where there is none or more than one.
    """
    entries = list(module.entries)
    if not (name is None or isinstance(name, str)):
        raise EmulationError(f"the entry is a value of type {type(name).__name__}; pass its name, or a part of it")
    if name in module.entries:
        return str(name)
    found = entries if name is None else [entry for entry in entries if name in entry]
    if not found and name is not None:
        wanted = name.replace(" ", "")
        readable = demangled(entries)
        found = [entry for entry, text in zip(entries, readable, strict=True) if wanted in text.replace(" ", "")]
    if len(found) == 1:
        return found[0]
    asked = "an entry has to be named" if name is None else f"{len(found) or 'no'} entries are called {name}"
    there = "\n  ".join(_listed(found or entries)) or "none"
    raise EmulationError(f"{module.file}: {asked}; there are:\n  {there}")


def _listed(entries: Sequence[str]) -> list[str]:
    readable = demangled(entries)
    return [entry if entry == text else f"{entry}  {text}" for entry, text in zip(entries, readable, strict=True)]
