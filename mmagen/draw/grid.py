"""What the cells of a picture are that has too many for a title each, as JSON for the script of the page (mmagen/inspect/hover.js):
owners as the first element of each thread and the distances of its values from there, of which few differ between threads, and
places in shared memory as the parts of row and column in them."""

from __future__ import annotations

import json

from mmagen.mma.ownership import Ownership
from mmagen.plan.maps import Stored


def grid(table: Ownership, stored: Stored | None, shown: tuple[range, range], cell: int, margin: int) -> str:
    """shown: rows and columns; cell, margin: pixels."""
    distances: dict[tuple[int, ...], int] = {}
    first, kind = [], []
    for elements in table.elements:
        first.append(elements[0] if elements else 0)
        kind.append(distances.setdefault(tuple(element - first[-1] for element in elements), len(distances)))
    rows, columns = shown
    return json.dumps(
        {
            "matrix": table.matrix,
            "rows": (rows.start, rows.stop),
            "columns": (columns.start, columns.stop),
            "of": table.columns,
            "cell": cell,
            "margin": margin,
            "first": first,
            "kind": kind,
            "offsets": list(distances),
            "stored": _stored(stored) if stored else None,
        },
        separators=(",", ":"),
    )


def _stored(one: Stored) -> dict[str, int | list[int]]:
    plain, columns = one.plain, one.table.columns
    swizzle, stage = one.swizzle, one.table.stage
    assert stage
    return {
        "bytes": one.element_bytes,
        "rows": [plain[first] for first in range(0, len(plain), columns)],
        "columns": [place - plain[0] for place in plain[:columns]],
        "bits": swizzle.bits,
        "base": swizzle.base,
        "shift": swizzle.shift,
        "group": stage.group,
        "kept": stage.kept,
        "packed": stage.packed,
    }
