"""In which order processes emulate tasks: those of one kernel in as few processes as possible, since each of them has to read the
kernel's PTX and compile its blocks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from mmagen.plan.trials import products
from mmagen.verify.emulated.task import Task


class Order:
    """The tasks that have not begun, by kernel; those of a kernel with the most products first, so that none of them is left for
    the end."""

    def __init__(self, work: Sequence[Task]):
        self._products = [products(task.problem) for task in work]
        self._waiting: dict[str, deque[int]] = {}
        for i in sorted(range(len(work)), key=lambda i: -self._products[i]):
            self._waiting.setdefault(work[i].kernel_name, deque()).append(i)

    def __bool__(self) -> bool:
        return any(self._waiting.values())

    def take(self, last: str, running: Sequence[str]) -> int:
        """The number of the task that a process begins. last: the kernel of its task before, "" for none. running: the kernels of
        the other processes' tasks. Of other kernels than its own it takes that with the most products, of those that no other
        process has, if there are any. There must be a task left."""
        if self._waiting.get(last):
            return self._waiting[last].popleft()
        busy = Counter(running)
        left = [name for name, waiting in self._waiting.items() if waiting]
        return self._waiting[min(left, key=lambda name: (busy[name], -self._left(name)))].popleft()

    def _left(self, name: str) -> int:
        return sum(self._products[i] for i in self._waiting[name])
