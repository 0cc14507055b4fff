"""cp.async.mbarrier.arrive: arrivals at an mbarrier that happen when a thread's earlier cp.async copies are complete.

PTX ISA, "cp.async.mbarrier.arrive". Like TMA's loads they happen as late as possible, when no thread can go on without them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Indices, Mask
from mmagen.emulate.asynchronous.cp_async import PendingCopies
from mmagen.emulate.hazards.clocks import OWN_SHARED, ClockRow, Clocks
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.sync.mbarrier import Place
from mmagen.emulate.sync.mbarriers import Mbarriers


@dataclass
class _Arrival:
    """One instruction's arrivals. count: copies issued before it. released: by the arrivals; None without checks."""

    instruction: Instruction
    lanes: Indices
    places: list[Place]
    count: int
    released: list[ClockRow] | None


class CopyArrivals:
    """Those of one batch that have yet to happen."""

    def __init__(self, lanes: Lanes, copies: PendingCopies, mbarriers: Mbarriers, clocks: Clocks | None):
        self._lanes, self._copies, self._mbarriers, self._clocks = lanes, copies, mbarriers, clocks
        self._pending: list[_Arrival] = []

    def add(self, i: Instruction, mask: Mask | None, where: Indices, counted: bool) -> None:
        """Active lanes arrive at mbarriers at shared bytes `where` when their copies so far are complete. counted: the phase
        waits for one more arrival for that; with .noinc it was among those that the mbarrier was initialised with."""
        lanes = self._lanes.of(mask)
        places = self._mbarriers.places(lanes, where)
        for lane, place in zip(lanes.tolist(), places, strict=True):
            barrier = self._mbarriers.usable(i, lane, place)
            if counted and barrier is not None:
                barrier.missing += 1
        released = None
        if self._clocks is not None:
            self._copies.arrive_behind(lanes, self._clocks.codes(lanes))
            # Whatever proxy fences these lanes have executed were before their copies.
            self._clocks.wrote(lanes[self._copies.in_flight_of(lanes)], OWN_SHARED)
            released = [self._clocks.release(np.array([lane])) for lane in lanes]
        self._pending.append(_Arrival(i, lanes, places, self._copies.count, released))

    def deliver(self) -> bool:
        """The copies are complete and the arrivals happen; False if there are none."""
        pending, self._pending = self._pending, []
        for arrival in pending:
            self._copies.complete(arrival.lanes, arrival.count)
            for n, (lane, place) in enumerate(zip(arrival.lanes.tolist(), arrival.places, strict=True)):
                row = arrival.released[n] if arrival.released is not None else None
                self._mbarriers.arrive_later(arrival.instruction, lane, place, row)
        return bool(pending)
