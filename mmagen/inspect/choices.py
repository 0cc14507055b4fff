"""Which decisions of a kernel are free, which follow from them, and which the instruction fixes."""

from __future__ import annotations

import json

from mmagen.mma import catalogue
from mmagen.mma.operation import Operation
from mmagen.plan import pages
from mmagen.plan.project import ProjectPlan

_NOT_DECISIONS = ("mmagen", "name", "problems", "configs")


def sections(plan: ProjectPlan) -> list[pages.Section]:
    """For each kernel: the spec's values, mmagen's, and those of the instruction."""
    return [(f"{name}: Choices" if name else "Choices", _rows(one)) for name, one in plan.by_kernel.items()]


def _rows(plan: ProjectPlan) -> list[pages.Row]:
    document = plan.spec.model_dump(mode="json", by_alias=True)
    given = {key for key in document if key not in _NOT_DECISIONS and key in plan.spec.model_fields_set}
    chosen = {key: text for key, text in plan.chosen.items() if document.get(key) is None}
    rows: list[pages.Row] = [
        ("free, in the spec", "; ".join(f"{key} {json.dumps(document[key])}" for key in document if key in given)),
        ("free, by default", "; ".join(f"{key} {text}" for key, text in chosen.items())),
    ]
    others = "all else on this page"
    if plan.any_shape:
        others += ": shared-memory layouts, copies, registers, bytes, launches"
    rows.append(("derived", "; ".join([*plan.derived, others])))
    operation = catalogue.known(plan.spec.atom)
    if operation:
        rows.append(("fixed by the instruction", _fixed(operation)))
    return [row for row in rows if row[1]]


def _fixed(operation: Operation) -> str:
    """Shape, types and layouts of the operation."""
    values = ", ".join(
        f"{len(operation.layout(letter).table()[0])} of {letter}" for letter in "ABC" if _owned(operation, letter)
    )
    places = ", ".join(f"{letter} in {operation.places[letter]}" for letter in "ABC")
    return (
        f"{pages.extents(operation.shape)}, {pages.count(operation.threads, 'thread')}, {operation.type_d} = {operation.type_a} x "
        f"{operation.type_b}; {places}" + (f"; values per thread: {values}" if values else "")
    )


def _owned(operation: Operation, letter: str) -> bool:
    return operation.places[letter] == "registers" and letter in operation.layouts
