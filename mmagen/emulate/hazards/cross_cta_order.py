"""Order in global memory between the CTAs of a launch that synchronise by flags: releases and acquires.

A release store keeps with the flag's address what its thread knew; a thread that reads the flag with acquire knows that
too. Warps of other clusters have columns of their own in the clocks, so that barriers pass on what is known of them.

A store may become visible late: a CTA that does not know of it reads once what the flag held before, however long ago the
store was executed here. So a thread that reads a flag without a loop that waits for it acquires nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mmagen.emulate.arrays import Events, Indices, Mask, Values
from mmagen.emulate.hazards.clocks import CLOCK, COLUMN, COLUMN_SHIFT, ClockRow, Clocks
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.memory.global_memory import GlobalMemory
from mmagen.emulate.memory.sparse import zeros
from mmagen.emulate.ptx.facts import is_strong
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.findings import FindingLog

_CLUSTER_SHIFT = np.uint64(48)
Knowledge = dict[tuple[int, int], int]
"""(cluster of the grid, its warp) -> clock."""


@dataclass
class _Flag:
    """released: what its last strong store released. old_value, old_released: its bytes, and what was released with them,
    before that store. event: (cluster of the grid, its warp, clock) of the store; cta: of the grid. stale_readers: CTAs
    that have read the old value since."""

    released: Knowledge
    old_value: bytes
    old_released: Knowledge
    event: tuple[int, int, int]
    cta: int
    stale_readers: set[int] = field(default_factory=set)


class GlobalHistory:
    """Last writers of the bytes of global memory, and flags; of one launch, over all of its batches."""

    def __init__(self) -> None:
        self.writer: Events | None = None  # clock | column << 32 | cluster + 1 << 48
        self.flags: dict[int, _Flag] = {}


class CrossCtaOrder:
    """What the threads of one batch know of accesses to global memory by other CTAs."""

    def __init__(self, history: GlobalHistory, memory: GlobalMemory, lanes: Lanes, clocks: Clocks, log: FindingLog):
        self._history, self._memory, self._lanes, self._clocks, self._log = history, memory, lanes, clocks, log
        # lane -> flags that it read without acquire; a fence may follow
        self._unfenced: dict[int, Knowledge] = {}

    # Accesses

    def note(self, i: Instruction, index: Indices, size: int, lanes: Indices, writing: bool) -> None:
        """Accesses of `size` bytes at byte positions index int64[n] by lanes int64[n]."""
        history = self._history
        if history.writer is None:
            if not writing:
                return
            history.writer = zeros(self._memory.size, np.uint64)
        places = index[:, None] + np.arange(size)
        before = history.writer[places]
        if not writing and not before.any():
            return
        codes = np.broadcast_to(self._codes(lanes)[:, None], places.shape)
        if not is_strong(i):
            other = (before != 0) & (self._ctas(before) != self._ctas(codes))
            if other.any():
                self._check_order(i, lanes, before, codes, other, writing)
        if writing and is_strong(i):
            history.writer[places] = 0  # a flag: later accesses to it are not checked
        elif writing:
            history.writer[places] = codes
            lost = self._ctas(history.writer[places]) != self._ctas(codes)
            if lost.any():
                self._report(i, lanes, history.writer[places], lost, writing)

    def _codes(self, lanes: Indices) -> Events:
        """uint64[n]: events of these lanes, now."""
        cluster = (self._lanes.cta[lanes] + self._lanes.first) // self._lanes.cluster
        column = lanes // 32 % self._clocks.warps
        codes: Events = self._clocks.clock[lanes // 32] | (column.astype(np.uint64) << COLUMN_SHIFT)
        return codes | ((cluster + 1).astype(np.uint64) << _CLUSTER_SHIFT)

    def _ctas(self, events: Events) -> Indices:
        """The CTAs of the grid whose events these are."""
        cluster = (events >> _CLUSTER_SHIFT).astype(np.int64) - 1
        warp = ((events >> COLUMN_SHIFT) & COLUMN).astype(np.int64)
        ctas: Indices = cluster * self._lanes.cluster + warp // self._clocks.warps_of_cta
        return ctas

    def _check_order(self, i: Instruction, lanes: Indices, before: Events, codes: Events, other: Mask, writing: bool) -> None:
        """Of accesses to what another CTA wrote, finds those whose thread does not know of it."""
        clocks = self._clocks
        rows, _ = np.nonzero(other)
        events, who = before[other], lanes[rows]
        columns = ((events >> COLUMN_SHIFT) & COLUMN).astype(np.int64)
        foreign = (events >> _CLUSTER_SHIFT) != (codes[other] >> _CLUSTER_SHIFT)
        for event in np.unique(events[foreign] >> COLUMN_SHIFT):
            of_it = foreign & (events >> COLUMN_SHIFT == event)
            columns[of_it] = clocks.column("cluster", (int(event) >> 16) - 1, int(event) & 0xFFFF)
        known = clocks.known[who, columns] >= (events & CLOCK)
        if not known.all():
            raced = np.zeros(other.shape, dtype=bool)
            raced[other] = ~known
            self._report(i, lanes, before, raced, writing)

    def _report(self, i: Instruction, lanes: Indices, events: Events, raced: Mask, writing: bool) -> None:
        row, column = np.argwhere(raced)[0]
        cta, other = self._lanes.grid_cta(int(lanes[row])), int(self._ctas(events[row, column]))
        text = f"CTA {cta} {'writes' if writing else 'reads'} global memory that CTA {other} writes in the same launch"
        self._log.add("global_race", i, int(raced.any(axis=1).sum()), text, cta=cta)

    # Flags

    def strong_write(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> None:
        """Strong stores and atomics to flags of `size` bytes: at byte positions index, of lanes; called before memory
        changes."""
        atomic = i.base in ("atom", "red")
        memory, flags = self._memory.flat(), self._history.flags
        for place, lane in zip(index.tolist(), lanes.tolist(), strict=True):
            flag = flags.get(place)
            earlier = flag.released if flag else {}
            if atomic:
                self._acquire(i, lane, earlier)
            one = np.array([lane])
            row = self._clocks.release(one) if _has(i, "release") else self._clocks.relaxed_release(one)
            released = self._knowledge(lane, row) if row else {}
            cta = self._lanes.grid_cta(lane)
            cluster, warp = cta // self._lanes.cluster, lane // 32 % self._clocks.warps
            event = cluster, warp, released.get((cluster, warp), int(self._clocks.clock[lane // 32]))
            # An atomic continues the release sequence before it; a store begins a new one.
            released = _joined(earlier, released) if atomic else released
            flags[place] = _Flag(released, memory[place : place + size].tobytes(), earlier, event, cta)

    def strong_read(self, i: Instruction, index: Indices, lanes: Indices, values: Values) -> None:
        """Strong loads of flags: at byte positions index, of lanes. values: what memory holds; replaced by the old value
        where the last store is not visible yet."""
        stale: list[tuple[_Flag, int]] = []
        for n, (place, lane) in enumerate(zip(index.tolist(), lanes.tolist(), strict=True)):
            if not (flag := self._history.flags.get(place)):
                continue
            cta = self._lanes.grid_cta(lane)
            visible = cta == flag.cta or cta in flag.stale_readers or self._knows(lane, flag)
            if len(flag.old_value) == values[n].nbytes and not visible:
                values[n] = np.frombuffer(flag.old_value, dtype=values.dtype)
                self._acquire(i, lane, flag.old_released)
                stale.append((flag, cta))
            else:
                self._acquire(i, lane, flag.released)
        for flag, cta in stale:
            flag.stale_readers.add(cta)
        # Threads that poll must read again: to them the store is as good as executed now.
        self._memory.writes += bool(stale)

    def _acquire(self, i: Instruction, lane: int, released: Knowledge) -> None:
        """A thread has read a flag; without acquire a fence may follow."""
        if _has(i, "acquire"):
            self._learn(lane, released)
        elif released:
            self._unfenced[lane] = _joined(self._unfenced.get(lane), released)

    def _knows(self, lane: int, flag: _Flag) -> bool:
        """Whether a thread knows of the last store to a flag."""
        cluster, warp, clock = flag.event
        return bool(self._clocks.reached(np.array([lane]), self._column(lane, cluster, warp))[0] >= clock)

    def _column(self, lane: int, cluster: int, warp: int) -> int:
        """The column of a warp of a cluster of the grid in a thread's row."""
        mine = self._lanes.grid_cta(lane) // self._lanes.cluster
        return warp if cluster == mine else self._clocks.column("cluster", cluster, warp)

    def fence(self, lanes: Indices) -> None:
        """What these lanes have read of flags before is acquired."""
        for lane in set(lanes.tolist()) & set(self._unfenced):
            self._learn(lane, self._unfenced.pop(lane))

    def _knowledge(self, lane: int, row: ClockRow) -> Knowledge:
        """What a row of the clocks knows of warps of the grid."""
        cluster = self._lanes.grid_cta(lane) // self._lanes.cluster
        warps = np.flatnonzero(row.known[: self._clocks.warps]).tolist()
        known = {(cluster, warp): int(row.known[warp]) for warp in warps}
        for (kind, owner, warp), column in self._clocks.found_agents():
            if kind == "cluster" and column < len(row.known) and row.known[column]:
                known[owner, warp] = int(row.known[column])
        return known

    def _learn(self, lane: int, released: Knowledge) -> None:
        for (cluster, warp), clock in released.items():
            self._clocks.advance(np.array([lane]), self._column(lane, cluster, warp), clock)


def _has(i: Instruction, order: str) -> bool:
    """Whether an access acquires, or releases."""
    return i.has(order) or i.has("acq_rel")


def _joined(a: Knowledge | None, b: Knowledge) -> Knowledge:
    result = dict(a or {})
    for key, clock in b.items():
        result[key] = max(clock, result.get(key, 0))
    return result
