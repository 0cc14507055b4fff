"""What to change in a refused spec so that it is accepted, tried."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import yaml

from mmagen.core.errors import ABSENT, Diagnostic, Key, MmagenError
from mmagen.families.reading import read
from mmagen.spec.yaml_text import Document, decode

# Mending one fault may show another, which the first had hidden.
_MOST_STEPS = 16
_WIDTH = 110  # characters of a line, at most, of values that are written on several lines
_ESSENTIAL = ("mmagen", "name", "kernel", "atom", "tile")

# The keys of a spec to set; ABSENT for those to leave out.
Changes = dict[str, Any]


def accepted_changes(data: bytes | str, file: str) -> Changes | None:
    """Keys and values with which the spec in `data` is accepted; None where none were found, or it is no YAML.

    The changes that the faults name are made together, and those of the faults that then remain, until no fault is left.
    """
    try:
        document = Document(file)
        document.read(decode(data, file))
    except MmagenError:
        return None
    if document.broken or not isinstance(document.value, dict):
        return None
    original, changed, seen = document.value, deepcopy(document.value), set[str]()
    text: bytes | str = data
    for _ in range(_MOST_STEPS):
        plan, diagnostics = read(text, file)
        if plan is not None:
            return _difference(original, changed)
        _apply(changed, diagnostics)
        text = _dumped(changed)
        if text in seen:  # the changes undo one another
            for key in {diagnostic.key[0] for diagnostic in diagnostics if diagnostic.key} - set(_ESSENTIAL):
                changed.pop(str(key), None)
            text = _dumped(changed)
        if not text or text in seen:
            return None
        seen.add(text)
    return None


def as_yaml(changes: Changes) -> str:
    """The changes as lines of a spec: one for each key, but several for a list of mappings, such as configs."""
    lines = [_lines_of(key, value) for key, value in changes.items() if value is not ABSENT]
    absent = [key for key, value in changes.items() if value is ABSENT]
    return "\n".join([*lines, *([f"# without {', '.join(absent)}"] if absent else [])])


def _lines_of(key: str, value: Any) -> str:
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return yaml.safe_dump({key: value}, sort_keys=False, default_flow_style=None, width=_WIDTH).rstrip()
    # A list, because a scalar on its own is followed by the end of the document.
    return f"{key}: {yaml.safe_dump([value], default_flow_style=True, width=10**6).strip()[1:-1]}"


def _dumped(value: dict[str, Any]) -> str:
    try:
        return yaml.safe_dump(value, sort_keys=False, default_flow_style=None)
    except yaml.YAMLError:  # a value that no field takes, and for which no fault names another
        return ""


def _difference(before: dict[str, Any], after: dict[str, Any]) -> Changes:
    # By their text: 128.0 is equal to 128, and refused.
    return {key: after.get(key, ABSENT) for key in (*before, *after) if repr(before.get(key)) != repr(after.get(key))} | {
        key: ABSENT for key in before if key not in after
    }


def _apply(spec: dict[str, Any], diagnostics: Iterable[Diagnostic]) -> None:
    """Make the changes; of two that concern the same value, the first."""
    done: list[Key] = []
    leaving: list[Key] = []
    for diagnostic in diagnostics:
        for path, value in diagnostic.change.items():
            if any(path[: len(other)] == other or other[: len(path)] == path for other in done):
                continue
            done.append(path)
            if value is ABSENT:
                leaving.append(path)
            else:
                _set(spec, path, value)
    for path in sorted(leaving, key=lambda path: [str(part).zfill(6) for part in path], reverse=True):
        _leave_out(spec, path)


def _set(spec: dict[str, Any], path: Key, value: Any) -> None:
    """Set the value at the path; what a config inherits becomes its own."""
    at: Any = spec
    for depth, part in enumerate(path[:-1]):
        if isinstance(at, dict) and at.get(part) is None:
            inherited = depth == 2 and path[0] == "configs" and part in spec
            at[part] = deepcopy(spec[str(part)]) if inherited else {}
        at = _entry(at, part)
    if _has_place(at, path[-1]):
        at[path[-1]] = deepcopy(value)


def _leave_out(spec: dict[str, Any], path: Key) -> None:
    """Remove the entry at the path. A config that inherits the value gets null instead."""
    at: Any = spec
    for part in path[:-1]:
        at = _entry(at, part)
    if isinstance(at, dict) and path[0] == "configs" and len(path) == 3 and path[-1] not in at and path[-1] in spec:
        at[path[-1]] = None
    elif isinstance(at, dict):
        at.pop(path[-1], None)
    elif _has_place(at, path[-1]):
        del at[path[-1]]


def _entry(at: Any, part: str | int) -> Any:
    """The entry of a mapping or list, None where there is none."""
    if isinstance(at, dict):
        return at.get(part)
    return at[part] if _has_place(at, part) else None


def _has_place(at: Any, part: str | int) -> bool:
    return isinstance(at, dict) or (isinstance(at, list) and isinstance(part, int) and part < len(at))
