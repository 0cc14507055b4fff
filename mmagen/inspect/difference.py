"""What differs between two specs or projects: keys, everything derived from them, and the generated files."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from mmagen import families
from mmagen.core.screen import Line, fold, table
from mmagen.families import family_of
from mmagen.generate.manifest import MANIFEST
from mmagen.generate.render import render
from mmagen.inspect import page
from mmagen.plan.pages import count
from mmagen.plan.project import ProjectPlan

_ABSENT = "-"
# What differs wherever the specs differ, and says nothing more.
_UNTOLD_FILES = (MANIFEST, "spec.yaml")
_UNTOLD_SECTIONS = ("Choices", "Problems of verify")
_WIDTH = 56  # of a column of text, where it is wrapped
_INDENT = "  "


@dataclass(frozen=True)
class Side:
    """One of the two. files: of a generated project by path; None for a spec. folder: of a project."""

    label: str
    plan: ProjectPlan
    files: Mapping[str, bytes] | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class Difference:
    """keys: of the spec; derived: section and row of `inspect`; files: path and what differs, with the project's name as NAME;
    code: kernel and what differs in the machine code of two projects. Each with the two values, "-" for none. uncompared: why
    machine code was not compared, "" for specs, which have none."""

    labels: tuple[str, str]
    keys: tuple[tuple[str, str, str], ...]
    derived: tuple[tuple[str, str, str, str], ...]
    files: tuple[tuple[str, str], ...]
    code: tuple[tuple[str, str, str, str], ...] = ()
    uncompared: str = ""
    compared: bool = False

    def __bool__(self) -> bool:
        return bool(self.keys or self.derived or self.files or self.code)


def compare(old: Side, new: Side, device: str | None = None) -> Difference:
    """device: of the launches; by default one that each is compiled for."""
    keys = _differing(_keys(old.plan), _keys(new.plan))
    # Registers by ptxas beside estimated ones would differ for that reason alone.
    built = all(page.is_built(side.plan, device) for side in (old, new))
    derived = _differing(_rows(old.plan, device, built), _rows(new.plan, device, built))
    code, uncompared = _code(old, new)
    return Difference(
        (old.label, new.label),
        tuple((key, *values) for (key,), values in keys),
        tuple((section, row, *values) for (section, row), values in derived),
        tuple(_files(old, new)),
        code,
        uncompared,
        compared=bool(old.folder and new.folder and not uncompared),
    )


def _code(old: Side, new: Side) -> tuple[tuple[tuple[str, str, str, str], ...], str]:
    """The rows of two projects, or why there are none."""
    if old.folder is None or new.folder is None:
        return (), ""
    from mmagen.inspect import machine_code  # looks for the toolchain, which specs do without

    both = machine_code.of_both(*(machine_code.Project(side.folder, side.plan.name) for side in (old, new) if side.folder))
    values: list[dict[tuple[str, ...], str]] = [
        {(kernel, what): value for kernel, rows in one.kernels.items() for what, value in rows.items()} for one in both
    ]
    return tuple((kernel, what, *pair) for (kernel, what), pair in _differing(*values)), both[0].missing


def text(it: Difference, columns: int | None = None) -> str:
    """Tables of the three, or that nothing differs. columns: characters of a line."""
    if not it:
        compared = ", instruction count" if it.compared else ""
        same = f"{it.labels[0]} and {it.labels[1]} mean the same: no key, derived value{compared} or generated file differs"
        return f"{fold(same, columns)}\n{_uncompared(it, columns)}"
    parts = [
        ("Spec", ("key", *it.labels), it.keys),
        ("Derived", ("", *it.labels), _by_section(it.derived)),
        ("Machine code", ("", *it.labels), _by_section(it.code)),
        (f"Generated files, from {it.labels[0]} to {it.labels[1]}", ("file", "difference"), it.files),
    ]
    tables = [f"{fold(title, columns)}\n{_table(heads, rows, columns)}" for title, heads, rows in parts if rows]
    return "\n\n".join(tables) + "\n" + _uncompared(it, columns)


def _by_section(rows: Iterable[tuple[str, ...]]) -> list[Line]:
    """The rows without their first cells, below a line for each of these."""
    lines: list[Line] = []
    for section, below in groupby(rows, lambda row: row[0]):
        lines += [section, *(row[1:] for row in below)]
    return lines


def _uncompared(it: Difference, columns: int | None) -> str:
    return fold(f"Machine code is not compared: {it.uncompared}", columns) + "\n" if it.uncompared else ""


def to_json(it: Difference) -> str:
    """The same as a line of JSON."""
    return json.dumps(
        {
            "of": it.labels,
            "spec": [dict(zip(("key", "old", "new"), row, strict=True)) for row in it.keys],
            "derived": [dict(zip(("section", "row", "old", "new"), row, strict=True)) for row in it.derived],
            "code": [dict(zip(("kernel", "what", "old", "new"), row, strict=True)) for row in it.code],
            "code_not_compared": it.uncompared,
            "files": [dict(zip(("file", "difference"), row, strict=True)) for row in it.files],
        }
    )


def _table(heads: Sequence[str], rows: Sequence[Line], columns: int | None) -> str:
    if columns is None:  # nothing folds there, but cells with whole lists of a spec are too long for any reader
        cells = [row for row in rows if not isinstance(row, str)]
        columns = len(_INDENT) + sum(min(_WIDTH, max(map(len, column))) + 2 for column in zip(heads, *cells, strict=True))
    return table(heads, rows, columns, indent=_INDENT)


def _keys(plan: ProjectPlan) -> dict[tuple[str, ...], str]:
    """The spec's keys, those of configs by the config's name."""
    found: dict[tuple[str, ...], str] = {}
    document: dict[str, Any] = plan.spec.model_dump(mode="json", by_alias=True)
    for config in document.pop("configs", None) or ():
        name = config.pop("name")
        found |= {(f"{name}: {key}",): json.dumps(value) for key, value in config.items()}
    if document.get("problems") is not None:
        found[("problems",)] = "; ".join(one.text for one in plan.spec.problems or ())
        del document["problems"]
    return {(key,): json.dumps(value) for key, value in document.items() if value is not None} | found


def _rows(plan: ProjectPlan, device: str | None, built: bool) -> dict[tuple[str, ...], str]:
    """Each value of the page by section and row; of a table with a row of heads, by the first cell and the head."""
    found: dict[tuple[str, ...], str] = {}
    for title, rows in [*family_of(plan).page(plan), *page.launches(plan, device, built)]:
        if any(title.endswith(untold) for untold in _UNTOLD_SECTIONS):
            continue
        found |= _section(title, rows)
    return found


def _section(title: str, rows: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    if rows and len(rows[0]) > 2:
        heads, *lines = rows
        title = title.partition(":")[0] if title.startswith("Launches") else title
        return {(title, f"{line[0]}, {head}"): cell for line in lines for head, cell in zip(heads[1:], line[1:], strict=True)}
    return {(title, row[0]): row[1] for row in rows}


def _differing(
    old: Mapping[tuple[str, ...], str], new: Mapping[tuple[str, ...], str]
) -> list[tuple[tuple[str, ...], tuple[str, str]]]:
    return [
        (key, (old.get(key, _ABSENT), new.get(key, _ABSENT)))
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]


def _files(old: Side, new: Side) -> list[tuple[str, str]]:
    """A row for each file that one of them lacks, or that differs otherwise than by the project's name."""
    name = new.plan.name if old.files is None and new.files is not None else old.plan.name
    first, second = _contents(old, name), _contents(new, name)
    found = []
    for path in sorted({*first, *second}):
        if path in _UNTOLD_FILES or first.get(path) == second.get(path):
            continue
        if path not in first or path not in second:
            found.append((path, "new" if path in second else "gone"))
            continue
        lines = list(difflib.unified_diff(first[path].splitlines(), second[path].splitlines(), n=0, lineterm=""))[2:]
        more, less = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        found.append((path, f"{count(more, 'line')} more, {less} less"))
    return found


def _contents(side: Side, name: str) -> dict[str, str]:
    """The files, those of a spec generated under `name`, which would differ in every path. What depends on the digest of the spec
    alone is left out."""
    plan, files = side.plan, side.files
    if files is None:
        plan = families.plan(plan.spec.model_copy(update={"name": name}))
        files = render(plan)

    def without(content: str) -> str:
        for own, common in ((plan.spec_sha, "0" * len(plan.spec_sha)), (plan.name, "NAME"), (plan.name.upper(), "NAME")):
            content = content.replace(own, common)
        return content

    return {without(path): without(content.decode("utf-8", "replace")) for path, content in files.items()}
