"""Shared memory of kernels that synchronise by barriers of whole CTAs alone: races, copies in flight, reads of what nothing wrote.

Every granule has two codes: its last writer and its last reader since the barrier; with atomic operations a third one, of the
thread that last changed it by one. A code is a lane's `stamp` with flags:

    bits 63..32  barriers that the thread has passed      bits 31..16  warp barriers that it has passed
    bit  11      a copy to it is in flight                bit  10      several readers, or written by a copy
    bit  12      readers of several warps
    bits 9..0    the thread

Code 0: never. A granule in flight has an epoch that is later than any.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Events, Indices, Mask
from mmagen.emulate.hazards.granules import Granules
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.lanes.undefined import UnwrittenRead
from mmagen.emulate.memory.owned import OwnedMemory
from mmagen.emulate.ptx.facts import is_strong
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.findings import FindingLog

EPOCH_SHIFT = np.uint64(32)
THREAD = np.uint64(0x3FF)
WARP = np.uint64(0x3E0)
FLAG = np.uint64(1 << 10)
IN_FLIGHT = np.uint64(1 << 11)
WARPS = np.uint64(1 << 12)
WARP_STEP = np.uint64(1 << 16)
EPOCH_STEP = np.uint64(1 << 32)
_WARP_EPOCH = np.uint64(0xFFFF0000)
_LATEST = np.uint64(0xFFFFFFFF << 32)
_ZERO, _ONE = np.uint64(0), np.uint64(1)

# A thread's first stamp, without its number; the low half is never 0, which the test in `read` relies on.
FIRST_STAMP = EPOCH_STEP | WARP_STEP


class BarrierShadow(Granules):
    """The codes of one batch's shared memory. stamps: uint64[lanes], each thread's code at this time."""

    def __init__(self, memory: OwnedMemory, granule: int, lanes: Lanes, log: FindingLog):
        super().__init__(granule)
        self._lanes, self._log, self._stride = lanes, log, memory.stride
        count = len(memory.bytes) // granule
        self.writer = np.zeros(count, dtype=np.uint64)
        self.reader = np.zeros(count, dtype=np.uint64)
        self._changer: Events | None = None  # the last atomic operation on each; None until there is one
        self._first_stamps: Events = FIRST_STAMP | lanes.thread.astype(np.uint64)
        self.stamps: Events = self._first_stamps

    # Barriers

    def pass_barrier(self, mask: Mask | None) -> None:
        """The lanes of a mask (None: all) have passed a barrier of their CTA."""
        renewed = self._first_stamps
        if mask is None:
            epoch = (self.stamps[0] >> EPOCH_SHIFT) << EPOCH_SHIFT
            if (self.stamps >> EPOCH_SHIFT == epoch >> EPOCH_SHIFT).all():
                self.stamps = renewed + epoch
                return
            mask = np.ones(self._lanes.size, dtype=bool)
        epochs = np.where(mask, self.stamps >> EPOCH_SHIFT, 0).reshape(self._lanes.count, -1).max(axis=1)
        later = np.repeat(epochs << EPOCH_SHIFT, self._lanes.width) + renewed
        self.stamps = np.where(mask, later, self.stamps)

    def pass_warp_barrier(self, mask: Mask | None) -> None:
        """The lanes of a mask (None: all) have passed a barrier of their warp."""
        stepped = self.stamps + WARP_STEP
        self.stamps = stepped if mask is None else np.where(mask, stepped, self.stamps)

    # Accesses

    def read(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> UnwrittenRead | None:
        """Notes reads, and returns those of what nothing wrote."""
        places, mine = self.granules(index, size), self.stamps[lanes][:, None]
        writer = self.writer[places]
        # One comparison for all that may be wrong: 0 - 1 is later than any epoch too.
        found = None
        if not (((writer - _ONE) >> EPOCH_SHIFT) < (mine >> EPOCH_SHIFT)).all():
            found = self._examine_read(i, places, writer, mine)
        if self._changer is not None and not is_strong(i):
            text = "reads {byte}, which {other} changed by an atomic operation since the last barrier"
            self._after_notes(i, places, mine, self._changer, text)
        self._note(self.reader, places, mine)
        return found

    def _note(self, notes: Events, places: Indices, mine: Events) -> None:
        """Keeps the last access to each granule, and whether there were others since the last barrier."""
        reader = notes[places]
        same = (reader >> EPOCH_SHIFT) == (mine >> EPOCH_SHIFT)
        difference = reader ^ mine
        several = same & ((difference & THREAD != 0) | (reader & FLAG != 0))
        warps = same & ((difference & WARP != 0) | (reader & WARPS != 0))
        codes = mine | np.where(several, FLAG, _ZERO) | np.where(warps, WARPS, _ZERO)
        notes[places] = codes
        # Lanes of this access that were overwritten by another one: there are several.
        lost = (notes[places] ^ codes) & THREAD != 0
        if lost.any():
            at = places[lost]
            other_warp = (notes[at] ^ codes[lost]) & WARP != 0
            notes[at] |= FLAG
            notes[at[other_warp]] |= WARPS

    def _examine_read(self, i: Instruction, places: Indices, writer: Events, mine: Events) -> UnwrittenRead | None:
        unwritten = writer == 0
        in_flight = writer & IN_FLIGHT != 0
        if in_flight.any():
            text = "reads {byte} while a cp.async of {other} to it is in flight"
            self._report("cp_async_unwaited", i, places, mine, in_flight, text, writer)
        raced = ~unwritten & ~in_flight & _unordered(writer, mine)
        copied = raced & (writer & FLAG != 0)
        if copied.any():
            text = "reads {byte}, which {other} copied by cp.async and waited for, with no barrier since"
            self._report("cp_async_unwaited", i, places, mine, copied, text, writer)
        raced &= ~copied
        if raced.any():
            text = "reads {byte}, which {other} wrote since the last barrier"
            self._report("shared_race", i, places, mine, raced, text, writer)
        if not unwritten.any():
            return None
        return UnwrittenRead(unwritten, f"shared byte {int(places[unwritten][0]) * self.granule % self._stride}")

    def write(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Notes writes."""
        places, mine = self.granules(index, size), self.stamps[lanes][:, None]
        self._before_write(i, places, mine)
        codes = np.broadcast_to(mine, places.shape)
        self.writer[places] = codes
        lost = self.writer[places] != codes
        if lost.any():
            self._report("shared_race", i, places, mine, lost, "writes {byte} together with {other}", self.writer[places])

    def _before_write(self, i: Instruction, places: Indices, mine: Events) -> None:
        if self._changer is not None:
            text = "writes {byte}, which {other} changed by an atomic operation since the last barrier"
            self._after_notes(i, places, mine, self._changer, text)
        writer, reader = self.writer[places], self.reader[places]
        if ((np.maximum(writer, reader) >> EPOCH_SHIFT) < (mine >> EPOCH_SHIFT)).all():
            return
        in_flight = writer & IN_FLIGHT != 0
        if in_flight.any():
            text = "writes {byte} while a cp.async of {other} to it is in flight"
            self._report("cp_async_unwaited", i, places, mine, in_flight, text, writer)
        raced = ~in_flight & (writer != 0) & _unordered(writer, mine)
        if raced.any():
            text = "writes {byte}, which {other} wrote since the last barrier"
            self._report("shared_race", i, places, mine, raced, text, writer)
        self._after_notes(i, places, mine, self.reader, "writes {byte}, which {other} read since the last barrier")

    def _after_notes(self, i: Instruction, places: Indices, mine: Events, notes: Events, text: str) -> None:
        """Finds accesses that are not ordered after those that `notes` has of other threads."""
        # Of several threads only the last is known. Another one of its warp may be this thread; one of another warp is not.
        other = notes[places]
        shared = ((other ^ mine) >> EPOCH_SHIFT == 0) & (other & FLAG != 0)
        shared &= (other & WARPS != 0) | ((other & _WARP_EPOCH) == (mine & _WARP_EPOCH))
        raced = (other != 0) & (_unordered(other, mine) | shared)
        if raced.any():
            self._report("shared_race", i, places, mine, raced, text, other)

    def start_copy(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Notes that copies to these bytes may arrive at any time from now on."""
        places, mine = self.granules(index, size), self.stamps[lanes][:, None]
        self._before_write(i, places, mine)
        self.writer[places] = (mine & THREAD) | IN_FLIGHT | _LATEST

    def end_copy(self, index: Indices, size: int, lanes: Indices, codes: Events) -> None:
        """Notes that their own thread has waited for these copies; without mbarriers nothing else completes them."""
        self.writer[self.granules(index, size)] = self.stamps[lanes][:, None] | FLAG

    def atomic(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Notes atomic accesses: they order themselves, but not with other accesses. As writers they count as of the epoch
        before."""
        places, mine = self.granules(index, size), self.stamps[lanes][:, None]
        writer = self.writer[places]
        unwritten = writer == 0
        if unwritten.any():
            self._report("uninitialised_shared", i, places, mine, unwritten, "changes {byte}, which nothing wrote")
        raced = ~unwritten & (writer & IN_FLIGHT == 0) & _unordered(writer, mine)
        if raced.any():
            text = "changes {byte}, which {other} wrote since the last barrier"
            self._report("shared_race", i, places, mine, raced, text, writer)
        self.writer[places] = mine - EPOCH_STEP
        if self._changer is None:
            self._changer = np.zeros_like(self.reader)
        self._note(self._changer, places, mine)

    def _report(
        self,
        kind: str,
        i: Instruction,
        places: Indices,
        mine: Events,
        bad: Mask,
        text: str,
        others: Events | None = None,
    ) -> None:
        row, column = np.argwhere(bad)[0]
        byte = int(places[row, column]) * self.granule
        thread = int(mine[row, 0] & THREAD)
        other = ""
        if others is not None:
            number = int(others[row, column] & THREAD)
            other = f"thread {number}" if number != thread else "its own" if "of {other}" in text else "another thread"
        message = text.format(byte=f"shared byte {byte % self._stride}", other=other)
        cta = self._lanes.first + byte // self._stride
        count = int(np.count_nonzero(bad.any(axis=1)))
        self._log.add(kind, i, count, f"thread {thread} of CTA {cta} {message}", thread, cta)


def _unordered(other: Events, mine: Events) -> Mask:
    """Whether an access is by another thread with no barrier, of the CTA or of their warp, in between."""
    difference = other ^ mine
    unordered = (difference >> EPOCH_SHIFT == 0) & (difference & THREAD != 0)
    in_warp = (difference & WARP == 0) & ((other & _WARP_EPOCH) < (mine & _WARP_EPOCH))
    result: Mask = unordered & ~in_warp
    return result
