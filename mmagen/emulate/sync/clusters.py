"""Clusters: addresses of other CTAs' shared memory, and the barrier of all threads of a cluster.

A shared::cluster address holds the rank of its CTA, plus one, above 24 bits of offset; none there: the thread's own CTA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from mmagen.emulate.hazards.clocks import Seen
from mmagen.emulate.ptx.model import Instruction

if TYPE_CHECKING:
    from mmagen.emulate.batch import Batch

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
Released = list[tuple[int, np.ndarray]]


def owners(X: Batch, lanes: np.ndarray, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(CTA in the batch, offset in it), int64[n] each, of shared addresses `where` that `lanes` use. An address that is in
    no CTA of the cluster: the thread's own CTA, offset -1."""
    own, rank = X.cta[lanes], where >> RANK_SHIFT
    size = X.program.cluster
    inside = (rank >= 0) & (rank <= size)
    return np.where(inside & (rank > 0), own // size * size + rank - 1, own), np.where(inside, where & OFFSET_MASK, -1)


def lanes_by(owner: np.ndarray, mask: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(CTA or cluster, its lanes of the mask in ascending order), for each that has any; owner: int64[lanes]."""
    for number in np.unique(owner[mask]).tolist():
        yield number, np.flatnonzero(mask & (owner == number))


_AWAY, _ARRIVED, _OPEN = 0, 1, 2


class ClusterBarrier:
    """barrier.cluster of one batch: who has arrived, who waits, and for whom it has opened."""

    def __init__(self, batch: Batch):
        self._batch = batch
        self._cluster = batch.cta // batch.program.cluster
        self._clusters = batch.count // batch.program.cluster
        self._state = np.full(batch.size, _AWAY)
        self._arriving: dict[int, Seen] = {}
        self._met: dict[int, Seen] = {}
        self._waits: list[tuple[Instruction, int, np.ndarray]] = []

    @property
    def empty(self) -> bool:
        return not self._waits

    def arrive(self, i: Instruction, mask: np.ndarray) -> Released:
        """Lanes come to barrier.cluster.arrive, and go on. Returns the blocks, with their lanes, that may run now."""
        again = mask & (self._state != _AWAY)
        if again.any():
            lane = int(np.flatnonzero(again)[0])
            text = "arrives at its cluster's barrier again before it waited"
            self._batch.found("barrier_divergence", i, int(again.sum()), lane, text)
        self._state[mask] = _ARRIVED
        clocks = self._batch.clocks
        if clocks is not None:
            tell = clocks.relaxed if i.has("relaxed") else clocks.release
            for cluster, lanes in lanes_by(self._cluster, mask):
                if seen := tell(lanes):
                    self._arriving[cluster] = seen.join(self._arriving.get(cluster))
        return self.after_exit()

    def wait(self, i: Instruction, mask: np.ndarray, start: int) -> Released:
        """Lanes come to barrier.cluster.wait."""
        missing = mask & (self._state == _AWAY)
        if missing.any():
            text = "waits at its cluster's barrier without having arrived there"
            self._batch.found("barrier_divergence", i, int(missing.sum()), int(np.flatnonzero(missing)[0]), text)
        self._waits.append((i, start, mask))
        return self._leave()

    def after_exit(self) -> Released:
        """Opens the barrier of clusters whose living threads have all arrived."""
        live = self._batch.live
        late = np.bincount(self._cluster[live & (self._state != _ARRIVED)], minlength=self._clusters)
        here = np.bincount(self._cluster[live & (self._state == _ARRIVED)], minlength=self._clusters)
        open_now = (late == 0) & (here > 0)
        if not open_now.any():
            return []
        self._state[open_now[self._cluster] & (self._state == _ARRIVED)] = _OPEN
        for cluster in map(int, np.flatnonzero(open_now)):
            if cluster in self._arriving:
                self._met[cluster] = self._arriving.pop(cluster)
        return self._leave()

    def _leave(self) -> Released:
        released: Released = []
        for n, (i, start, mask) in enumerate(self._waits):
            leaving = mask & (self._state != _ARRIVED)
            if not leaving.any():
                continue
            self._state[leaving] = _AWAY
            for cluster, lanes in lanes_by(self._cluster, leaving):
                if cluster in self._met:
                    self._batch.clocks.acquire(lanes, self._met[cluster])
            released.append((start, leaving))
            self._waits[n] = (i, start, mask & ~leaving)
        self._waits = [wait for wait in self._waits if wait[2].any()]
        return released

    def report_deadlock(self) -> None:
        """Notes the clusters that wait for ever."""
        batch = self._batch
        for i, _, mask in self._waits:
            lane = int(np.flatnonzero(mask)[0])
            mine = batch.live & (self._cluster == self._cluster[lane])
            arrived = int((mine & (self._state == _ARRIVED)).sum())
            text = f"waits for ever at its cluster's barrier: {arrived} of {int(mine.sum())} threads arrive"
            batch.found("deadlock", i, int(mask.sum()), lane, text)


class Exits:
    """What others do to a CTA's shared memory and barriers, and whether it stays for that."""

    def __init__(self, batch: Batch):
        self._batch = batch
        self._pending: dict[int, dict[int, tuple[int, Instruction, int]]] = {}

    def reach(self, i: Instruction, lane: int, cta: int) -> bool:
        """A thread touches the shared memory of a CTA: whether it is another one that still runs."""
        batch = self._batch
        if int(batch.cta[lane]) == cta:
            return False
        if batch.live[cta * batch.width : (cta + 1) * batch.width].any():
            return True
        batch.found("cluster_exit", i, 1, lane, f"touches the shared memory of CTA {cta + batch.first}, which has ended")
        return False

    def signal(self, i: Instruction, lane: int, cta: int) -> None:
        """A thread writes to the shared memory of a CTA or arrives at its barriers: the CTA must stay until it knows."""
        batch = self._batch
        if self.reach(i, lane, cta) and batch.clocks is not None:
            code = int(batch.clocks.codes(np.array([lane]))[0])
            self.expect(i, lane, cta, code >> 32 & 0xFFFF, code & 0xFFFFFFFF)

    def expect(self, i: Instruction, lane: int, cta: int, column: int, clock: int) -> None:
        """A CTA must not end before it knows that an agent has come to `clock`."""
        self._pending.setdefault(cta, {})[column] = (clock, i, lane)

    def exit(self, mask: np.ndarray) -> None:
        """These lanes have come to their end."""
        batch = self._batch
        if batch.clocks is None:
            return
        for cta in map(int, np.unique(batch.cta[mask])):
            lanes = slice(cta * batch.width, (cta + 1) * batch.width)
            if batch.live[lanes].any():
                continue
            for column, (clock, i, lane) in self._pending.pop(cta, {}).items():
                if (batch.clocks.known[lanes, column] < clock).all():
                    text = (
                        f"touches the shared memory of CTA {cta + batch.first}, which may have ended: it did not wait for that"
                    )
                    batch.found("cluster_exit", i, 1, lane, text)
