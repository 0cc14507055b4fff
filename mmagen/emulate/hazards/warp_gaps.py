"""What one lane releases for its warp without having synchronised with the others.

A warp has one clock for its 32 lanes: a release by one of them (an elected arrival) stands for all. A lane that has accessed
shared memory since it last synchronised with its warp is behind it: such a release does not include what that lane did. The
gap is closed by the lane's next warp barrier or release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Indices, Mask, Values, Words

_OPEN = 1 << 32  # later than any clock
_MOST = 64  # gaps that are kept of a warp, each lane's last ones


@dataclass
class _Gap:
    """Accesses of a lane at the clocks first..last of its warp are included in releases from the clock `until` on."""

    lane: int
    first: int
    last: int
    until: int = _OPEN


class WarpGaps:
    """The gaps of one batch. size: lanes."""

    def __init__(self, size: int):
        self._touched = np.zeros(size, dtype=np.uint32)  # clock of each lane's last access
        self._synced = np.zeros(size, dtype=np.uint32)  # and of its last synchronisation with its warp
        self._gaps: dict[int, list[_Gap]] = {}  # by warp of the batch

    @property
    def empty(self) -> bool:
        return not self._gaps

    def touch(self, lanes: Indices, clocks: Words) -> None:
        """Lanes access shared memory at these clocks of their warps."""
        self._touched[lanes] = clocks

    def sync(self, lanes: Indices, clocks: Words) -> None:
        """Lanes have synchronised with those of their warp, at these clocks."""
        self._synced[lanes] = clocks
        if self._gaps:
            for lane, clock in zip(lanes.tolist(), clocks.tolist(), strict=True):
                for gap in self._gaps.get(lane // 32, ()):
                    if gap.lane == lane % 32 and gap.until == _OPEN:
                        gap.until = clock

    def release(self, lanes: Indices, clocks: Words) -> None:
        """Lanes release for their warps at these clocks; the others of a warp that are behind get a gap."""
        self.sync(lanes, clocks)
        if len(lanes) % 32 == 0 and len(np.unique(lanes // 32)) * 32 == len(lanes):
            return
        for warp, at in zip(*np.unique(lanes // 32, return_index=True), strict=True):
            of_warp = slice(int(warp) * 32, int(warp) * 32 + 32)
            behind = np.flatnonzero(self._touched[of_warp] > self._synced[of_warp])
            if len(behind):
                self._open(int(warp), behind, int(clocks[at]))

    def _open(self, warp: int, behind: Indices, clock: int) -> None:
        gaps = self._gaps.setdefault(warp, [])
        for lane in behind.tolist():
            mine = next((gap for gap in gaps if gap.lane == lane and gap.until == _OPEN), None)
            if mine is None:
                gaps.append(_Gap(lane, int(self._synced[warp * 32 + lane]) + 1, clock))
            else:
                mine.last = clock
        del gaps[:-_MOST]

    def left_out(
        self, warps: Indices, lanes: Indices, clocks: Values, known: Words, several: Mask | None = None
    ) -> Mask | None:
        """bool: accesses by lanes of warps of the batch, at these clocks, that releases up to `known` do not include; None
        where all are included. several: other lanes of the warp made the same access. All of one shape."""
        if not self._gaps:
            return None
        left: Mask | None = None
        for warp in np.unique(warps).tolist():
            for gap in self._gaps.get(warp, ()):
                bad = (warps == warp) & (clocks >= gap.first) & (clocks <= gap.last) & (known < gap.until)
                bad &= (lanes == gap.lane) if several is None else (lanes == gap.lane) | several
                left = bad if left is None else left | bad
        return left
