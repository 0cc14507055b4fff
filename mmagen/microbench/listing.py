"""What `mmagen peak` can measure, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mmagen.core.screen import table as laid_out
from mmagen.families.peak.loops import refusal
from mmagen.families.peak.rates import rate
from mmagen.mma.operation import Operation


def listing(
    operations: Sequence[Operation], target: str, obstacle: Callable[[Operation], str | None], columns: int | None = None
) -> str:
    """A row for each operation: where it runs, operations of an SM in a cycle by the datasheet of `target`, and whether it is
    measured there; then how many are. obstacle: why not there, where it is measured elsewhere."""
    found = [(operation, refusal(operation) or obstacle(operation)) for operation in operations]
    rows = [
        [
            operation.name,
            operation.kind,
            ", ".join(operation.targets) or f"{operation.arch} and later",
            str(rate(operation, target) or ""),
            why or "measured",
        ]
        for operation, why in found
    ]
    here = sum(why is None for _, why in found)
    elsewhere = sum(why is not None and refusal(operation) is None for operation, why in found)
    counts = f"{here:,} of {len(found):,} operations are measured on {target}, {elsewhere:,} on other architectures"
    return laid_out(["operation", "kind", "runs on", "rate", f"on {target}"], rows, columns, right=["rate"]) + f"\n\n{counts}"
