"""What the first CTA of a launch does with its mbarriers, cp.asyncs, barriers and shared memory, in the order of execution:
loads, arrivals, waits and products.

The order is one that the kernel allows; times are not known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mmagen.emulate.arrays import Indices, Mask

ELSEWHERE = -1
"""The warp of an event that a thread of another CTA causes."""


@dataclass(frozen=True)
class Event:
    """kind: load, a bulk copy to shared memory is issued; arrive, at an mbarrier; complete, a phase of one is; wait, a warp has
    gone past its wait for a phase; multiply, a wgmma is issued; commit, a group of them is; drain, a warpgroup has waited until
    at most `number` groups were in flight; store, a bulk copy to global memory is issued.

    Of kernels whose threads copy and multiply: copy, a warp issues cp.async in its group `number`; group, it closes that group;
    landed, it has waited for all groups below `number`; read, it loads from global memory to registers; put, it stores to
    shared memory; sync, it goes past the CTA barrier `number`; fetch, it loads from shared memory; mma, it executes an mma.sync;
    scalar, a scalar product: fma, dp4a or dp2a.

    warp: of the CTA, the first one of a warpgroup for wgmma. mbarrier: its byte in shared memory, of copy, put and fetch the
    first byte that the warp's threads write or read there. number: of the phase."""

    kind: str
    warp: int
    mbarrier: int = 0
    number: int = 0


@dataclass
class Trace:
    """Of a launch. width: lanes of a CTA in the batch, which begins with the first CTA."""

    width: int = 0
    events: list[Event] = field(default_factory=list)

    def at(self, kind: str, lane: int, place: tuple[int, int], number: int) -> None:
        """An event at the mbarrier `place`, (CTA in the batch, byte)."""
        if place[0] == 0:
            self.events.append(Event(kind, lane // 32 if lane < self.width else ELSEWHERE, place[1], number))

    def of(self, kind: str, lane: int, number: int = 0) -> None:
        """An event without an mbarrier."""
        if lane < self.width:
            self.events.append(Event(kind, lane // 32, number=number))

    def by_warp(self, kind: str, lanes: Indices, numbers: Indices | None = None, places: Indices | None = None) -> None:
        """An event of each warp of the first CTA among the lanes int64[n], with the first of its numbers int64[n] and the least of
        its places int64[n]."""
        mine = np.flatnonzero(lanes < self.width)
        for warp in np.unique(lanes[mine] // 32).tolist():
            of_warp = mine[lanes[mine] // 32 == warp]
            place = 0 if places is None else int(places[of_warp].min())
            number = 0 if numbers is None else int(numbers[of_warp[0]])
            self.events.append(Event(kind, warp, place, number))

    def of_mask(self, kind: str, mask: Mask | None, numbers: Indices | None = None, number: int = 0) -> None:
        """The same of the active lanes; numbers: int64 of all lanes, or one for all."""
        lanes = np.arange(self.width) if mask is None else np.flatnonzero(mask[: self.width])
        self.by_warp(kind, lanes, np.full(len(lanes), number) if numbers is None else numbers[lanes])
