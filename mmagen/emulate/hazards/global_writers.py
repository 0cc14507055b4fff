"""Conflicts in global memory between the CTAs of a launch that do not synchronise with each other."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Indices, Mask, Words
from mmagen.emulate.memory.global_memory import WRITABLE, GlobalMemory
from mmagen.emulate.memory.sparse import zeros
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.findings import FindingLog

_READ_ONLY = np.uint32(1 << 31)  # of a reader: through the read-only cache


class GlobalWriters:
    """Which CTA wrote each granule of global memory, and which one read it last: nothing orders the CTAs of a launch, so no
    other may write it, nor read what is written. Codes are CTAs, plus one."""

    def __init__(self, log: FindingLog, granule: int):
        self._log, self._granule = log, granule
        self._writer: Words | None = None
        self._reader: Words | None = None

    def note(self, i: Instruction, index: Indices, size: int, ctas: Indices, writing: bool, memory: GlobalMemory) -> None:
        """Notes accesses of `size` bytes at byte positions index int64[n], by CTAs int64[n]."""
        if not writing:
            # Of what nobody may write there is nothing to note.
            writable = memory.flat_state()[index] & WRITABLE != 0
            if not writable.any():
                return
            index, ctas = index[writable], ctas[writable]
        granules = memory.size // self._granule + 1
        places = (index // self._granule)[:, None] + np.arange(size // self._granule)
        codes = np.broadcast_to((ctas + 1).astype(np.uint32)[:, None], places.shape)
        if writing:
            self._write(i, ctas, places, codes, granules)
        else:
            self._read(i, ctas, places, codes, granules)

    def _read(self, i: Instruction, ctas: Indices, places: Indices, codes: Words, granules: int) -> None:
        cached = _READ_ONLY if i.has("nc") else np.uint32(0)
        if self._writer is not None:
            before = self._writer[places]
            self._report(i, ctas, before, (before != 0) & (before != codes), "reads global memory that CTA {other} writes")
            if cached:
                text = "reads through the read-only cache (.nc) global memory that CTA {other} writes"
                self._report(i, ctas, before, before != 0, text)
        if self._reader is None:
            self._reader = zeros(granules, np.uint32)
        self._reader[places] = codes | (self._reader[places] & _READ_ONLY) | cached

    def _write(self, i: Instruction, ctas: Indices, places: Indices, codes: Words, granules: int) -> None:
        if self._reader is not None:
            readers = self._reader[places]
            other = (readers != 0) & (readers & ~_READ_ONLY != codes)
            self._report(i, ctas, readers, other, "writes global memory that CTA {other} reads")
            text = "writes global memory that CTA {other} reads through the read-only cache (.nc)"
            self._report(i, ctas, readers, readers & _READ_ONLY != 0, text)
        if self._writer is None:
            self._writer = zeros(granules, np.uint32)
        before = self._writer[places]
        raced = (before != 0) & (before != codes)
        self._writer[places] = codes
        lost = self._writer[places] != codes
        self._report(
            i, ctas, np.where(raced, before, self._writer[places]), raced | lost, "writes global memory that CTA {other} writes"
        )

    def _report(self, i: Instruction, ctas: Indices, others: Words, bad: Mask, text: str) -> None:
        if bad.any():
            row, column = np.argwhere(bad)[0]
            cta, other = int(ctas[row]), int(others[row, column] & ~_READ_ONLY) - 1
            message = f"CTA {cta} {text.format(other=other)} in the same launch"
            self._log.add("global_race", i, int(bad.any(axis=1).sum()), message, cta=cta)
