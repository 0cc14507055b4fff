"""Conflicts in global memory between the CTAs of a launch that do not synchronise with each other."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Indices, Mask, Words
from mmagen.emulate.memory.global_memory import WRITABLE, GlobalMemory
from mmagen.emulate.memory.sparse import zeros
from mmagen.emulate.ptx.facts import is_read_only
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.ptx.scopes import GPU, scope_of
from mmagen.emulate.report.findings import FindingLog

_READ_ONLY = np.uint32(1 << 31)  # of a reader: through the read-only cache
_SEVERAL = np.uint32(1 << 31)  # of a changer: other CTAs too
_NARROW = np.uint32(1 << 30)  # of a changer: an operation whose scope does not include other CTAs
_CTA = _NARROW - np.uint32(1)


class GlobalWriters:
    """Which CTA wrote each granule of global memory, which one read it last, and which one changed it last by an atomic
    operation: nothing orders the CTAs of a launch, so no other may write it, nor read what is written, and only atomic operations
    may meet. Codes are CTAs, plus one."""

    def __init__(self, log: FindingLog, granule: int):
        self._log, self._granule = log, granule
        self._writer: Words | None = None
        self._reader: Words | None = None
        self._changer: Words | None = None  # None until there is an atomic operation

    def note(
        self, i: Instruction, index: Indices, size: int, ctas: Indices, writing: bool, atomic: bool, memory: GlobalMemory
    ) -> None:
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
        if atomic:
            self._change(i, ctas, places, codes, granules)
        elif writing:
            self._write(i, ctas, places, codes, granules)
        else:
            self._read(i, ctas, places, codes, granules)

    def _read(self, i: Instruction, ctas: Indices, places: Indices, codes: Words, granules: int) -> None:
        cached = _READ_ONLY if is_read_only(i) else np.uint32(0)
        if self._writer is not None:
            before = self._writer[places]
            self._report(i, ctas, before, (before != 0) & (before != codes), "reads global memory that CTA {other} writes")
            if cached:
                text = "reads through the read-only cache (.nc) global memory that CTA {other} writes"
                self._report(i, ctas, before, before != 0, text)
        self._after_changes(i, ctas, places, codes, "reads")
        if cached and self._changer is not None:
            text = "reads through the read-only cache (.nc) global memory that CTA {other} changes by an atomic operation"
            self._report(i, ctas, self._changer[places], self._changer[places] != 0, text)
        if self._reader is None:
            self._reader = zeros(granules, np.uint32)
        self._reader[places] = codes | (self._reader[places] & _READ_ONLY) | cached

    def _write(self, i: Instruction, ctas: Indices, places: Indices, codes: Words, granules: int) -> None:
        self._after_readers(i, ctas, places, codes, "writes")
        self._after_changes(i, ctas, places, codes, "writes")
        if self._writer is None:
            self._writer = zeros(granules, np.uint32)
        before = self._writer[places]
        raced = (before != 0) & (before != codes)
        self._writer[places] = codes
        lost = self._writer[places] != codes
        self._report(
            i, ctas, np.where(raced, before, self._writer[places]), raced | lost, "writes global memory that CTA {other} writes"
        )

    def _change(self, i: Instruction, ctas: Indices, places: Indices, codes: Words, granules: int) -> None:
        """Atomic operations are morally strong, so that two of them are no race, if the scope of each includes the other CTA (PTX
        ISA, "Moral strength")."""
        self._after_readers(i, ctas, places, codes, "changes by an atomic operation")
        if self._writer is not None:
            before = self._writer[places]
            text = "changes by an atomic operation global memory that CTA {other} writes"
            self._report(i, ctas, before, (before != 0) & (before != codes), text)
        if self._changer is None:
            self._changer = zeros(granules, np.uint32)
        narrow = _NARROW if scope_of(i) < GPU else np.uint32(0)
        before = self._changer[places]
        other = (before != 0) & ((before & _CTA != codes) | (before & _SEVERAL != 0))
        kept = (before & _NARROW) | np.where(other, _SEVERAL, np.uint32(0))
        self._changer[places] = codes | kept | narrow
        lost = self._changer[places] & _CTA != codes
        self._changer[places[lost]] |= _SEVERAL
        bad = (other | lost) & ((before & _NARROW != 0) | bool(narrow))
        text = (
            "changes by an atomic operation global memory that CTA {other} changes too; their scopes do not include each other"
        )
        self._report(i, ctas, np.where(other, before, self._changer[places]), bad, text)

    def _after_readers(self, i: Instruction, ctas: Indices, places: Indices, codes: Words, what: str) -> None:
        """Finds writes to what another CTA reads, or any through the read-only cache."""
        if self._reader is None:
            return
        readers = self._reader[places]
        other = (readers != 0) & (readers & ~_READ_ONLY != codes)
        self._report(i, ctas, readers, other, f"{what} global memory that CTA {{other}} reads")
        text = f"{what} global memory that CTA {{other}} reads through the read-only cache (.nc)"
        self._report(i, ctas, readers, readers & _READ_ONLY != 0, text)

    def _after_changes(self, i: Instruction, ctas: Indices, places: Indices, codes: Words, what: str) -> None:
        """Finds plain accesses to what another CTA changes by an atomic operation."""
        if self._changer is None:
            return
        before = self._changer[places]
        other = (before != 0) & ((before & _CTA != codes) | (before & _SEVERAL != 0))
        self._report(i, ctas, before, other, f"{what} global memory that CTA {{other}} changes by an atomic operation")

    def _report(self, i: Instruction, ctas: Indices, others: Words, bad: Mask, text: str) -> None:
        if bad.any():
            row, column = np.argwhere(bad)[0]
            cta, other = int(ctas[row]), int(others[row, column] & _CTA) - 1
            message = f"CTA {cta} {text.format(other=other)} in the same launch"
            self._log.add("global_race", i, int(bad.any(axis=1).sum()), message, cta=cta)
