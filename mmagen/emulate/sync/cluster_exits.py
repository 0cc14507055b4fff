"""CTAs of a cluster that end while others still access their shared memory."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Mask
from mmagen.emulate.hazards.clocks import Clocks
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.ptx.model import Instruction


class ClusterExits:
    """What other CTAs of its cluster do to a CTA's shared memory and barriers, and whether it has ended by then."""

    def __init__(self, lanes: Lanes, clocks: Clocks | None, findings: LaneFindings):
        self._lanes, self._clocks, self._findings = lanes, clocks, findings
        self._pending: dict[int, dict[int, tuple[int, Instruction, int]]] = {}

    def check_running(self, i: Instruction, lane: int, cta: int) -> bool:
        """A thread accesses the shared memory of a CTA. Returns whether that is another one, which still runs."""
        if int(self._lanes.cta[lane]) == cta:
            return False
        if self._lanes.live[self._lanes.of_cta(cta)].any():
            return True
        self._findings.add(
            "cluster_exit", i, 1, lane, f"accesses the shared memory of CTA {cta + self._lanes.first}, which has ended"
        )
        return False

    def remote_write(self, i: Instruction, lane: int, cta: int) -> None:
        """A thread writes to the shared memory of a CTA or arrives at its mbarriers: the CTA must not end before it knows."""
        if self.check_running(i, lane, cta) and self._clocks is not None:
            code = int(self._clocks.codes(np.array([lane]))[0])
            self.must_outlast(i, lane, cta, code >> 32 & 0xFFFF, code & 0xFFFFFFFF)

    def must_outlast(self, i: Instruction, lane: int, cta: int, column: int, clock: int) -> None:
        """A CTA must not end before it knows that an agent has reached `clock`."""
        self._pending.setdefault(cta, {})[column] = (clock, i, lane)

    def end(self, mask: Mask) -> None:
        """These lanes have ended."""
        if self._clocks is None:
            return
        for cta in map(int, np.unique(self._lanes.cta[mask])):
            lanes = self._lanes.of_cta(cta)
            if self._lanes.live[lanes].any():
                continue
            for column, (clock, i, lane) in self._pending.pop(cta, {}).items():
                if (self._clocks.known[lanes, column] < clock).all():
                    text = f"accesses the shared memory of CTA {cta + self._lanes.first}, which may have ended:"
                    self._findings.add("cluster_exit", i, 1, lane, f"{text} it did not wait for that")
