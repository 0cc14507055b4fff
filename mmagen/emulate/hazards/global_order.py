"""Accesses to global memory by the threads of one batch: whether they are ordered after those of others.

Only what kernels may write is looked at. A warp of another cluster has a column of its own in the clocks, so that barriers
pass on what is known of it.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from mmagen.emulate.arrays import Events, Indices, Mask, Words
from mmagen.emulate.hazards.clocks import GLOBAL, Clocks
from mmagen.emulate.hazards.global_history import (
    BULK,
    CLUSTER_SHIFT,
    EVENT_CLOCK,
    READ_ONLY,
    STRONG,
    WARP_SHIFT,
    GlobalHistory,
)
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.memory.global_memory import WRITABLE, GlobalMemory
from mmagen.emulate.ptx.facts import is_read_only, is_strong
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.findings import FindingLog

_WARP = np.uint64(0xFFFF)


class GlobalOrder:
    """Notes accesses, and finds those that are not ordered after others, or not by a proxy fence where they need one."""

    def __init__(self, history: GlobalHistory, memory: GlobalMemory, lanes: Lanes, clocks: Clocks, log: FindingLog):
        self._history, self._memory, self._lanes, self._clocks, self._log = history, memory, lanes, clocks, log
        self._known_at_fence: dict[int, Words] = {}  # lane -> its row at its last proxy fence of global memory

    # Accesses

    def note(
        self,
        i: Instruction,
        index: Indices,
        size: int,
        lanes: Indices,
        writing: bool,
        asynchronous: bool = False,
        clocks: Events | None = None,
        reduces: bool = False,
    ) -> None:
        """Accesses of `size` bytes at byte positions index int64[n] by lanes int64[n]. asynchronous: by TMA. clocks: of strong
        writes, when they happened. reduces: a reduction by TMA: relaxed ones of the scope .gpu, element by element."""
        history, total = self._history, self._memory.size
        writable = None
        if not writing:
            # Of what nobody may write there is nothing to note.
            writable = self._memory.flat_state()[index] & WRITABLE != 0
            if not writable.any():
                return
            if not writable.all():
                index, lanes = index[writable], lanes[writable]
        places = index[:, None] + np.arange(size)
        codes = np.broadcast_to(self._codes(lanes, clocks)[:, None], places.shape)
        if history.is_written:
            before = history.writer(total)[places]
            if before.any():
                self._check(i, places, lanes, before, codes, writing, asynchronous, reduces)
        if writing:
            if not asynchronous:
                self._clocks.wrote(lanes, GLOBAL)
            self._write(i, lanes, places, codes, asynchronous, reduces)
        elif not is_strong(i):
            reader = history.reader(total)
            reader[places] = codes | (reader[places] & READ_ONLY) | (READ_ONLY if is_read_only(i) else np.uint64(0))

    def _write(self, i: Instruction, lanes: Indices, places: Indices, codes: Events, asynchronous: bool, reduces: bool) -> None:
        history, total = self._history, self._memory.size
        if history.is_read:
            self._after_readers(i, lanes, history.reader(total)[places], codes)
        writer = history.writer(total)
        if is_strong(i):
            writer[places] = codes | STRONG
            return
        writer[places] = codes | BULK | EVENT_CLOCK if asynchronous else codes
        if reduces:
            writer[places] |= STRONG
            return
        lost = self._ctas(writer[places]) != self._ctas(codes)
        if lost.any():
            self._report(i, lanes, writer[places], lost, "writes global memory that CTA {other} writes in the same launch")

    def complete(self, lane: int, index: Indices) -> None:
        """A thread has waited for its bulk stores to these bytes."""
        writer = self._history.writer(self._memory.size)
        code = self._codes(np.array([lane]))[0]
        mine = (writer[index] | EVENT_CLOCK | STRONG) == (code | BULK | EVENT_CLOCK | STRONG)
        writer[index[mine]] = code | BULK | (writer[index[mine]] & STRONG)

    def is_touched(self, start: int, size: int) -> bool:
        """Whether the launch has written to these bytes."""
        return self._history.is_written and bool(self.writers(start, size).any())

    def writers(self, start: int, size: int) -> Events:
        """The last writers of these bytes."""
        return self._history.writer(self._memory.size)[start : start + size]

    def _codes(self, lanes: Indices, clocks: Events | None = None) -> Events:
        """uint64[n]: events of these lanes, now or at given clocks."""
        cluster = (self._lanes.cta[lanes] + self._lanes.first) // self._lanes.cluster
        warp = lanes // 32 % self._clocks.warps
        clocks = self._clocks.clock[lanes // 32].astype(np.uint64) if clocks is None else clocks
        codes: Events = clocks | (warp.astype(np.uint64) << WARP_SHIFT)
        return codes | ((cluster + 1).astype(np.uint64) << CLUSTER_SHIFT)

    def _ctas(self, events: Events) -> Indices:
        """The CTAs of the grid whose events these are."""
        cluster = (events >> CLUSTER_SHIFT).astype(np.int64) - 1
        warp = ((events >> WARP_SHIFT) & _WARP).astype(np.int64)
        ctas: Indices = cluster * self._lanes.cluster + warp // self._clocks.warps_of_cta
        return ctas

    # Checks

    def _check(
        self,
        i: Instruction,
        places: Indices,
        lanes: Indices,
        before: Events,
        codes: Events,
        writing: bool,
        asynchronous: bool,
        reduces: bool,
    ) -> None:
        """Finds accesses too early after earlier writes."""
        what = "writes" if writing else "reads"
        if reduces:  # the order of reductions does not matter
            before = np.where(before & STRONG, np.uint64(0), before)
        same_warp = before >> WARP_SHIFT == codes >> WARP_SHIFT
        stores_both = same_warp & (before & STRONG == 0) & (writing and asynchronous and not reduces)
        pending = (before & EVENT_CLOCK == EVENT_CLOCK) & ~stores_both
        if pending.any():
            text = f"{what} global memory to which a bulk store of CTA {{other}} is in flight: nobody has waited for that"
            self._report(i, lanes, before, pending, text, "async_race")
        relevant = (before != 0) & ~pending & ~(same_warp if asynchronous else self._ctas(before) == self._ctas(codes))
        if is_strong(i):
            relevant &= before & STRONG == 0
        raced = self._unordered(lanes, before, codes, relevant)
        for row, column in np.argwhere(raced & (before & STRONG != 0)).tolist():
            raced[row, column] = not self._history.has_observed(int(self._ctas(codes[row, :1])[0]), int(places[row, column]))
        if raced.any():
            self._report(i, lanes, before, raced, f"{what} global memory that CTA {{other}} writes in the same launch")
        if is_read_only(i):
            text = "reads through the read-only cache (.nc) global memory that CTA {other} writes in the same launch"
            self._report(i, lanes, before, before != 0, text)
        generic = (before != 0) & ~pending & ~raced & (before & BULK == 0)
        if asynchronous and generic.any():
            self._check_fenced(i, lanes, before, generic, what)

    def _after_readers(self, i: Instruction, lanes: Indices, readers: Events, codes: Events) -> None:
        """Finds writes to what others read that are not ordered after that."""
        other = (readers != 0) & (self._ctas(readers) != self._ctas(codes))
        raced = self._unordered(lanes, readers, codes, other)
        if raced.any():
            self._report(i, lanes, readers, raced, "writes global memory that CTA {other} reads in the same launch")
        cached = readers & READ_ONLY != 0
        if cached.any():
            text = "writes global memory that CTA {other} reads through the read-only cache (.nc) in the same launch"
            self._report(i, lanes, readers, cached, text)

    def _unordered(self, lanes: Indices, events: Events, codes: Events, which: Mask) -> Mask:
        """bool: of the accesses `which`, those whose thread does not know of the event before."""
        raced = np.zeros(which.shape, dtype=bool)
        if which.any():
            rows, _ = np.nonzero(which)
            known = self._known(lanes[rows], events[which], codes[which])
            raced[which] = known < (events[which] & EVENT_CLOCK)
        return raced

    def _known(self, who: Indices, events: Events, codes: Events) -> Words:
        """uint32[n]: the latest clock that lanes know of the warps of events."""
        columns = ((events >> WARP_SHIFT) & _WARP).astype(np.int64)
        foreign = (events >> CLUSTER_SHIFT) != (codes >> CLUSTER_SHIFT)
        for warp in np.unique(events[foreign] >> WARP_SHIFT):
            of_it = foreign & (events >> WARP_SHIFT == warp)
            columns[of_it] = self._clocks.column("cluster", (int(warp) >> 16) - 1, int(warp) & 0xFFFF)
        known: Words = self._clocks.known[who, columns]
        return known

    # Proxy fences

    def proxy_fence(self, lanes: Indices) -> None:
        """Lanes execute a proxy fence of global memory."""
        for warp in np.unique(lanes // 32).tolist():
            cluster = self._lanes.grid_cta(warp * 32) // self._lanes.cluster
            clocks = self._history.fences.setdefault((cluster, warp % self._clocks.warps), [])
            clocks.append(int(self._clocks.clock[warp]))
        if any(kind == "cluster" for (kind, _, _), _ in self._clocks.found_agents()):
            self._known_at_fence.update((lane, self._clocks.known[lane].copy()) for lane in lanes.tolist())

    def _check_fenced(self, i: Instruction, lanes: Indices, before: Events, generic: Mask, what: str) -> None:
        """Finds accesses by TMA, all of one thread, to what threads wrote, without a proxy fence between."""
        events, places = np.unique(before[generic] & ~STRONG, return_inverse=True)
        bare = np.array([not self._is_fenced(int(lanes[0]), int(event)) for event in events.tolist()])
        if bare.any():
            unfenced = np.zeros(generic.shape, dtype=bool)
            unfenced[generic] = bare[places.reshape(-1)]
            text = f"{what} by TMA global memory that CTA {{other}} wrote, with no fence.proxy.async of global memory between"
            self._report(i, lanes, before, unfenced, text, "proxy_fence")

    def _is_fenced(self, lane: int, event: int) -> bool:
        """Whether a proxy fence lies between a write and a thread that knows of it: one of the writing warp, or of its own."""
        clocks, one = self._clocks, np.array([lane])
        cluster, warp, clock = (event >> 48) - 1, event >> 32 & 0xFFFF, event & int(EVENT_CLOCK)
        mine = self._lanes.grid_cta(lane) // self._lanes.cluster
        own = cluster == mine and warp == lane // 32 % clocks.warps
        if cluster == mine and clocks.fenced[lane, GLOBAL, warp] >= clock:
            return True
        if own and clocks.own_fence[lane, GLOBAL] >= clock:
            return True
        column = warp if cluster == mine else clocks.column("cluster", cluster, warp)
        row = self._known_at_fence.get(lane)
        if row is not None and column < len(row) and row[column] >= clock:
            return True
        fences = self._history.fences.get((cluster, warp), [])
        at = bisect_left(fences, clock)
        return at < len(fences) and (own or int(clocks.reached(one, column)[0]) >= fences[at])

    def _report(self, i: Instruction, lanes: Indices, events: Events, bad: Mask, text: str, kind: str = "global_race") -> None:
        row, column = np.argwhere(bad)[0]
        cta, other = self._lanes.grid_cta(int(lanes[row])), int(self._ctas(events[row, column]))
        message = f"CTA {cta} {text.format(other=other)}"
        self._log.add(kind, i, int(bad.any(axis=1).sum()), message, cta=cta)
