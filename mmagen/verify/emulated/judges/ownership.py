"""The kernels whose threads mark the elements that they own."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mmagen.emulate import GlobalMemory
from mmagen.plan.plans import OwnershipPlan
from mmagen.verify.emulated import host
from mmagen.verify.emulated.findings import with_findings
from mmagen.verify.emulated.task import Task


def judge(task: Task) -> dict[str, Any]:
    """The outcome for the record. Raises EmulationError and HostError."""
    memory, tables = GlobalMemory(), cast(OwnershipPlan, task.plan).ownership
    addresses = {}
    for name, table in zip("abc", tables, strict=True):
        planes = np.zeros((len(table.elements), table.rows * table.columns), np.int32)
        addresses[name] = memory.allocate(name, planes)
    captured = host.launch_of(task, task.symbol("stamp"), [addresses[name] for name in "abc"])
    report = host.emulate(task, captured, memory)
    wrong = ""
    for name, table in zip("abc", tables, strict=True):
        expected = np.zeros((len(table.elements), table.rows * table.columns), np.int32)
        for thread, values in enumerate(table.elements):
            expected[thread, list(values)] = np.arange(1, len(values) + 1)
        stamped = memory.read(name, np.int32).reshape(expected.shape)
        if (stamped != expected).any():
            thread, element = map(int, np.argwhere(stamped != expected)[0])
            wrong = (
                f"{table.matrix}({element // table.columns},{element % table.columns}), thread {thread}: stamped "
                f"{stamped[thread, element]}, the layout algebra says {expected[thread, element]}"
            )
    outcome = {"disposition": "passed", "reason": None, "max_abs_err": 1.0 if wrong else 0.0, "bound": 0.0}
    return outcome | with_findings(wrong, [report])
