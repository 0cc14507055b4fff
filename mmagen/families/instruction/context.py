"""What the templates of a project of one instruction see besides its plan."""

from __future__ import annotations

from typing import Any

from mmagen.families.instruction.model import InstructionPlan

_METADATA = {
    "2:4": "the place of the first nonzero, then of the second, two bits each",
    "1:2": "4 where the first is kept, 14 where the second is",
    "4:8": "the place of the first pair of nonzeros, then of the second, two bits each",
}


def context(plan: InstructionPlan) -> dict[str, Any]:
    operation = plan.operation
    counted = " " if operation.type_a != "u1" else "x" if "XOR" in operation.name else "a"
    return {
        "decisions": "instruction, thread-value layouts, what lies where in memory",
        "cxx": operation.cxx(),
        "kernel_header": next(header for header, _ in plan.reading if header.endswith("_kernel.cuh")).removeprefix("include/"),
        "counted": counted,
        "absent": [name for name in ("E", "SFA", "SFB") if plan.operand(name) is None],
        "metadata": _METADATA.get(operation.sparsity or ""),
    }
