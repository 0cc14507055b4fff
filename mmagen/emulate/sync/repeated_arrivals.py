"""Arrivals of one thread at an mbarrier of its cluster that may count in the same phase.

A thread that arrives at a barrier once in each phase must know that the phase in which it arrived last has completed. Else its
next arrival may count in that phase too, in place of another thread's, and the phase completes too early. What a warp knows
follows from its waits: a phase that has completed tells what those knew that arrived in it, and those that issued copies which
complete on it. So no schedule in which a thread is so early has to be found. Unlike the clocks of memory, this is about the order
of events alone. A warp's arrivals by one instruction, at barriers of several CTAs, count as one event.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Indices, Mask
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.sync.mbarrier import Place

_MORE = 32  # columns by which tables grow


class RepeatedArrivals:
    """The arrivals at the mbarriers of one batch, and what each warp knows of them and of the phases of its cluster's barriers."""

    def __init__(self, lanes: Lanes, findings: LaneFindings):
        self._lanes, self._findings = lanes, findings
        self._columns: dict[tuple[int, ...], int] = {}  # of phases by rank and byte, of a thread's arrivals also by the thread
        warps = lanes.size // 32
        self._known = np.zeros((warps, _MORE), dtype=np.int64)  # phases that have completed or been arrived in
        self._waits = np.zeros(warps, dtype=np.int64)  # so far
        self._carried: dict[Place, Indices] = {}  # what those know that wait for a barrier's last phase
        self._pending: dict[Place, Indices] = {}  # what those will know that wait for the present one
        self._last: dict[tuple[Place, int], tuple[int, int]] = {}  # the phase of a thread's last arrival, and its warp's waits
        self._several: set[tuple[Place, int]] = set()  # threads that arrive more than once in a phase, from the first phase on
        self._arrivals: dict[Place, dict[int, list[int]]] = {}  # columns of the arrivals of the last phases

    def _column(self, *key: int) -> int:
        column = self._columns.setdefault(key, len(self._columns))
        if column >= self._known.shape[1]:
            self._known = np.pad(self._known, ((0, 0), (0, _MORE)))
        return column

    def _of_phases(self, place: Place) -> int:
        return self._column(place[0] % self._lanes.cluster, place[1])

    def _of_thread(self, place: Place, lane: int) -> int:
        return self._column(place[0] % self._lanes.cluster, place[1], lane % (self._lanes.cluster * self._lanes.width))

    def _join(self, table: dict[Place, Indices], place: Place, known: Indices) -> None:
        before = table.get(place)
        if before is None:
            table[place] = known.copy()
            return
        if len(before) < len(known):
            before = np.pad(before, (0, len(known) - len(before)))
        table[place] = np.maximum(before, known)

    def contributes(self, lane: int, place: Place) -> None:
        """A thread arrives at a barrier, or issues a copy that completes on it."""
        self._join(self._pending, place, self._known[lane // 32])

    def issues(self, lane: int, place: Place, phase: int) -> None:
        """A thread is about to arrive in this phase. Called for all threads of an instruction before the first of them arrives: who
        knows of one of a warp's arrivals knows of all."""
        column = self._of_thread(place, lane)
        self._known[lane // 32, column] = phase + 1

    def arrives(self, i: Instruction, lane: int, place: Place, phase: int) -> None:
        """A thread arrives, and is counted in this phase."""
        self.contributes(lane, place)
        key, warp = (place, lane), lane // 32
        last, waits = self._last.get(key, (-1, 0))
        self._last[key] = phase, int(self._waits[warp])
        of_phase = self._arrivals.setdefault(place, {})
        of_phase.setdefault(phase, []).append(self._of_thread(place, lane))
        of_phase.pop(phase - 2, None)
        if last < 0 or key in self._several:
            return
        if last == phase == 0 and waits == self._waits[warp]:
            self._several.add(key)
        elif not self._knows(warp, place, last, last < phase):
            text = (
                f"arrives again at the mbarrier at shared byte {place[1]} without knowing that phase {last}, in which it arrived "
                "before, has completed: both arrivals may count in that phase, which then completes without another thread's"
            )
            self._findings.add("mbarrier", i, 1, lane, text)

    def _knows(self, warp: int, place: Place, phase: int, has_completed: bool) -> bool:
        """Does a warp know that the phase has completed, or of all arrivals in it?"""
        if self._known[warp, self._of_phases(place)] > phase:
            return True
        columns = self._arrivals[place].get(phase, [])
        return has_completed and bool(columns) and bool((self._known[warp, columns] > phase).all())

    def completes(self, place: Place) -> None:
        """The present phase of a barrier has completed."""
        if (pending := self._pending.pop(place, None)) is not None:
            self._join(self._carried, place, pending)

    def waited(self, lanes: Indices, place: Place, phase: int) -> None:
        """Threads see that a phase has completed."""
        column = self._of_phases(place)
        carried = self._carried.get(place)
        for warp in np.unique(lanes // 32).tolist():
            row = self._known[warp]
            if carried is not None:
                np.maximum(row[: len(carried)], carried, out=row[: len(carried)])
            row[column] = max(int(row[column]), phase + 1)
            self._waits[warp] += 1

    def together(self, mask: Mask, ctas: int | None = None) -> None:
        """Threads go past a barrier that is no mbarrier. ctas: how many neighbouring CTAs have it, any of whose threads may have
        arrived there without waiting; None if one has it, and these threads alone arrived."""
        warps = mask.reshape(-1, 32).any(axis=1)
        self._waits[warps] += 1
        of_cta = self._lanes.width // 32
        groups = self._known.reshape(-1, of_cta * (ctas or 1), self._known.shape[1])
        for group, going in zip(groups, warps.reshape(len(groups), -1), strict=True):
            if going.any():
                group[going] = (group if ctas else group[going]).max(axis=0)

    def forget(self, place: Place) -> None:
        """A barrier is initialised: what its cluster knows is of the barrier that was there before."""
        cluster, size = place[0] // self._lanes.cluster, self._lanes.cluster * self._lanes.width // 32
        mine = (place[0] % self._lanes.cluster, place[1])
        columns = [column for key, column in self._columns.items() if key[:2] == mine]
        self._known[cluster * size : (cluster + 1) * size, columns] = 0
        for table in (self._carried, self._pending):  # what other barriers of the cluster tell of it
            table.pop(place, None)
            for (cta, _), row in table.items():
                if cta // self._lanes.cluster == cluster:
                    row[[column for column in columns if column < len(row)]] = 0
        self._arrivals.pop(place, None)
        for thread in [thread for thread in self._last if thread[0] == place]:
            del self._last[thread]
            self._several.discard(thread)
