"""Conflicts in global memory between the CTAs of a launch that do not synchronise with each other."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Indices, Words
from mmagen.emulate.memory.sparse import zeros
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.findings import FindingLog


class GlobalWriters:
    """Which CTA wrote each granule of global memory: nothing orders the CTAs of a launch, so no other may touch it."""

    def __init__(self, log: FindingLog, granule: int):
        self._log, self._granule = log, granule
        self._writer: Words | None = None

    def note(self, i: Instruction, index: Indices, size: int, ctas: Indices, writing: bool, total: int) -> None:
        """Notes accesses of `size` bytes at byte positions index int64[n], by CTAs int64[n], in `total` bytes of memory."""
        if self._writer is None:
            if not writing:
                return
            self._writer = zeros(total // self._granule + 1, np.uint32)
        places = (index // self._granule)[:, None] + np.arange(size // self._granule)
        codes = np.broadcast_to((ctas + 1).astype(np.uint32)[:, None], places.shape)
        before = self._writer[places]
        raced = (before != 0) & (before != codes)
        if writing:
            self._writer[places] = codes
            raced |= self._writer[places] != codes
            before = np.where(raced & ((before == 0) | (before == codes)), self._writer[places], before)
        if raced.any():
            row, column = np.argwhere(raced)[0]
            cta, other = int(ctas[row]), int(before[row, column]) - 1
            text = f"CTA {cta} {'writes' if writing else 'reads'} global memory that CTA {other} writes in the same launch"
            self._log.add("global_race", i, int(raced.any(axis=1).sum()), text, cta=cta)
