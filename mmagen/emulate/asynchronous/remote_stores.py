"""st.async and red.async: stores to the shared memory of CTAs of the cluster, which complete at an mbarrier there.

PTX ISA, "st.async" and "red.async": weak stores and relaxed reductions by the generic proxy, whose bytes complete a phase of the
mbarrier with release semantics at cluster scope. They arrive here as late as possible, when no thread can go on without them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Codes, Indices, Mask, Reduction
from mmagen.emulate.hazards.tracker import HazardTracker
from mmagen.emulate.lanes.cluster_addresses import owners
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.memory.owned import OwnedMemory
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.sync.cluster_exits import ClusterExits
from mmagen.emulate.sync.mbarrier import Place
from mmagen.emulate.sync.mbarriers import Mbarriers


@dataclass
class _Stores:
    """Of one instruction to one mbarrier. index: int64[n], byte positions in the batch's shared memory; data: [n, elements]."""

    instruction: Instruction
    lane: int
    place: Place
    index: Indices
    data: Codes
    reduction: Reduction | None


class RemoteStores:
    """The stores in flight of one batch."""

    def __init__(
        self,
        lanes: Lanes,
        shared: OwnedMemory,
        hazards: HazardTracker,
        mbarriers: Mbarriers,
        exits: ClusterExits,
        findings: LaneFindings,
    ):
        self._lanes, self._shared, self._hazards, self._findings = lanes, shared, hazards, findings
        self._mbarriers, self._exits = mbarriers, exits
        self._stores: list[_Stores] = []

    def start(
        self, i: Instruction, who: Indices, where: Indices, barriers: Indices, data: Codes, reduction: Reduction | None
    ) -> None:
        """Lanes `who` store data[n, elements] at shared addresses `where`, and report to the mbarriers at `barriers`.
        reduction: what red.async makes of the old and the new values; None for st.async."""
        ctas, offsets = owners(self._lanes, who, where)
        places = self._mbarriers.places(who, barriers)
        homes = np.array([place[0] for place in places])
        good = self._may_store(i, who, ctas, offsets, homes, data.dtype.itemsize * data.shape[1], reduction is not None)
        groups: dict[Place, list[int]] = {}
        for n in np.flatnonzero(good).tolist():
            if self._mbarriers.usable(i, int(who[n]), places[n]) is not None:
                groups.setdefault(places[n], []).append(n)
        for place, members in groups.items():
            index = ctas[members] * self._shared.stride + offsets[members]
            self._note(i, who[members], place, index, data[members], reduction)

    def _may_store(
        self, i: Instruction, who: Indices, ctas: Indices, offsets: Indices, homes: Indices, size: int, reduces: bool
    ) -> Mask:
        """bool[n]: which lanes store what the ISA allows; the others are findings."""
        good = np.ones(len(who), dtype=bool)

        def refuse(bad: Mask, kind: str, text: str) -> None:
            if bad.any():
                first = int(np.flatnonzero(bad)[0])
                place = f"shared byte {int(offsets[first])}"
                self._findings.add(kind, i, int(bad.sum()), int(who[first]), text.format(place=place))
                good[bad] = False

        refuse((offsets < 0) | (offsets > self._shared.size - size), "shared_out_of_bounds",
               f"stores {size} bytes at {{place}}; there are {self._shared.size}")  # fmt: skip
        refuse(
            good & (offsets % size != 0), "misaligned", f"stores {size} bytes at {{place}}, which is not a multiple of {size}"
        )
        refuse(good & (ctas != homes), "mbarrier", "stores to one CTA and reports to the mbarrier of another")
        if self._lanes.cluster == 1:
            refuse(good.copy(), "mbarrier", "needs a cluster of two CTAs or more")
        if reduces:
            own = ctas == self._lanes.cta[who]
            refuse(good & own, "shared_out_of_bounds", "reduces to its own CTA's {place}; it has to be another CTA's")
        return good

    def _note(
        self, i: Instruction, who: Indices, place: Place, index: Indices, data: Codes, reduction: Reduction | None
    ) -> None:
        lane, hazards = int(who[0]), self._hazards
        barrier = self._mbarriers.usable(i, lane, place)
        if barrier is None:
            return
        self._exits.check_running(i, lane, place[0])
        self._mbarriers.copy_begins(barrier, lane, place)
        barrier.far_stores |= bool((self._lanes.cta[who] != place[0]).any())
        self._stores.append(_Stores(i, lane, place, index, data, reduction))
        if hazards.clocks is None:
            return
        column = self._mbarriers.stores_column(place)
        self._exits.must_outlast(i, lane, place[0], column, barrier.phase + 1)
        if hazards.clock_shadow is not None:
            size = data.dtype.itemsize * data.shape[1]
            hazards.clock_shadow.remote_store(i, index, size, who, column, barrier.phase + 1, reduction is not None)

    def deliver(self) -> bool:
        """All stores in flight arrive; False if there are none."""
        stores, self._stores = self._stores, []
        for store in stores:
            self._write(store)
            self._mbarriers.complete_bytes(store.instruction, store.lane, store.place, store.data.nbytes)
        return bool(stores)

    def _write(self, store: _Stores) -> None:
        width, count = store.data.dtype.itemsize, store.data.shape[1]
        if store.reduction is None:
            self._shared.scatter(store.index, store.data)
            return
        for n in range(len(store.index)):  # one after the other: several may change one element
            here = store.index[n : n + 1]
            before = self._shared.gather(here, width, count)
            self._shared.scatter(here, store.reduction(before, store.data[n : n + 1]))
