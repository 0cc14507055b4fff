"""Shared memory of kernels with mbarriers and asynchronous units: who accessed which bytes, under vector clocks.

The counterpart of barrier_shadow.py. Every granule keeps its last writer, the clock at which each warp of its CTA last
read it, and one other reader (a bulk store, or a thread of another CTA). Chunks of 16 bytes, of which asynchronous units
access whole ones, keep the last group of each warpgroup whose wgmmas read them, and whether any thread did.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Events, Indices, Mask, Words
from mmagen.emulate.hazards.clocks import CLOCK, CLUSTER_SHARED, COLUMN, COLUMN_SHIFT, OWN_SHARED, Clocks
from mmagen.emulate.hazards.granules import Granules
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.lanes.undefined import UnwrittenRead
from mmagen.emulate.memory.owned import OwnedMemory
from mmagen.emulate.memory.swizzle import CHUNK
from mmagen.emulate.ptx.facts import is_strong
from mmagen.emulate.ptx.model import Instruction

_LANE_BITS = np.uint32(31)
_SEVERAL = np.uint32(32)
_LATEST = CLOCK
_REDUCED = np.uint64(1 << 63)  # of a writer: a reduction or atomic operation, which may be reordered with others


class ClockShadow(Granules):
    """The granules of one batch's shared memory."""

    def __init__(self, memory: OwnedMemory, granule: int, lanes: Lanes, clocks: Clocks, findings: LaneFindings):
        super().__init__(granule)
        self._lanes, self._clocks, self._findings, self._stride = lanes, clocks, findings, memory.stride
        count = len(memory.bytes) // granule
        self.writer = np.zeros(count, dtype=np.uint64)
        self.reader = np.zeros((count, clocks.warps_of_cta), dtype=np.uint32)  # clock << 6 | several | lane
        self.multiplied = np.zeros((count * granule // CHUNK, clocks.groups_of_cta), dtype=np.uint32)
        self._read = np.zeros(count * granule // CHUNK, dtype=bool)
        self.other = np.zeros(count, dtype=np.uint64)
        self._changer: Words | None = None  # by atomic operations, as `reader`; None until there is one
        self._ranks: Indices = np.arange(count) * granule // self._stride % clocks.ctas
        # The same by chunks.
        self._writers: Events = self.writer.reshape(-1, CHUNK // granule)
        self._others: Events = self.other.reshape(-1, CHUNK // granule)

    def _parts(self, chunks: Indices) -> Indices:
        """int64[n, 1]: the granules of chunks, in ascending order."""
        return self.granules(np.unique(chunks) * CHUNK, CHUNK).reshape(-1, 1)

    def _rank(self, places: Indices) -> Indices:
        """Which CTA of its cluster a granule belongs to."""
        ranks: Indices = self._ranks[places]
        return ranks

    # Generic accesses

    def read(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> UnwrittenRead | None:
        """Notes reads by threads, and returns those of what nothing wrote; not those of ldmatrix, whose tile may have rows that
        nobody fills (see _check_written)."""
        places, who = self.granules(index, size), lanes[:, None]
        writer = self.writer[places]
        unwritten = writer == 0
        self._unordered_writer(i, places, who, writer, "reads")
        if i.base not in ("ldmatrix", "wmma"):  # which a warp executes as one
            self._clocks.gaps.touch(lanes, self._clocks.clock[lanes // 32])
        self._read[index // CHUNK] = True
        if self._changer is not None and not is_strong(i):
            text = "reads {byte}, which {other} changed by an atomic operation, with no barrier between"
            self._after_notes(i, places, who, self._rank(places), self._changer, text)
        own = places * self.granule // self._stride == self._lanes.cta[lanes][:, None]
        if not own.all():
            away = np.broadcast_to(self._clocks.codes(lanes)[:, None], places.shape)[~own]
            self.other[places[~own]] = away
        self._note(self.reader, places, own, lanes)
        if i.base == "ldmatrix" or not unwritten.any():
            return None
        row, column = np.argwhere(unwritten)[0]
        return UnwrittenRead(unwritten, self._place(int(places[row, column]) * self.granule, int(lanes[row])))

    def _note(self, notes: Words, places: Indices, own: Mask, lanes: Indices) -> None:
        """Keeps that lanes accessed granules, of which those `own` are of their CTAs, now."""
        warps = lanes // 32
        at = places * self._clocks.warps_of_cta + (warps % self._clocks.warps_of_cta)[:, None]
        now = (self._clocks.clock[warps] << np.uint32(6)) | (lanes % 32).astype(np.uint32)
        codes = np.broadcast_to(now[:, None], places.shape)
        if not own.all():
            at, codes = at[own], codes[own]
        flat = notes.reshape(-1)
        before = flat[at]
        several = (before >> 6 == codes >> 6) & ((before ^ codes) & (_LANE_BITS | _SEVERAL) != 0)
        flat[at] = np.where(several, codes | _SEVERAL, codes)
        lost = (flat[at] ^ codes) & _LANE_BITS != 0
        if lost.any():
            flat[at[lost]] |= _SEVERAL

    def write(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Notes writes by threads."""
        places, who = self.granules(index, size), lanes[:, None]
        self._before_write(i, places, who)
        if i.base not in ("stmatrix", "wmma"):  # which a warp executes as one
            self._clocks.gaps.touch(lanes, self._clocks.clock[lanes // 32])
        self._clocks.wrote(lanes, OWN_SHARED)
        codes = np.broadcast_to(self._clocks.codes(lanes)[:, None], places.shape)
        self.writer[places] = codes
        lost = self.writer[places] != codes
        if lost.any():
            self._report("shared_race", i, places, who, lost, "writes {byte} together with {other}", self.writer[places])

    def start_copy(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Notes that a cp.async to these bytes may arrive at any time from now on."""
        places, who = self.granules(index, size), lanes[:, None]
        self._before_write(i, places, who)
        self.writer[places] = self._clocks.codes(lanes)[:, None] | _LATEST

    def end_copy(self, index: Indices, size: int, lanes: Indices, codes: Events) -> None:
        """Notes that copies were complete at events codes[n], or where that is 0, that their own threads wait for them now."""
        self._clocks.wrote(lanes, OWN_SHARED)
        self.writer[self.granules(index, size)] = np.where(codes == 0, self._clocks.codes(lanes), codes)[:, None]

    def atomic(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Notes atomic accesses: they order themselves, but not with other accesses."""
        places, who = self.granules(index, size), lanes[:, None]
        unwritten = self.writer[places] == 0
        if unwritten.any():
            self._report("uninitialised_shared", i, places, who, unwritten, "changes {byte}, which nothing wrote")
        self._unordered_writer(i, places, who, self.writer[places], "changes")
        self.writer[places] = (self._clocks.codes(lanes)[:, None] & ~CLOCK) | _REDUCED
        self._clocks.gaps.touch(lanes, self._clocks.clock[lanes // 32])
        self._clocks.wrote(lanes, OWN_SHARED)
        if self._changer is None:
            self._changer = np.zeros_like(self.reader)
        own = places * self.granule // self._stride == self._lanes.cta[lanes][:, None]
        self._note(self._changer, places, own, lanes)

    def remote_store(
        self, i: Instruction, index: Indices, size: int, lanes: Indices, column: int, clock: int, reduces: bool
    ) -> None:
        """Notes st.async or red.async of these lanes to the bytes; they have written when `column` reaches `clock`."""
        places, who = self.granules(index, size), lanes[:, None]
        event = np.uint64(clock) | (np.uint64(column) << COLUMN_SHIFT)
        if reduces:
            self._before_reduction(i, places, who)
            self.writer[places] = event | _REDUCED
            return
        self._before_write(i, places, who)
        self.writer[places] = event
        if (again := np.unique(places, return_index=True)[1]).size < places.size:
            lost = np.ones(places.size, dtype=bool)
            lost[again] = False
            text = "writes {byte}, to which another thread stores too with no order between"
            self._report("async_race", i, places, who, lost.reshape(places.shape), text)

    # Asynchronous units; `lane` is the thread that issues

    def tma_reduce(self, i: Instruction, index: Indices, lane: int, column: int, clock: int) -> None:
        """Notes that TMA changes chunks at byte positions `index`; it has when `column` reaches `clock`."""
        chunks = index // CHUNK
        places = self._parts(chunks)
        who = np.full(places.shape, lane)
        self._before_reduction(i, places, who)
        self._unfenced(i, places, who, self.writer[places], "changes")
        self._writers[chunks] = np.uint64(clock) | (np.uint64(column) << COLUMN_SHIFT) | _REDUCED

    def tma_write(self, i: Instruction, index: Indices, lane: int, column: int, clock: int) -> None:
        """Notes that TMA writes chunks at byte positions `index`; it has when `column` reaches `clock`."""
        chunks = index // CHUNK
        if not (self._is_after(np.array([lane]), chunks) and self._undisturbed(lane, chunks)):
            places = self._parts(chunks)
            who = np.full(places.shape, lane)
            self._before_write(i, places, who)
            self._unfenced(i, places, who, self.writer[places], "overwrites")
        self._writers[chunks] = np.uint64(clock) | (np.uint64(column) << COLUMN_SHIFT)

    def wgmma_read(self, i: Instruction, index: Indices, lanes: Indices, within: int, clock: int) -> None:
        """Notes that wgmmas of warpgroup `within` of its CTA read chunks at byte positions `index`. lanes: one of each warp."""
        chunks = index // CHUNK
        if not self._is_after(lanes, chunks):
            places = self._parts(chunks)
            for lane in lanes:
                self._check_written(i, places, np.full(places.shape, lane), padded=True)
        self.multiplied[chunks, within] = clock

    def bulk_read(self, i: Instruction, index: Indices, lane: int, column: int, clock: int) -> None:
        """Notes that a bulk store reads chunks at byte positions `index`; it has when `column` reaches `clock`."""
        chunks = index // CHUNK
        if not (self._writers[chunks].all() and self._is_after(np.array([lane]), chunks)):
            places = self._parts(chunks)
            self._check_written(i, places, np.full(places.shape, lane))
        self._others[chunks] = np.uint64(clock) | (np.uint64(column) << COLUMN_SHIFT)

    # Checks

    def _is_after(self, lanes: Indices, chunks: Indices) -> bool:
        """Whether asynchronous accesses of lanes are ordered after the writers of chunks. A stage mostly has one writer."""
        events, who = self._writers[chunks], lanes[:, None]
        events = events[:1, :1] if (events == events[0, 0]).all() else np.unique(events)[None, :]
        space = self._fence_space(events, int(self._rank(chunks[:1] * CHUNK // self.granule)[0]))
        return bool((self._clocks.ordered(who, events) & self._clocks.is_fenced(who, events, space)).all())

    def _fence_space(self, events: Events, rank: int | Indices) -> Indices:
        """Which proxy fence writes to the shared memory of the CTA `rank` of a cluster need: those of another CTA's
        threads one for shared::cluster; what st.async has brought is the CTA's own."""
        column = ((events >> COLUMN_SHIFT) & COLUMN).astype(np.int64)
        own = (column // self._clocks.warps_of_cta == rank) | (column >= self._clocks.warps)
        return np.where(own, OWN_SHARED, CLUSTER_SHARED)

    def _undisturbed(self, lane: int, chunks: Indices) -> bool:
        """Whether chunks, all of one CTA, were read by nothing but wgmmas that a thread knows to have completed."""
        if self._read[chunks].any() or self._others[chunks].any():
            return False
        clocks = self._clocks
        first = clocks.warps + int(self._rank(chunks[0] * CHUNK // self.granule)) * clocks.groups_of_cta
        return bool((self.multiplied[chunks] <= clocks.known[lane, first : first + clocks.groups_of_cta]).all())

    def _check_written(self, i: Instruction, places: Indices, who: Indices, padded: bool = False) -> None:
        """Finds asynchronous reads that are not ordered after the writers, or of what nothing wrote. padded: an operand of a
        product, whose tile may have rows that nobody fills and whose results nobody stores. If one is stored, the result shows
        it: bytes that nothing wrote are all ones, a NaN."""
        writer = self.writer[places]
        unwritten = writer == 0
        if unwritten.any() and not padded:
            self._report("uninitialised_shared", i, places, who, unwritten, "reads {byte}, which nothing wrote")
        self._unordered_writer(i, places, who, writer, "reads")
        self._unfenced(i, places, who, writer, "reads")

    def _unordered_writer(self, i: Instruction, places: Indices, who: Indices, writer: Events, what: str) -> None:
        # The granules of one access mostly have one writer.
        if writer.shape[1] > 1 and (writer == writer[:, :1]).all() and not self._early(who, writer[:, :1]).any():
            return
        early = self._early(who, writer)
        if not early.any():
            return
        copied = writer & CLOCK == _LATEST
        generic = self._clocks.is_generic(writer)
        if copied.any():
            text = what + " {byte} while a cp.async of {other} to it is in flight"
            self._report("cp_async_unwaited", i, places, who, copied, text, writer)
        if (early & generic & ~copied).any():
            text = what + " {byte}, which {other} wrote, with no barrier between"
            self._report("shared_race", i, places, who, early & generic & ~copied, text, writer)
        if (early & ~generic).any():
            text = what + " {byte}, which an asynchronous copy or store writes, without having waited for {other}"
            self._report("async_race", i, places, who, early & ~generic, text, writer)

    def _early(self, who: Indices, writer: Events) -> Mask:
        """Whether accesses are not ordered after writers; a copy in flight is too early even for its own thread."""
        early: Mask = ~self._clocks.ordered(who, writer) | (writer & CLOCK == _LATEST)
        return early

    def _unfenced(self, i: Instruction, places: Indices, who: Indices, writer: Events, what: str) -> None:
        space = self._fence_space(writer, self._rank(places))
        bare = self._clocks.ordered(who, writer) & ~self._clocks.is_fenced(who, writer, space)
        if bare.any():
            text = what + " {byte} asynchronously, which {other} wrote, with no fence.proxy.async between"
            self._report("proxy_fence", i, places, who, bare, text, writer)

    def _before_reduction(self, i: Instruction, places: Indices, who: Indices) -> None:
        """Finds reductions of what nothing wrote, or that are not ordered after other accesses than reductions."""
        writer = self.writer[places]
        unwritten = writer == 0
        if unwritten.any():
            self._report("uninitialised_shared", i, places, who, unwritten, "changes {byte}, which nothing wrote")
        self._before_write(i, places, who, np.where(writer & _REDUCED, np.uint64(0), writer))

    def _before_write(self, i: Instruction, places: Indices, who: Indices, writer: Events | None = None) -> None:
        """Finds writes that are not ordered after earlier writes and reads of the same bytes. writer: the earlier writes, if
        these are not all that there were."""
        self._unordered_writer(i, places, who, self.writer[places] if writer is None else writer, "overwrites")
        clocks, rank, chunks = self._clocks, self._rank(places), places * self.granule // CHUNK
        if self._read[chunks].any():
            text = "overwrites {byte}, which {other} read, with no barrier between"
            self._after_notes(i, places, who, rank, self.reader, text, clocks.reads)
        if self._changer is not None:
            text = "overwrites {byte}, which {other} changed by an atomic operation, with no barrier between"
            self._after_notes(i, places, who, rank, self._changer, text)
        multiplied = self.multiplied[chunks]
        if multiplied.any() and (unfinished := self._known(who, rank, clocks.warps, clocks.groups_of_cta) < multiplied).any():
            text = "overwrites {byte}, which a wgmma reads that is not known to have completed"
            self._report("async_race", i, places, who, np.asarray(unfinished.any(axis=2)), text)
        other = self.other[places]
        if not other.any():
            return
        raced = ~clocks.ordered(who, other)
        if raced.any():
            text = "overwrites {byte}, which {other} reads, without having waited for that"
            self._report("async_race", i, places, who, raced, text, other)

    def _known(self, who: Indices, rank: Indices, first: int, count: int) -> Words:
        """What lanes `who` know of the agents of the CTAs with these ranks, `count` each from the column `first` on: [n, k, count],
        or [n, 1, count] where all ranks are the same."""
        if rank.size and (rank == rank.flat[0]).all():
            columns = slice(first + int(rank.flat[0]) * count, first + (int(rank.flat[0]) + 1) * count)
            known: Words = self._clocks.known[who[:, :1], columns]
            return known
        of_each: Words = self._clocks.known[who[..., None], first + rank[..., None] * count + np.arange(count)]
        return of_each

    def _after_notes(
        self, i: Instruction, places: Indices, who: Indices, rank: Indices, notes: Words, text: str, reads: int | None = None
    ) -> None:
        """Finds accesses that are not ordered after those that `notes` has of other threads. reads: if these are reads, the first
        of the columns of what is known to have been read; None for none."""
        clocks, reader = self._clocks, notes[places]  # [n, k, warps]
        known = self._known(who, rank, 0, clocks.warps_of_cta)
        if reads is not None:
            known = np.maximum(known, self._known(who, rank, reads, clocks.warps_of_cta))
        late = known < reader >> 6
        if clocks.gaps.empty and not late.any():
            return
        columns = rank[..., None] * clocks.warps_of_cta + np.arange(clocks.warps_of_cta)
        same_warp = columns == (who // 32 % clocks.warps)[..., None]
        mine = same_warp & (reader & (_LANE_BITS | _SEVERAL) == (who % 32)[..., None])
        known = np.broadcast_to(known, reader.shape)
        several = reader & _SEVERAL != 0
        left = clocks.left_out(who[..., None], columns, reader & _LANE_BITS, reader >> 6, known, several)
        raced = (reader != 0) & (late if left is None else late | left) & ~mine
        if raced.any():
            self._report("shared_race", i, places, who, raced.any(axis=2), text, _reader_codes(reader, columns, raced))

    def _report(
        self, kind: str, i: Instruction, places: Indices, who: Indices, bad: Mask, text: str, others: Events | None = None
    ) -> None:
        row, column = np.argwhere(bad)[0]
        byte = int(places[row, column]) * self.granule
        cta = byte // self._stride
        lane = int(who[row, 0])
        other = self._named(int(others[row, column]), cta) if others is not None else ""
        place = self._place(byte, lane)
        self._findings.add(kind, i, int(np.count_nonzero(bad.any(axis=1))), lane, text.format(byte=place, other=other))

    def _place(self, byte: int, lane: int) -> str:
        """A byte of the batch's shared memory, for a message about a lane."""
        cta, offset = divmod(byte, self._stride)
        return f"shared byte {offset}" + ("" if int(self._lanes.cta[lane]) == cta else f" of CTA {cta + self._lanes.first}")

    def _named(self, code: int, cta: int) -> str:
        """Whose event this is, for a message about memory of CTA `cta`."""
        clocks = self._clocks
        column, lane = code >> 32 & 0xFFFF, code >> 48 & 31
        if column >= clocks.warps:
            key = clocks.agent(column)
            if key and key[0] in ("mbarrier", "stores"):
                return f"phase {(code & 0xFFFFFFFF) - 1} of the mbarrier at shared byte {key[2]}"
            return f"a bulk store of thread {key[2]}" if key else "a wgmma"
        rank, warp = divmod(column, clocks.warps_of_cta)
        thread = warp * 32 + lane
        return (
            f"thread {thread}"
            if rank == cta % clocks.ctas
            else f"thread {thread} of CTA {cta - cta % clocks.ctas + rank + self._lanes.first}"
        )


def _reader_codes(reader: Words, columns: Indices, raced: Mask) -> Events:
    """The code of the first of several readers that race, as `Clocks.codes` gives it."""
    first = raced.argmax(axis=2)[..., None]
    code = np.take_along_axis(reader, first, axis=2)[..., 0].astype(np.uint64)
    column = np.take_along_axis(columns, first, axis=2)[..., 0].astype(np.uint64)
    codes: Events = (column << COLUMN_SHIFT) | ((code & np.uint64(31)) << np.uint64(48)) | (code >> np.uint64(6))
    return codes
