"""Global memory that copies in flight read: nobody may write it until the copy is known to be complete.

PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy": modifying the source of an asynchronous copy before the
copy is complete is undefined. Only sources that kernels may write are noted. A cp.async is in flight until its thread has waited
for it, or its arrival at an mbarrier has happened. A bulk load is in flight, for each thread, until that thread knows of the end
of the phase on which the load completes. Of several bulk loads of the same bytes the last is kept; writes by other clusters than
the loading one are compared with the load's issue alone (global_order.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Indices, Mask, Words
from mmagen.emulate.hazards.clocks import Clocks
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.memory.global_memory import WRITABLE, GlobalMemory
from mmagen.emulate.memory.sparse import zeros
from mmagen.emulate.ptx.model import Instruction


@dataclass(frozen=True)
class Phase:
    """The end of a phase in the clocks, and the shared byte of its mbarrier."""

    column: int
    clock: int
    byte: int


@dataclass(frozen=True)
class _Load:
    """A bulk load by a lane; it is complete for whoever knows the end of one of the phases."""

    lane: int
    phases: Sequence[Phase]


class SourceReads:
    """Of one batch. Byte positions are those in global memory."""

    def __init__(self, memory: GlobalMemory, lanes: Lanes, clocks: Clocks | None, findings: LaneFindings):
        self._memory, self._lanes, self._clocks, self._findings = memory, lanes, clocks, findings
        self._copies: Words | None = None  # of each byte, how many cp.async in flight read it
        self._loads: list[_Load] = []
        self._load_of: Words | None = None  # of each byte, the last bulk load, plus one

    def may_change(self, index: Indices) -> Mask:
        """bool[n]: which of these positions int64[n] are bytes that kernels may write."""
        state = self._memory.flat_state()
        if index.min() >= 0 and index.max() < len(state):
            changeable: Mask = state[index] & WRITABLE != 0
            return changeable
        inside: Mask = (index >= 0) & (index < len(state))
        inside[inside] = state[index[inside]] & WRITABLE != 0
        return inside

    def start_copy(self, places: Indices) -> None:
        """A cp.async reads these bytes int64[n] from now on."""
        if self._copies is None:
            self._copies = zeros(self._memory.size, np.uint32)
        np.add.at(self._copies, places, 1)

    def end_copy(self, places: Indices) -> None:
        """It is complete."""
        assert self._copies is not None
        np.subtract.at(self._copies, places, 1)

    def load(self, lane: int, places: Indices, phases: Sequence[Phase]) -> None:
        """A bulk load by a lane reads these bytes; it completes on one phase for each CTA that receives it."""
        if self._load_of is None:
            self._load_of = zeros(self._memory.size, np.uint32)
        self._loads.append(_Load(lane, phases))
        self._load_of[places] = len(self._loads)

    def check_write(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Finds writes of `size` bytes at positions int64[n] by lanes int64[n] to what copies in flight read."""
        if self._copies is None and self._load_of is None:
            return
        places = index[:, None] + np.arange(size)
        if self._copies is not None:
            early = (self._copies[places] != 0).any(axis=1)
            if early.any():
                text = "writes global memory that a cp.async reads which is in flight: nobody has waited for it"
                self._findings.add("async_race", i, int(early.sum()), int(lanes[early][0]), text)
        if self._load_of is not None:
            loads = self._load_of[places]
            if loads.any():
                self._check_loads(i, loads, lanes)

    def _check_loads(self, i: Instruction, loads: Words, lanes: Indices) -> None:
        """loads: uint32[n, size], of each byte the last bulk load, plus one."""
        assert self._clocks is not None
        clusters = self._lanes.cta[lanes] // self._lanes.cluster
        for number in np.unique(loads[loads != 0]).tolist():
            load = self._loads[number - 1]
            early = (loads == number).any(axis=1) & (clusters == self._lanes.cta[load.lane] // self._lanes.cluster)
            for phase in load.phases:
                early &= self._clocks.reached(lanes, phase.column) < phase.clock
            if early.any():
                text = (
                    f"writes global memory that a bulk load of thread {load.lane % self._lanes.width} reads, without having waited "
                    f"for phase {load.phases[0].clock - 1} of the mbarrier at shared byte {load.phases[0].byte}"
                )
                self._findings.add("async_race", i, int(early.sum()), int(lanes[early][0]), text)
