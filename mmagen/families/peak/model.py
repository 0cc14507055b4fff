"""The plan of `kernel: peak`."""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.families.peak.loops import Loop
from mmagen.families.peak.rates import rates
from mmagen.mma.operation import Operation
from mmagen.plan.plans import ProjectPlan


@dataclass(frozen=True, kw_only=True)
class PeakPlan(ProjectPlan):
    """A project whose program measures how fast one operation runs when nothing has to be fetched."""

    operation: Operation
    loop: Loop

    @property
    def extended(self) -> bool:
        return True  # the loops include every header of wgmma

    @property
    def rates(self) -> tuple[tuple[int, int], ...]:
        """(compute capability, operations of an SM in a cycle) by the datasheets."""
        return rates(self.operation)
