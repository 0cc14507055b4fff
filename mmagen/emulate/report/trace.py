"""What the first CTA of a launch does with its mbarriers, in the order of execution: loads, arrivals, waits and products.

The order is one that the kernel allows; times are not known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ELSEWHERE = -1
"""The warp of an event that a thread of another CTA causes."""


@dataclass(frozen=True)
class Event:
    """kind: load, a bulk copy to shared memory is issued; arrive, at an mbarrier; complete, a phase of one is; wait, a warp has
    gone past its wait for a phase; multiply, a wgmma is issued; commit, a group of them is; drain, a warpgroup has waited until
    at most `number` groups were in flight; store, a bulk copy to global memory is issued.

    warp: of the CTA, the first one of a warpgroup for wgmma. mbarrier: its byte in shared memory. number: of the phase."""

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
