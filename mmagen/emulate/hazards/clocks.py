"""What each thread knows of the others' progress: vector clocks over the threads of a cluster and its asynchronous units.

Kernels whose warps have different roles have no barrier at which everything before is known to everyone. Here every event
carries the clock of its agent, and every thread has a row with the latest clock of each agent that it has synchronised
with: by a barrier, by an mbarrier whose phase it saw end, by a wait. An access happens after an event when the row of its
thread has reached the event's clock.

Agents (columns of a row) are warps (generic accesses), warpgroups of wgmma (clock: groups committed), mbarriers of the
copies that complete on them (clock: phases ended), the same mbarriers once more for st.async and red.async, and threads that
issue bulk copies (clock: groups committed). Of these, st.async and red.async alone belong to the generic proxy. A warp
has one clock for its 32 threads, which steps whenever one of them releases; among themselves its threads are ordered by
warp barriers. One thread that releases (an elected arrival) releases what its whole warp did, but for the gaps that
warp_gaps.py knows: threads that have not synchronised with it since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mmagen.emulate.arrays import Events, Indices, Mask, Values, Words
from mmagen.emulate.hazards.warp_gaps import WarpGaps

AgentKind = Literal["mbarrier", "stores", "bulk", "init", "cluster", "grid", "reads"]
Agent = tuple[AgentKind, int, int]
"""("mbarrier" or "stores", rank of its CTA, byte), ("bulk" or "init", rank of its CTA, thread), ("cluster", cluster, its warp),
("grid", 0, 0), the grid before, or ("reads", 0, its warp), of which only what it has read is known."""

FenceSpace = Literal[0, 1, 2]
"""What a proxy fence is for: shared memory of the thread's CTA, of other CTAs of its cluster, global memory."""
OWN_SHARED: FenceSpace = 0
CLUSTER_SHARED: FenceSpace = 1
GLOBAL: FenceSpace = 2
_SPACES = 3
_MEMORY = np.array([0, 0, 1])  # of each space, the column of `written`: shared or global memory
_SPARE = 64
COLUMN_SHIFT, LANE_SHIFT = np.uint64(32), np.uint64(48)
CLOCK, COLUMN, _LANE = np.uint64(0xFFFFFFFF), np.uint64(0xFFFF), np.uint64(31)


@dataclass
class ClockRow:
    """What a thread knows: the clock of each agent, and up to which clock of each warp its writes have been made visible to
    the asynchronous proxy by a fence, [spaces, warps], then the same of each agent of st.async."""

    known: Words
    fenced: Words

    def join(self, other: ClockRow | None) -> ClockRow:
        """Both together; None: nothing more."""
        if other is None:
            return self
        return ClockRow(_latest(self.known, other.known), _latest(self.fenced, other.fenced))


def _latest(a: Words, b: Words) -> Words:
    """The larger of each two clocks; of the longer one what the other has not."""
    if a.shape == b.shape:
        latest: Words = np.maximum(a, b)
        return latest
    small, large = sorted((a, b), key=lambda x: x.shape[-1])
    latest = large.copy()
    common = latest[..., : small.shape[-1]]
    np.maximum(common, small, out=common)
    return latest


