"""The kernels for groups with matrices of their own."""

from __future__ import annotations

from typing import Any

from mmagen.verify.emulated import further_calls, pointers, promises
from mmagen.verify.emulated.task import Task


def judge(task: Task) -> dict[str, Any]:
    """The outcome for the record. Raises EmulationError and HostError."""
    if task.checks:
        further_calls.check(task)
        promises.check(task)
    return pointers.judge(task)
