"""The kernels that multiply two matrices, or a batch of them."""

from __future__ import annotations

from typing import Any

from mmagen.verify.emulated import further_calls, promises
from mmagen.verify.emulated.compare import compare
from mmagen.verify.emulated.findings import with_findings
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.parts import parts_of
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.task import Task


def judge(task: Task) -> dict[str, Any]:
    """The outcome for the record. Raises EmulationError and HostError."""
    data = operands(task.product, task.problem, task.distribution, task.seed)
    written, reports = multiply(task, data)
    if task.checks:
        for part in parts_of(task.product):
            part.check(task, data)
        further_calls.check(task)
        promises.check(task)
    found = compare(task.product, task.problem, data, written, task.distribution)
    outcome: dict[str, Any] = {
        "max_abs_err": found.max_abs_err,
        "max_rel_err": found.max_rel_err,
        "bound": found.bound,
        "disposition": "passed",
        "reason": None,
    }
    outcome |= with_findings(found.reason, reports)
    if task.takes_workspace:
        outcome["details"]["workspace"] = task.workspace
    return outcome
