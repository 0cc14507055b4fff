"""What differs between two specs or projects: keys, everything derived from them, and the generated files."""

from __future__ import annotations

import difflib
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from tabulate import tabulate

from mmagen import families
from mmagen.families import family_of
from mmagen.generate.manifest import MANIFEST
from mmagen.generate.render import render
from mmagen.inspect import page
from mmagen.plan.pages import count
from mmagen.plan.plans import ProjectPlan

_ABSENT = "-"
# What differs wherever the specs differ, and says nothing more.
_UNTOLD_FILES = (MANIFEST, "spec.yaml")
_UNTOLD_SECTIONS = ("Choices", "Problems of verify")
_WIDTH = 56  # of a column of text, where it is wrapped


@dataclass(frozen=True)
class Side:
    """One of the two. files: of a generated project by path; None for a spec."""

    label: str
    plan: ProjectPlan
    files: Mapping[str, bytes] | None = None


@dataclass(frozen=True)
class Difference:
    """keys: of the spec; derived: section and row of `inspect`; files: path and what differs, with the project's name as NAME.
    Each with the two values, "-" for none."""

    labels: tuple[str, str]
    keys: tuple[tuple[str, str, str], ...]
    derived: tuple[tuple[str, str, str, str], ...]
    files: tuple[tuple[str, str], ...]

    def __bool__(self) -> bool:
        return bool(self.keys or self.derived or self.files)


def compare(old: Side, new: Side, device: str | None = None) -> Difference:
    """device: of the launches; by default one that each is compiled for."""
    keys = _differing(_keys(old.plan), _keys(new.plan))
    # Registers by ptxas beside estimated ones would differ for that reason alone.
    built = all(page.is_built(side.plan, device) for side in (old, new))
    derived = _differing(_rows(old.plan, device, built), _rows(new.plan, device, built))
    return Difference(
        (old.label, new.label),
        tuple((key, *values) for (key,), values in keys),
        tuple((section, row, *values) for (section, row), values in derived),
        tuple(_files(old, new)),
    )


def text(it: Difference) -> str:
    """Tables of the three, or that nothing differs."""
    if not it:
        return f"{it.labels[0]} and {it.labels[1]} mean the same: no key, derived value or generated file differs\n"
    parts = [
        ("Spec", ("key", *it.labels), it.keys),
        ("Derived", ("section", "", *it.labels), it.derived),
        (f"Generated files, from {it.labels[0]} to {it.labels[1]}", ("file", "difference"), it.files),
    ]
    return "\n\n".join(f"{title}\n{_table(heads, rows)}" for title, heads, rows in parts if rows) + "\n"


def to_json(it: Difference) -> str:
    """The same as a line of JSON."""
    return json.dumps(
        {
            "of": it.labels,
            "spec": [dict(zip(("key", "old", "new"), row, strict=True)) for row in it.keys],
            "derived": [dict(zip(("section", "row", "old", "new"), row, strict=True)) for row in it.derived],
            "files": [dict(zip(("file", "difference"), row, strict=True)) for row in it.files],
        }
    )


def _table(heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    wrapped = [tuple(textwrap.fill(cell, _WIDTH) for cell in row) for row in rows]
    return indent(tabulate(wrapped, heads, tablefmt="simple", disable_numparse=True), "  ")


def _keys(plan: ProjectPlan) -> dict[tuple[str, ...], str]:
    """The spec's keys, those of configs by the config's name."""
    found: dict[tuple[str, ...], str] = {}
    document: dict[str, Any] = plan.spec.model_dump(mode="json", by_alias=True)
    for config in document.pop("configs", None) or ():
        name = config.pop("name")
        found |= {(f"{name}: {key}",): json.dumps(value) for key, value in config.items()}
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
