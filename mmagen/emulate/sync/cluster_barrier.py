"""barrier.cluster: the barrier of all threads of a cluster."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Indices, Mask
from mmagen.emulate.hazards.clocks import ClockRow, Clocks
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes, lanes_by
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.ptx.scopes import CLUSTER, CTA
from mmagen.emulate.sync.repeated_arrivals import RepeatedArrivals
from mmagen.emulate.sync.resumed import Resumed

_AWAY, _ARRIVED, _OPEN = 0, 1, 2


class ClusterBarrier:
    """barrier.cluster of one batch: who has arrived, who waits, and for whom it has opened."""

    def __init__(self, lanes: Lanes, clocks: Clocks | None, findings: LaneFindings, repeated: RepeatedArrivals | None = None):
        self._lanes, self._clocks, self._findings, self._repeated = lanes, clocks, findings, repeated
        self._cluster: Indices = lanes.cta // lanes.cluster
        self._clusters = lanes.count // lanes.cluster
        self._state = np.full(lanes.size, _AWAY)
        self._arrivals: dict[int, ClockRow] = {}
        self._released: dict[int, ClockRow] = {}
        self._waits: list[tuple[Instruction, int, Mask]] = []

    @property
    def empty(self) -> bool:
        return not self._waits

    def arrive(self, i: Instruction, mask: Mask) -> Resumed:
        """Lanes execute barrier.cluster.arrive, which does not block. Returns what may run now."""
        again = mask & (self._state != _AWAY)
        if again.any():
            lane = int(np.flatnonzero(again)[0])
            text = "arrives at its cluster's barrier again before it waited"
            self._findings.add("barrier_divergence", i, int(again.sum()), lane, text)
        self._state[mask] = _ARRIVED
        clocks = self._clocks
        if clocks is not None:
            least = CLUSTER if self._lanes.cluster > 1 else CTA
            for cluster, lanes in lanes_by(self._cluster, mask):
                if row := clocks.relaxed_release(lanes, least) if i.has("relaxed") else clocks.release(lanes):
                    self._arrivals[cluster] = row.join(self._arrivals.get(cluster))
        return self.after_exit()

    def wait(self, i: Instruction, mask: Mask, start: int) -> Resumed:
        """Lanes execute barrier.cluster.wait; `start` is the block that follows. Returns what may run now."""
        missing = mask & (self._state == _AWAY)
        if missing.any():
            text = "waits at its cluster's barrier without having arrived there"
            self._findings.add("barrier_divergence", i, int(missing.sum()), int(np.flatnonzero(missing)[0]), text)
        self._waits.append((i, start, mask))
        return self._leave()

    def after_exit(self) -> Resumed:
        """Opens the barrier of clusters whose living threads have all arrived."""
        live = self._lanes.live
        late = np.bincount(self._cluster[live & (self._state != _ARRIVED)], minlength=self._clusters)
        here = np.bincount(self._cluster[live & (self._state == _ARRIVED)], minlength=self._clusters)
        open_now = (late == 0) & (here > 0)
        if not open_now.any():
            return []
        self._state[open_now[self._cluster] & (self._state == _ARRIVED)] = _OPEN
        if self._repeated:
            self._repeated.together(self._state == _OPEN, ctas=self._lanes.cluster)
        for cluster in map(int, np.flatnonzero(open_now)):
            if cluster in self._arrivals:
                self._released[cluster] = self._arrivals.pop(cluster)
        return self._leave()

    def _leave(self) -> Resumed:
        resumed: Resumed = []
        for n, (i, start, mask) in enumerate(self._waits):
            leaving = mask & (self._state != _ARRIVED)
            if not leaving.any():
                continue
            self._state[leaving] = _AWAY
            for cluster, lanes in lanes_by(self._cluster, leaving):
                if self._clocks is not None and cluster in self._released:
                    self._clocks.acquire(lanes, self._released[cluster])
            resumed.append((start, leaving))
            self._waits[n] = (i, start, mask & ~leaving)
        self._waits = [wait for wait in self._waits if wait[2].any()]
        return resumed

    def report_deadlock(self) -> None:
        """Notes the clusters whose barrier never opens."""
        for i, _, mask in self._waits:
            lane = int(np.flatnonzero(mask)[0])
            mine = self._lanes.live & (self._cluster == self._cluster[lane])
            arrived = int((mine & (self._state == _ARRIVED)).sum())
            text = f"waits forever at its cluster's barrier: {arrived} of {int(mine.sum())} threads arrive"
            self._findings.add("deadlock", i, int(mask.sum()), lane, text)
