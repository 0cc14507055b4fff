"""Who touched which bytes, and when: races on shared memory, copies in flight, memory that nothing wrote.

Every granule (the smallest shared access of the kernel, so that no access covers part of one) has two codes: its last
writer and its last reader since the barrier. A code is a lane's `stamp` with flags:

    bits 63..32  barriers that the thread has passed      bits 31..16  warp barriers that it has passed
    bit  11      a copy to it is in flight                bit  10      several readers, or written by a copy
    bit  12      readers of several warps
    bits 9..0    the thread

Code 0: never. A granule in flight has an epoch that is later than any.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.checks import Recorder

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


class Granules:
    """Shared memory in granules of as many bytes."""

    def __init__(self, granule: int):
        self.granule = granule
        self._spans: dict[int, np.ndarray] = {}

    def granules(self, index: np.ndarray, size: int) -> np.ndarray:
        """int64[n, size / granule]: the granules of accesses of `size` bytes at byte positions `index`."""
        count = size // self.granule
        if count not in self._spans:
            self._spans[count] = np.arange(count)
        return (index // self.granule)[:, None] + self._spans[count]


class SharedShadow(Granules):
    """The codes of one batch's shared memory: granules of `granule` bytes over `total` bytes."""

    def __init__(self, total: int, granule: int, recorder: Recorder, stride: int, first_cta: int):
        super().__init__(granule)
        self.writer = np.zeros(total // granule, dtype=np.uint64)
        self.reader = np.zeros(total // granule, dtype=np.uint64)
        self._recorder, self._stride, self._first_cta = recorder, stride, first_cta

    def read(self, i: Instruction, index: np.ndarray, size: int, stamps: np.ndarray) -> None:
        """Notes reads; stamps: uint64[n], those of the lanes."""
        places, mine = self.granules(index, size), stamps[:, None]
        writer = self.writer[places]
        # One comparison for all that may be wrong: 0 - 1 is later than any epoch too.
        if not (((writer - _ONE) >> EPOCH_SHIFT) < (mine >> EPOCH_SHIFT)).all():
            self._examine_read(i, places, writer, mine)
        reader = self.reader[places]
        same = (reader >> EPOCH_SHIFT) == (mine >> EPOCH_SHIFT)
        difference = reader ^ mine
        several = same & ((difference & THREAD != 0) | (reader & FLAG != 0))
        warps = same & ((difference & WARP != 0) | (reader & WARPS != 0))
        codes = mine | np.where(several, FLAG, _ZERO) | np.where(warps, WARPS, _ZERO)
        self.reader[places] = codes
        # Lanes of this access that were overwritten by another one: the granule has several readers.
        lost = (self.reader[places] ^ codes) & THREAD != 0
        if lost.any():
            at = places[lost]
            other_warp = (self.reader[at] ^ codes[lost]) & WARP != 0
            self.reader[at] |= FLAG
            self.reader[at[other_warp]] |= WARPS

    def _examine_read(self, i: Instruction, places: np.ndarray, writer: np.ndarray, mine: np.ndarray) -> None:
        unwritten = writer == 0
        if unwritten.any():
            self._tell("uninitialised_shared", i, places, mine, unwritten, "reads {byte}, which nothing wrote")
        flying = writer & IN_FLIGHT != 0
        if flying.any():
            self._tell(
                "cp_async_unwaited",
                i,
                places,
                mine,
                flying,
                "reads {byte} while a cp.async of {other} to it is in flight",
                writer,
            )
        raced = ~unwritten & ~flying & _unordered(writer, mine)
        copied = raced & (writer & FLAG != 0)
        if copied.any():
            text = "reads {byte}, which {other} copied by cp.async and waited for, but no barrier came since"
            self._tell("cp_async_unwaited", i, places, mine, copied, text, writer)
        raced &= ~copied
        if raced.any():
            self._tell(
                "shared_race", i, places, mine, raced, "reads {byte}, which {other} wrote since the last barrier", writer
            )

    def write(self, i: Instruction, index: np.ndarray, size: int, stamps: np.ndarray, flag: np.uint64 = np.uint64(0)) -> None:
        """Notes writes; flag: FLAG for the arrival of a copy."""
        places, mine = self.granules(index, size), stamps[:, None]
        self._before_write(i, places, mine)
        codes = np.broadcast_to(mine | flag, places.shape)
        self.writer[places] = codes
        lost = self.writer[places] != codes
        if lost.any():
            self._tell("shared_race", i, places, mine, lost, "writes {byte} together with {other}", self.writer[places])

    def _before_write(self, i: Instruction, places: np.ndarray, mine: np.ndarray) -> None:
        writer, reader = self.writer[places], self.reader[places]
        if ((np.maximum(writer, reader) >> EPOCH_SHIFT) < (mine >> EPOCH_SHIFT)).all():
            return
        flying = writer & IN_FLIGHT != 0
        if flying.any():
            text = "writes {byte} while a cp.async of {other} to it is in flight"
            self._tell("cp_async_unwaited", i, places, mine, flying, text, writer)
        raced = ~flying & (writer != 0) & _unordered(writer, mine)
        if raced.any():
            self._tell(
                "shared_race", i, places, mine, raced, "writes {byte}, which {other} wrote since the last barrier", writer
            )
        # Of several readers only the last is known: another one of its warp may be me, one of another warp is not.
        shared = ((reader ^ mine) >> EPOCH_SHIFT == 0) & (reader & FLAG != 0)
        shared &= (reader & WARPS != 0) | ((reader & _WARP_EPOCH) == (mine & _WARP_EPOCH))
        raced = (reader != 0) & (_unordered(reader, mine) | shared)
        if raced.any():
            self._tell(
                "shared_race", i, places, mine, raced, "writes {byte}, which {other} read since the last barrier", reader
            )

    def start_copy(self, i: Instruction, index: np.ndarray, size: int, stamps: np.ndarray) -> None:
        """Notes that copies to these bytes may arrive at any time from now on."""
        places, mine = self.granules(index, size), stamps[:, None]
        self._before_write(i, places, mine)
        self.writer[places] = (mine & THREAD) | IN_FLIGHT | _LATEST

    def end_copy(self, index: np.ndarray, size: int, stamps: np.ndarray) -> None:
        """Notes that their own thread has waited for these copies."""
        self.writer[self.granules(index, size)] = stamps[:, None] | FLAG

    def atomic(self, i: Instruction, index: np.ndarray, size: int, stamps: np.ndarray) -> None:
        """Notes atomic accesses: they order themselves, so only the fact of writing is kept, as of the epoch before."""
        places, mine = self.granules(index, size), stamps[:, None]
        unwritten = self.writer[places] == 0
        if unwritten.any():
            self._tell("uninitialised_shared", i, places, mine, unwritten, "changes {byte}, which nothing wrote")
        self.writer[places] = mine - EPOCH_STEP

    def _tell(self, kind, i, places, mine, bad, text, others=None) -> None:
        row, column = np.argwhere(bad)[0]
        byte = int(places[row, column]) * self.granule
        thread = int(mine[row, 0] & THREAD)
        other = f"thread {int(others[row, column] & THREAD)}" if others is not None else ""
        if others is not None and int(others[row, column] & THREAD) == thread:
            other = "its own" if "of {other}" in text else "another thread"
        message = text.format(byte=f"shared byte {byte % self._stride}", other=other)
        cta = self._first_cta + byte // self._stride
        count = int(np.count_nonzero(bad.any(axis=1)))
        self._recorder.add(kind, i, count, f"thread {thread} of CTA {cta} {message}", thread, cta)


def _unordered(other: np.ndarray, mine: np.ndarray) -> np.ndarray:
    """Whether an access is by another thread with no barrier, of the CTA or of their warp, in between."""
    difference = other ^ mine
    unordered = (difference >> EPOCH_SHIFT == 0) & (difference & THREAD != 0)
    in_warp = (difference & WARP == 0) & ((other & _WARP_EPOCH) < (mine & _WARP_EPOCH))
    return unordered & ~in_warp


class GlobalOrder:
    """Which CTA wrote each granule of global memory: nothing orders the CTAs of a launch, so no other may touch it."""

    def __init__(self, recorder: Recorder, granule: int):
        self._recorder, self._granule = recorder, granule
        self._writer: np.ndarray | None = None

    def note(self, i: Instruction, index: np.ndarray, size: int, ctas: np.ndarray, writing: bool, total: int) -> None:
        """Notes accesses of `size` bytes at byte positions index int64[n], by CTAs int64[n], in `total` bytes of memory."""
        if self._writer is None:
            if not writing:
                return
            self._writer = np.zeros(total // self._granule + 1, dtype=np.uint32)
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
            self._recorder.add("global_race", i, int(raced.any(axis=1).sum()), text, cta=cta)
