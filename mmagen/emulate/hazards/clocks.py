"""What each thread knows of the others' progress: vector clocks over the threads of a cluster and its asynchronous units.

Kernels whose warps have different roles have no barrier at which all is known. Here every event carries the clock of its
agent, and every thread a row with the latest clock of each agent that it has been told of: by a barrier, by an mbarrier
whose phase it saw end, by a wait. An access is ordered behind an event when its thread's row has that clock.

Agents (columns of a row) are warps of generic accesses, warpgroups of wgmma (clock: groups committed), mbarriers of the
copies that report to them (clock: phases ended), and threads that issue bulk copies (clock: groups committed). A warp has
one clock for its 32 threads, which steps whenever one of them tells anything; among themselves they are ordered by warp
barriers. One thread that tells others (an elected arrival) speaks for its whole warp: a warp barrier that is missing
right before it is not noticed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_SPARE = 64
COLUMN_SHIFT, LANE_SHIFT = np.uint64(32), np.uint64(48)
CLOCK, COLUMN, _LANE = np.uint64(0xFFFFFFFF), np.uint64(0xFFFF), np.uint64(31)


@dataclass
class Seen:
    """A row, and which warps' writes have been made known to the asynchronous proxy by a fence."""

    known: np.ndarray
    fenced: np.ndarray

    def join(self, other: Seen | None) -> Seen:
        """Both together; None: nothing more."""
        if other is None:
            return self
        small, large = sorted((self.known, other.known), key=len)
        known = large.copy()
        known[: len(small)] = np.maximum(known[: len(small)], small)
        return Seen(known, np.maximum(self.fenced, other.fenced))


