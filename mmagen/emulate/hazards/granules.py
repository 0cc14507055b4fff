"""Shared memory in granules: the smallest shared access of the kernel, so that no access covers part of one."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from mmagen.emulate.arrays import Events, Indices
from mmagen.emulate.lanes.undefined import UnwrittenRead
from mmagen.emulate.ptx.model import Instruction


class Granules:
    """granule: bytes of one; a power of two."""

    def __init__(self, granule: int):
        self.granule = granule
        self._spans: dict[int, Indices] = {}

    def granules(self, index: Indices, size: int) -> Indices:
        """int64[n, size / granule]: the granules of accesses of `size` bytes at byte positions `index`."""
        count = size // self.granule
        if count not in self._spans:
            self._spans[count] = np.arange(count)
        return (index // self.granule)[:, None] + self._spans[count]


class SharedShadow(Protocol):
    """Who accessed which bytes of shared memory. index: int64[n], byte positions of `size` bytes each; lanes: int64[n]."""

    def read(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> UnwrittenRead | None:
        """Notes reads by threads. Returns those of what nothing wrote, if any."""

    def write(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Notes writes by threads."""

    def atomic(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Notes atomic accesses by threads."""

    def start_copy(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Notes cp.async copies, which may write at any time from now on."""

    def end_copy(self, index: Indices, size: int, lanes: Indices, codes: Events) -> None:
        """Notes that cp.asyncs were complete at events codes[n], or where that is 0, that their threads wait for them now."""
