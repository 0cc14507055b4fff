"""Problems as the kernels of a library see them: with the pitches of copies, where TMA cannot address the operands themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mmagen.core.errors import UsageError
from mmagen.plan.copies import Loads, call_of, loads
from mmagen.plan.cost import Call
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem

ONE_KERNEL = (
    "TMA cannot address their operands and copies would not save time, so all configurations compute them with the same kernel"
)


class Calls:
    """The calls of one library."""

    def __init__(self, plan: GemmPlan) -> None:
        """plan: a library. Which operands it copies depends little on its configs: on the one that lends its tile to the kernel
        whose threads load the operands."""
        self._plan = plan

    def of(self, problem: Problem) -> Call:
        """The call by which the library chooses."""
        return call_of(self._plan, problem)

    def is_copied(self, problem: Problem) -> bool:
        """Are operands copied before the kernel runs? The copies take the same time for every kernel."""
        return loads(self._plan, problem) is Loads.COPIES

    def copied(self, problems: Iterable[Problem]) -> frozenset[Call]:
        """The calls of those problems whose operands are copied."""
        return frozenset(self.of(problem) for problem in problems if self.is_copied(problem))

    def distinguishing(self, problems: Sequence[Problem], source: str) -> list[Problem]:
        """Those that configurations compute by kernels of their own. source: as `--problems` has it. Raises UsageError if there is
        none."""
        if not self._plan.copies_operands:
            return list(problems)
        found = [problem for problem in problems if loads(self._plan, problem) in (Loads.TMA, Loads.COPIES)]
        if problems and not found:
            raise UsageError(f"--problems {source}: {ONE_KERNEL}; add problems whose rows are multiples of 16 bytes")
        return found

    def distinct(self, problems: Sequence[Problem]) -> list[Problem]:
        """The first problem of each call: another may differ from it in what a call does not have, such as its offset."""
        found: dict[Call, Problem] = {}
        for problem in problems:
            found.setdefault(self.of(problem), problem)
        return list(found.values())