class Clocks:
    """The rows of one batch. size: lanes; width: lanes of a CTA; ctas: of a cluster."""

    def __init__(self, size: int, width: int, ctas: int):
        self.warps_of_cta, self.groups_of_cta = width // 32, -(-width // 128)
        self.ctas, self.width = ctas, width
        self.warps = ctas * self.warps_of_cta
        self.used = self.warps + ctas * self.groups_of_cta
        self._columns: dict[tuple, int] = {}
        self.known = np.zeros((size, self.used + _SPARE), dtype=np.uint32)
        self.fenced = np.zeros((size, self.warps), dtype=np.uint32)
        self.clock = np.ones(size // 32, dtype=np.uint32)
        self.own_fence = np.zeros(size, dtype=np.uint32)
        self._prepared: dict[int, Seen] = {}  # warp -> what its relaxed arrivals tell all the same, by a fence before

    # Agents

    def warpgroup(self, group: int) -> int:
        """The column of a warpgroup's wgmmas; group counts the batch's warpgroups."""
        cta, within = divmod(group, self.groups_of_cta)
        return self.warps + cta % self.ctas * self.groups_of_cta + within

    def column(self, *key: object) -> int:
        """The column of an agent that came up while running; keys are the same in every cluster."""
        if key not in self._columns:
            self._columns[key] = self.used
            self.used += 1
            if self.used > self.known.shape[1]:
                self.known = np.pad(self.known, ((0, 0), (0, self.known.shape[1])))
        return self._columns[key]

    def dynamic(self) -> list[tuple[tuple, int]]:
        """(key, column) of all agents that came up."""
        return list(self._columns.items())

    def agent(self, column: int) -> tuple | None:
        """The key of a column; None for warps and warpgroups."""
        return next((key for key, value in self._columns.items() if value == column), None)

    # Events

    def codes(self, lanes: np.ndarray) -> np.ndarray:
        """uint64[n]: generic accesses of these lanes, now."""
        warps = lanes // 32
        column = (warps % self.warps).astype(np.uint64) << COLUMN_SHIFT
        return self.clock[warps].astype(np.uint64) | column | ((lanes % 32).astype(np.uint64) << LANE_SHIFT)

    def ordered(self, lanes: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """bool: whether lanes int64[n, 1] come after events uint64[n, k]; an event 0 never was."""
        column = ((codes >> COLUMN_SHIFT) & COLUMN).astype(np.int64)
        return (self.known[lanes, column] >= (codes & CLOCK)) | self._same(lanes, codes, column) | (codes == 0)

    def is_fenced(self, lanes: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """bool: whether a proxy fence lies between events and these lanes; events of asynchronous units need none."""
        column = ((codes >> COLUMN_SHIFT) & COLUMN).astype(np.int64)
        clock = codes & CLOCK
        told = self.fenced[lanes, np.minimum(column, self.warps - 1)] >= clock
        own = self._same(lanes, codes, column) & (self.own_fence[lanes] >= clock)
        return told | own | (column >= self.warps) | (codes == 0)

    def _same(self, lanes: np.ndarray, codes: np.ndarray, column: np.ndarray) -> np.ndarray:
        return (column == lanes // 32 % self.warps) & ((codes >> LANE_SHIFT) & _LANE == (lanes % 32).astype(np.uint64))

    def is_generic(self, codes: np.ndarray) -> np.ndarray:
        return ((codes >> COLUMN_SHIFT) & COLUMN) < self.warps

    # Telling and being told

    def release(self, lanes: np.ndarray) -> Seen:
        """What these lanes (ascending) know together, their own past included; their clocks step."""
        known, fenced = self.known[lanes].max(axis=0), self.fenced[lanes].max(axis=0)
        warps, starts = np.unique(lanes // 32, return_index=True)
        columns = warps % self.warps
        known[columns] = self.clock[warps]
        fenced[columns] = np.maximum(fenced[columns], np.minimum.reduceat(self.own_fence[lanes], starts))
        self.clock[warps] += 1
        return Seen(known, fenced)

    def prepare(self, lanes: np.ndarray, only: int | None = None) -> None:
        """A release fence of these lanes: relaxed arrivals that follow tell what they know now; only: of one column."""
        for warp in np.unique(lanes // 32).tolist():
            seen = self.release(lanes[lanes // 32 == warp])
            if only is not None:
                known = np.zeros_like(seen.known)
                known[only] = self.known[lanes, only].max()
                seen = Seen(known, np.zeros_like(seen.fenced))
            self._prepared[warp] = seen.join(self._prepared.get(warp))

    def relaxed(self, lanes: np.ndarray) -> Seen | None:
        """What relaxed arrivals of these lanes tell; None for nothing."""
        told = None
        for warp in np.unique(lanes // 32).tolist():
            if warp in self._prepared:
                told = self._prepared[warp].join(told)
        return told

    def acquire(self, lanes: np.ndarray, seen: Seen) -> None:
        """These lanes are told."""
        count = len(seen.known)
        self.known[lanes, :count] = np.maximum(self.known[lanes, :count], seen.known)
        self.fenced[lanes] = np.maximum(self.fenced[lanes], seen.fenced)

    def learn(self, lanes: np.ndarray, column: int, clock: np.ndarray | int) -> None:
        """These lanes have waited for what an asynchronous unit did up to `clock`."""
        self.known[lanes, column] = np.maximum(self.known[lanes, column], clock)

    def meet(self, lanes: np.ndarray) -> None:
        """A barrier of these lanes."""
        self.acquire(lanes, self.release(lanes))

    def meet_in_warps(self, mask: np.ndarray | None) -> None:
        """A barrier of the active lanes of each warp."""
        active = np.ones((len(self.clock), 32), dtype=bool) if mask is None else mask.reshape(-1, 32)
        warps = np.flatnonzero(active.any(axis=1))
        here = active[warps]
        columns, at = warps % self.warps, np.arange(len(warps))
        known = self.known.reshape(-1, 32, self.known.shape[1])
        fenced = self.fenced.reshape(-1, 32, self.warps)
        own = np.where(here, self.own_fence.reshape(-1, 32)[warps], CLOCK).min(axis=1)
        together = np.where(here[:, :, None], known[warps], 0).max(axis=1)
        together[at, columns] = self.clock[warps]
        fences = np.where(here[:, :, None], fenced[warps], 0).max(axis=1)
        fences[at, columns] = np.maximum(fences[at, columns], own)
        known[warps] = np.where(here[:, :, None], together[:, None], known[warps])
        fenced[warps] = np.where(here[:, :, None], fences[:, None], fenced[warps])
        self.clock[warps] += 1

    def fence(self, lanes: np.ndarray) -> None:
        """fence.proxy.async: all that these lanes know of generic writes is known to the asynchronous proxy."""
        warps = lanes // 32
        self.own_fence[lanes] = self.clock[warps]
        self.fenced[lanes] = np.maximum(self.fenced[lanes], self.known[lanes, : self.warps])
        self.clock[np.unique(warps)] += 1
