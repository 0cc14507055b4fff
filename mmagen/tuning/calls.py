"""Problems as the kernels of a library see them: with the pitches of copies, where TMA cannot address the operands themselves."""

from __future__ import annotations

from collections.abc import Sequence

from mmagen.core.errors import UsageError
from mmagen.plan.copies import Loads, call_of, loads
from mmagen.plan.cost import Call
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem

ONE_KERNEL = "TMA cannot address their operands, and all configurations compute such problems by the same kernel"


class Calls:
    """Of one library. What it copies is decided by this plan, also for libraries that are made from it."""

    def __init__(self, plan: GemmPlan) -> None:
        self._plan = plan

    def of(self, problem: Problem) -> Call:
        """The call by which the library chooses."""
        return call_of(self._plan, problem)

    def is_copied(self, problem: Problem) -> bool:
        """Are operands copied before a kernel runs? Whichever that is, the copies take the same time."""
        return self._plan.copies_operands and loads(self._plan, problem) is Loads.COPIES

    def distinguishing(self, problems: Sequence[Problem], source: str) -> list[Problem]:
        """Those that configurations compute by kernels of their own. source: as `--problems` has it. Raises UsageError if there is
        none."""
        if not self._plan.copies_operands:
            return list(problems)
        found = [problem for problem in problems if loads(self._plan, problem) in (Loads.TMA, Loads.COPIES)]
        if problems and not found:
            raise UsageError(f"--problems {source}: {ONE_KERNEL}; add problems whose rows are multiples of 16 bytes")
        return found