class Clocks:
    """The rows of one batch. size: lanes; width: lanes of a CTA; ctas: of a cluster."""

    def __init__(self, size: int, width: int, ctas: int):
        self.warps_of_cta, self.groups_of_cta = width // 32, -(-width // 128)
        self.ctas, self.width = ctas, width
        self.warps = ctas * self.warps_of_cta
        self.used = self.warps + ctas * self.groups_of_cta
        self._columns: dict[Agent, int] = {}
        self.reads: int | None = None  # the column of the first warp's reads; those of the other warps follow
        self._stores: list[int] = []  # columns of st.async, as they follow the warps in `fenced`
        self.known = np.zeros((size, self.used + _SPARE), dtype=np.uint32)
        self.fenced = np.zeros((size, _SPACES, self.warps), dtype=np.uint32)
        self.clock = np.ones(size // 32, dtype=np.uint32)
        # Groups of wgmmas that each warpgroup of the batch has committed.
        self.committed = np.zeros(size // width * self.groups_of_cta, dtype=np.int64)
        self.own_fence = np.zeros((size, _SPACES), dtype=np.uint32)
        self._written = np.zeros(
            (size, 2), dtype=np.uint32
        )  # the clock of each lane's last generic write to shared and to global
        self.gaps = WarpGaps(size)
        # (warp, scope) -> what fences of that scope released, for the warp's relaxed arrivals after them
        self._fence_released: dict[tuple[int, int], ClockRow] = {}

    def nothing(self, columns: int) -> ClockRow:
        """A row that knows nothing, of so many columns."""
        return ClockRow(np.zeros(columns, dtype=np.uint32), np.zeros(self.fenced.shape[1:], dtype=np.uint32))

    # Agents

    def warpgroup(self, group: int) -> int:
        """The column of a warpgroup's wgmmas; group counts the batch's warpgroups."""
        cta, within = divmod(group, self.groups_of_cta)
        return self.warps + cta % self.ctas * self.groups_of_cta + within

    def column(self, kind: AgentKind, owner: int, number: int) -> int:
        """The column of an agent that is found while running; agents are the same in every cluster. A new agent may replace
        `known` by a wider array: call this before taking `known`, not within its subscript."""
        key = kind, owner, number
        if key not in self._columns:
            self._columns[key] = self.used
            if kind == "stores":
                self._stores.append(self.used)
                self.fenced = np.pad(self.fenced, ((0, 0), (0, 0), (0, 1)))
            self.used += 1
            if self.used > self.known.shape[1]:
                self.known = np.pad(self.known, ((0, 0), (0, self.known.shape[1])))
        return self._columns[key]

    def stores(self, owner: int, number: int) -> int | None:
        """The column of the stores that complete on an mbarrier, None if there have been none."""
        return self._columns.get(("stores", owner, number))

    def found_agents(self) -> list[tuple[Agent, int]]:
        """(agent, column) of those that were found while running."""
        return list(self._columns.items())

    def agent(self, column: int) -> Agent | None:
        """The agent of a column; None for warps and warpgroups."""
        return next((key for key, value in self._columns.items() if value == column), None)

    def reached(self, lanes: Indices, column: int) -> Words:
        """uint32[n]: the latest clock of one agent that each of these lanes knows."""
        clocks: Words = self.known[lanes, column]
        return clocks

    # Events

    def codes(self, lanes: Indices) -> Events:
        """uint64[n]: generic accesses of these lanes, now."""
        warps = lanes // 32
        column = (warps % self.warps).astype(np.uint64) << COLUMN_SHIFT
        codes: Events = self.clock[warps].astype(np.uint64) | column | ((lanes % 32).astype(np.uint64) << LANE_SHIFT)
        return codes

    def ordered(self, lanes: Indices, codes: Events) -> Mask:
        """bool: whether lanes int64[n, 1] are ordered after events uint64[n, k]; 0 stands for no event."""
        column = ((codes >> COLUMN_SHIFT) & COLUMN).astype(np.int64)
        known = self.known[lanes, column]
        ordered: Mask = known >= (codes & CLOCK)
        left = self.left_out(lanes, column, (codes >> LANE_SHIFT) & _LANE, codes & CLOCK, known)
        if left is not None:
            ordered &= ~left
        ordered |= self._same(lanes, codes, column) | (codes == 0)
        return ordered

    def left_out(
        self, lanes: Indices, columns: Indices, of_lane: Values, clocks: Values, known: Words, several: Mask | None = None
    ) -> Mask | None:
        """bool: of accesses by lanes `of_lane` of the warps that have these columns, those that no release included which
        `lanes` know of; None for none. See WarpGaps.left_out."""
        if self.gaps.empty:
            return None
        cluster = lanes // (32 * self.warps) * self.warps
        warps = np.where(columns < self.warps, cluster + columns, -1)
        return self.gaps.left_out(warps, np.broadcast_to(of_lane.astype(np.int64), warps.shape), clocks, known, several)

    def is_fenced(self, lanes: Indices, codes: Events, space: FenceSpace | Indices) -> Mask:
        """bool: whether a proxy fence for a space, or for one that each event has, lies between events and these lanes; events
        of asynchronous units need none."""
        column = ((codes >> COLUMN_SHIFT) & COLUMN).astype(np.int64)
        clock = codes & CLOCK
        at, asynchronous = np.minimum(column, self.warps - 1), column >= self.warps
        for n, stores in enumerate(self._stores):
            at, asynchronous = np.where(column == stores, self.warps + n, at), asynchronous & (column != stores)
        others = self.fenced[lanes, space, at] >= clock
        own = self._same(lanes, codes, column) & (self.own_fence[lanes, space] >= clock)
        fenced: Mask = others | own | asynchronous | (codes == 0)
        return fenced

    def _of_generic_proxy(self, lanes: Indices) -> Words:
        """uint32[n, columns of `fenced`]: what lanes know of those that write by the generic proxy."""
        warps: Words = self.known[lanes, : self.warps]
        if not self._stores:
            return warps
        stores = self.known[lanes[:, None], np.array(self._stores)]
        return np.concatenate((warps, stores), axis=1)

    def _same(self, lanes: Indices, codes: Events, column: Indices) -> Mask:
        same: Mask = (column == lanes // 32 % self.warps) & ((codes >> LANE_SHIFT) & _LANE == (lanes % 32).astype(np.uint64))
        return same

    def is_generic(self, codes: Events) -> Mask:
        """bool: whether events are accesses by threads, not by an asynchronous unit."""
        generic: Mask = ((codes >> COLUMN_SHIFT) & COLUMN) < self.warps
        return generic

    def wrote(self, lanes: Indices, space: FenceSpace) -> None:
        """These lanes write by the generic proxy, now; OWN_SHARED stands for any CTA's shared memory."""
        self._written[lanes, _MEMORY[space]] = self.clock[lanes // 32]

    def _fenced_by(self, warps: Indices, here: Mask) -> Words:
        """uint32[warps, spaces]: up to which clock the writes of lanes here[warps, 32] were followed by a proxy fence of
        theirs. Lanes of a warp that execute a fence one after another have fences at several clocks: a lane that has not
        written since its own is no reason to take later writes of the others, which they fenced, for unfenced."""
        own = self.own_fence.reshape(-1, 32, _SPACES)[warps]
        unfenced = self._written.reshape(-1, 32, 2)[warps][:, :, _MEMORY] > own
        all_of = np.where(unfenced, own, self.clock[warps][:, None, None]).min(axis=1)
        of_lane = np.where(unfenced, own, np.maximum(own, all_of[:, None]))
        fenced: Words = np.where(here[:, :, None], of_lane, CLOCK).min(axis=1).astype(np.uint32)
        return fenced

    # Release and acquire

    def release(self, lanes: Indices, peers: Indices | None = None) -> ClockRow:
        """What these lanes (ascending) know together, their own accesses included; their clocks step. peers: lanes that
        execute the same instruction, each of which releases, if these are not all."""
        peers = lanes if peers is None else peers
        self.gaps.release(peers, self.clock[peers // 32])
        known, fenced = self.known[lanes].max(axis=0), self.fenced[lanes].max(axis=0)
        warps = np.unique(lanes // 32)
        here = np.zeros((len(warps), 32), dtype=bool)
        here[np.searchsorted(warps, lanes // 32), lanes % 32] = True
        columns = warps % self.warps
        known[columns] = self.clock[warps]
        fenced[:, columns] = np.maximum(fenced[:, columns], self._fenced_by(warps, here).T)
        self.clock[warps] += 1
        return ClockRow(known, fenced)

    def release_fence(self, lanes: Indices, scope: int, only: int | None = None) -> None:
        """A release fence of these lanes: relaxed arrivals that follow release what they know now. scope: see ptx/scopes.py.
        only: of one column."""
        for warp in np.unique(lanes // 32).tolist():
            row = self.release(lanes[lanes // 32 == warp])
            if only is not None:
                known = np.zeros_like(row.known)
                known[only] = self.known[lanes, only].max()
                row = ClockRow(known, np.zeros_like(row.fenced))
            self._fence_released[warp, scope] = row.join(self._fence_released.get((warp, scope)))

    def fence_released(self, warp: int, scope: int) -> ClockRow | None:
        """What fences of a warp with exactly this scope have released."""
        return self._fence_released.get((warp, scope))

    def converge(self, mask: Mask | None) -> None:
        """The active lanes of each warp execute an instruction together. That orders nothing among them, but none of them goes
        on before the others have come."""
        lanes = np.arange(len(self.known)) if mask is None else np.flatnonzero(mask)
        self.gaps.sync(lanes, self.clock[lanes // 32])
        self.clock[np.unique(lanes // 32)] += 1

    def relaxed_release(self, lanes: Indices, least: int) -> ClockRow | None:
        """What relaxed arrivals of these lanes release by earlier fences of scope `least` or wider; None for nothing."""
        released: ClockRow | None = None
        warps = set((lanes // 32).tolist())
        for (warp, scope), row in self._fence_released.items():
            if warp in warps and scope >= least:
                released = row.join(released)
        return released

    def acquire(self, lanes: Indices, row: ClockRow) -> None:
        """These lanes know from now on what was released to them."""
        count = len(row.known)
        self.known[lanes, :count] = np.maximum(self.known[lanes, :count], row.known)
        fences = row.fenced.shape[-1]
        self.fenced[lanes, :, :fences] = np.maximum(self.fenced[lanes, :, :fences], row.fenced)

    def know_read(self, lanes: Indices, row: ClockRow) -> None:
        """These lanes know from now on that what was released as `row` has been read. They may overwrite it, and pass that on, but
        what others wrote before is no more visible to them than it was."""
        if self.reads is None:
            self.reads = min(self.column("reads", 0, warp) for warp in range(self.warps))
        columns = slice(self.reads, self.reads + self.warps)
        read, of_reads = row.known[: self.warps].copy(), row.known[columns]
        np.maximum(read[: len(of_reads)], of_reads, out=read[: len(of_reads)])  # a row may be older than these columns
        self.known[lanes, columns] = np.maximum(self.known[lanes, columns], read)
        # Of asynchronous units that only read shared memory: wgmmas and bulk stores.
        stores = [column for (kind, _, _), column in self._columns.items() if kind == "bulk" and column < len(row.known)]
        readers = np.array([*range(self.warps, self.warps + self.ctas * self.groups_of_cta), *stores])
        self.known[lanes[:, None], readers] = np.maximum(self.known[lanes[:, None], readers], row.known[readers])

    def advance(self, lanes: Indices, column: int, clock: int) -> None:
        """These lanes have waited for what an asynchronous unit did up to `clock`."""
        self.known[lanes, column] = np.maximum(self.known[lanes, column], clock)

    def barrier(self, lanes: Indices) -> None:
        """A barrier of these lanes."""
        self.acquire(lanes, self.release(lanes))

    def warp_barrier(self, mask: Mask | None) -> None:
        """A barrier of the active lanes of each warp."""
        active = np.ones((len(self.clock), 32), dtype=bool) if mask is None else mask.reshape(-1, 32)
        synced = np.flatnonzero(active)
        self.gaps.sync(synced, self.clock[synced // 32])
        warps = np.flatnonzero(active.any(axis=1))
        here = active[warps]
        columns, at = warps % self.warps, np.arange(len(warps))
        known = self.known.reshape(-1, 32, self.known.shape[1])
        fenced = self.fenced.reshape(-1, 32, *self.fenced.shape[1:])
        own = self._fenced_by(warps, here)
        together = np.where(here[:, :, None], known[warps], 0).max(axis=1)
        together[at, columns] = self.clock[warps]
        fences = np.where(here[:, :, None, None], fenced[warps], 0).max(axis=1)
        fences[at, :, columns] = np.maximum(fences[at, :, columns], own)
        known[warps] = np.where(here[:, :, None], together[:, None], known[warps])
        fenced[warps] = np.where(here[:, :, None, None], fences[:, None], fenced[warps])
        self.clock[warps] += 1

    def proxy_fence(self, lanes: Indices, spaces: tuple[FenceSpace, ...]) -> None:
        """fence.proxy.async: all generic writes to these spaces that these lanes know of are visible to the asynchronous
        proxy."""
        warps = lanes // 32
        for space in spaces:
            self.own_fence[lanes, space] = self.clock[warps]
            self.fenced[lanes, space] = np.maximum(self.fenced[lanes, space], self._of_generic_proxy(lanes))
        self.clock[np.unique(warps)] += 1
