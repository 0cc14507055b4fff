"""Registers that some path may read before anything wrote them."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Mask
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.ptx.model import Entry, Instruction


class RegisterTracker:
    """Which lanes have written each of the `tracked` registers of an entry."""

    def __init__(self, lanes: Lanes, findings: LaneFindings, entry: Entry, tracked: frozenset[int]):
        self._lanes, self._findings, self._entry = lanes, findings, entry
        self.tracked = tracked
        self._written: dict[int, Mask] = {r: np.zeros(lanes.size, dtype=bool) for r in tracked}

    def name(self, register: int) -> str:
        """The name of a register in the PTX."""
        return self._entry.registers[register].name

    def mark_written(self, register: int, mask: Mask | None) -> None:
        """Notes that a tracked register was written by the lanes of a mask (None: all)."""
        if mask is None:
            self._written[register][:] = True
        else:
            self._written[register] |= mask

    def check_written(self, register: int, mask: Mask | None, i: Instruction) -> None:
        """Finds lanes that read a tracked register before anything wrote it."""
        missing = ~self._written[register]
        missing &= self._lanes.live if mask is None else mask
        if missing.any():
            lanes = np.flatnonzero(missing)
            text = f"reads {self.name(register)}, which it never wrote"
            self._findings.add("uninitialised_register", i, len(lanes), int(lanes[0]), text)
