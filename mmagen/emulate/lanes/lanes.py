"""The threads of the CTAs that run together, as lanes of numpy arrays."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Indices, Mask, Values


class Lanes:
    """CTAs first..first+count-1 of the grid. Lanes: CTA by CTA, each padded to whole warps; padding never runs.

    threads: of a CTA. cluster: CTAs of a cluster. width: lanes of a CTA; size: of all. thread, cta: int64[size], each
    lane's thread and its CTA, counted from `first`. live: the lanes that have not ended.
    """

    def __init__(self, first: int, count: int, threads: int, cluster: int):
        self.first, self.count, self.threads, self.cluster = first, count, threads, cluster
        self.width = -(-threads // 32) * 32
        self.size = self.width * count
        self.thread: Indices = np.tile(np.arange(self.width), count)
        self.cta: Indices = np.repeat(np.arange(count), self.width)
        self.every: Indices = np.arange(self.size)
        self.live: Mask = self.thread < threads
        self._active: tuple[Mask | None, Indices] = (None, self.every)
        self._count_live()

    def _count_live(self) -> None:
        self._live_count = int(np.count_nonzero(self.live))
        self.live_or_none: Mask | None = None if self._live_count == self.size else self.live
        self.live_warps = int(self.live.reshape(-1, 32).any(axis=1).sum())

    def end(self, mask: Mask) -> None:
        """These lanes have ended."""
        self.live = self.live & ~mask
        self._count_live()

    def grid_cta(self, lane: int) -> int:
        """The CTA of the grid that a lane belongs to."""
        return int(self.cta[lane]) + self.first

    def rank(self, lane: int) -> int:
        """The rank of a lane's CTA in its cluster."""
        return lane // self.width % self.cluster

    def is_full(self, mask: Mask) -> bool:
        """Whether a mask (a part of the live lanes) is all of them."""
        return mask is self.live or int(np.count_nonzero(mask)) == self._live_count

    def both(self, mask: Mask | None, guard: Mask) -> Mask:
        """bool[lanes]: active lanes for which a guard holds."""
        if mask is None:
            return guard if len(guard) == self.size else np.full(self.size, bool(guard[0]))
        return mask & guard

    def of(self, mask: Mask | None) -> Indices:
        """The numbers of the active lanes, ascending; None: all."""
        if mask is None:
            return self.every
        if self._active[0] is not mask:
            self._active = (mask, np.flatnonzero(mask))
        return self._active[1]

    def spread(self, values: Values) -> Values:
        """A register's value as an array over all lanes."""
        return values if len(values) == self.size else np.broadcast_to(values, (self.size,))

    def by_cta(self, mask: Mask) -> Mask:
        """bool[CTAs, width]: the same lanes, CTA by CTA."""
        return mask.reshape(self.count, -1)

    def of_cta(self, cta: int) -> slice:
        """The lanes of a CTA of the batch."""
        return slice(cta * self.width, (cta + 1) * self.width)

    def whole_warps(self, mask: Mask, together: int = 32) -> Mask:
        """The lanes of a mask whose warp is there with all of its live lanes; the mask itself where that is everyone.
        together: 128 for warpgroups, which count from the beginning of their CTA."""
        missing: Mask = np.any(self._by(self.live & ~mask, together), axis=1)
        present: Mask = np.any(self._by(mask, together), axis=1)
        if not (missing & present).any():
            return mask
        return mask & self._spread_out(~missing, together)

    def _by(self, mask: Mask, together: int) -> Mask:
        """[warps or warpgroups, lanes]; where a CTA is no whole number of them, its last one is filled up."""
        if self.width % together == 0:
            return mask.reshape(-1, together)
        padded = np.pad(mask.reshape(self.count, self.width), ((0, 0), (0, -self.width % together)))
        return padded.reshape(-1, together)

    def _spread_out(self, values: Mask, together: int) -> Mask:
        lanes = np.repeat(values, together)
        return lanes if len(lanes) == self.size else lanes.reshape(self.count, -1)[:, : self.width].reshape(-1)

    def count_warps(self, mask: Mask) -> int:
        """How many warps have lanes in a mask."""
        return int(mask.reshape(-1, 32).any(axis=1).sum())


def lanes_by(owner: Indices, mask: Mask) -> list[tuple[int, Indices]]:
    """(CTA or cluster, its lanes of the mask in ascending order), for each that has any; owner: int64[lanes]."""
    return [(number, np.flatnonzero(mask & (owner == number))) for number in np.unique(owner[mask]).tolist()]
