"""Launches that may begin before the launch before them ends (programmatic stream serialization).

What the grid before writes is there only for threads that have executed `griddepcontrol.wait`, or have synchronised with one
that has (PTX ISA, "griddepcontrol"). It may write any global memory: operands, the workspace, and what this one writes too.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Indices, Mask
from mmagen.emulate.hazards.clocks import Clocks
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.ptx.model import Instruction


class GridDependency:
    """Which threads of one batch know that the grid before has ended."""

    def __init__(self, lanes: Lanes, clocks: Clocks, findings: LaneFindings):
        self._clocks, self._findings = clocks, findings
        self._column = clocks.column("grid", 0, 0)
        self._passed: Mask = np.zeros(lanes.size, dtype=bool)

    def wait(self, lanes: Indices) -> None:
        """griddepcontrol.wait."""
        self._clocks.advance(lanes, self._column, 1)

    def check(self, i: Instruction, lanes: Indices) -> None:
        """Lanes access global memory."""
        if self._passed[lanes].all():
            return
        known = self._clocks.reached(lanes, self._column) > 0
        self._passed[lanes[known]] = True
        if not known.all():
            text = "accesses global memory before griddepcontrol.wait, while the kernel before may still write it"
            self._findings.add("grid_dependency", i, int((~known).sum()), int(lanes[~known][0]), text)
