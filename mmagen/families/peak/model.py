"""The plan of `kernel: peak`."""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.families.peak.loops import Loop
from mmagen.families.peak.rates import rates
from mmagen.mma.operation import Operation
from mmagen.plan.project import ProjectPlan


@dataclass(frozen=True, kw_only=True)
class PeakPlan(ProjectPlan):
    """A project whose program measures the rate of one operation without memory traffic."""

    operation: Operation
    loop: Loop

    @property
    def requires(self) -> str:
        return self.operation.arch

    @property
    def extended(self) -> bool:
        return True  # the loops include every header of wgmma

    @property
    def rates(self) -> tuple[tuple[int, int], ...]:
        """(compute capability, operations per cycle and SM) by the datasheets."""
        return rates(self.operation)
