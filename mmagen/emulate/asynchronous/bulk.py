"""TMA: boxes of tensors and consecutive bytes between global and shared memory, in flight until a thread has waited for them.

What comes to shared memory arrives as late as possible, when no thread can go on without it. A store to global memory is
executed at once; its shared memory is checked until its thread has waited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Events, Indices, Mask, Reduction, Values
from mmagen.emulate.asynchronous.boxes import Boxes, Coordinates, stored_units
from mmagen.emulate.asynchronous.map_extents import excess
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.hazards.source_reads import Phase
from mmagen.emulate.hazards.tracker import HazardTracker
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.memory.owned import BatchMemory
from mmagen.emulate.memory.spaces import GLOBAL_BASE, PARAM_WINDOW, WINDOW_SIZE
from mmagen.emulate.memory.swizzle import CHUNK, swizzled
from mmagen.emulate.memory.tensor_map import TensorMap
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.ptx.scopes import GPU, reaches
from mmagen.emulate.report.trace import Trace
from mmagen.emulate.sync.cluster_exits import ClusterExits
from mmagen.emulate.sync.mbarrier import Place
from mmagen.emulate.sync.mbarriers import Mbarriers


@dataclass
class _Load:
    """targets: for each mbarrier, the byte positions in the batch's shared memory of all chunks. data: uint64[chunks, 2].
    reduction: what becomes of it and of what is there; None for a copy."""

    instruction: Instruction
    lane: int
    targets: list[tuple[Place, Indices]]
    data: Events
    reduction: Reduction | None


class BulkCopies:
    """The bulk copies of one batch."""

    def __init__(
        self,
        lanes: Lanes,
        memory: BatchMemory,
        hazards: HazardTracker,
        mbarriers: Mbarriers,
        exits: ClusterExits,
        findings: LaneFindings,
        trace: Trace | None = None,
    ):
        self._trace = trace
        self._lanes, self._memory, self._hazards, self._findings = lanes, memory, hazards, findings
        self._mbarriers, self._exits = mbarriers, exits
        self._boxes = Boxes(memory.device, hazards, findings)
        self._loads: list[_Load] = []
        self._committed = np.zeros(lanes.size, dtype=np.int64)
        self._waited = np.zeros(lanes.size, dtype=np.int64)
        self._last_store: dict[int, tuple[int, Instruction]] = {}  # lane -> group of its last store
        self._in_flight: dict[int, list[tuple[int, Indices]]] = {}  # lane -> (group, global bytes) that it writes
        self._maps: dict[int, tuple[bytes, TensorMap]] = {}
        self._acquired: dict[
            tuple[int, int], tuple[Events, int]
        ] = {}  # (map, warp) -> its writers at a fence; the fence's scope

    def tensor(self, i: Instruction, lane: int, address: int) -> TensorMap:
        """The tensor map at a generic address, for a copy of `lane`; raises EmulationError where there is none."""
        if PARAM_WINDOW <= address < PARAM_WINDOW + WINDOW_SIZE:
            data = self._memory.params[address - PARAM_WINDOW :][: TensorMap.BYTES]
        else:
            memory = self._memory.device.flat()
            start = address - GLOBAL_BASE
            data = memory[start : start + TensorMap.BYTES].tobytes() if 0 <= start < len(memory) else b""
            self._check_acquired(i, lane, start)
        if address not in self._maps or self._maps[address][0] != data:
            if address % 64:
                raise EmulationError(f"line {i.line}: a tensor map at {address:#x}, which is not a multiple of 64")
            tensor = TensorMap.decode(data)
            self._maps[address] = data, tensor
            if 16 < tensor.swizzle != tensor.box[0] * tensor.element:
                raise EmulationError(f"line {i.line}: boxes narrower than their swizzle are not supported")
            if fault := tensor.fault():  # of one that a kernel has changed
                self._findings.add("misaligned", i, 1, lane, f"uses a tensor map that TMA cannot read: {fault}")
            if more := excess(tensor, self._memory.device):
                self._findings.add("global_out_of_bounds", i, 1, lane, f"copies by {more}")
        return self._maps[address][1]

    def acquire_map(self, mask: Mask | None, address: Values, scope: int) -> None:
        """fence.proxy.tensormap with acquire: the active lanes may use the map at a generic address as it is now, if a thread of
        their scope has written it."""
        order = self._hazards.global_order
        if order is not None:
            lanes, places = self._lanes.of(mask), self._lanes.spread(address).astype(np.int64) - GLOBAL_BASE
            for lane in lanes.tolist():
                start = int(places[lane])
                self._acquired[start, lane // 32] = order.writers(start, TensorMap.BYTES).copy(), scope

    def _check_acquired(self, i: Instruction, lane: int, start: int) -> None:
        order = self._hazards.global_order
        touched = order is not None and order.is_touched(start, TensorMap.BYTES)
        if order is None or not (touched or start in self._memory.device.tensor_maps):
            return
        acquired, scope = self._acquired.get((start, lane // 32), (None, GPU))
        which = "the launch has" if touched else "an earlier launch has"
        if acquired is None or (touched and (acquired != order.writers(start, TensorMap.BYTES)).any()):
            text = f"uses a tensor map that {which} written, with no fence.proxy.tensormap of acquire between"
            self._findings.add("proxy_fence", i, 1, lane, text)
            return
        published, writer = self._memory.device.tensor_maps.get(start, (GPU, 0))
        # CTAs of two launches have the GPU's scope in common.
        own, smaller = self._lanes.grid_cta(lane), min(scope, published)
        if smaller < GPU and not (touched and reaches(smaller, writer, own, self._lanes.cluster)):
            text = (
                f"uses a tensor map that another CTA of {'the' if touched else 'an earlier'} launch has written; the scope of "
            )
            text += f"{'its release' if published == smaller else 'the acquire'} must be .gpu"
            self._findings.add("proxy_fence", i, 1, lane, text)

    def _shared(self, i: Instruction, lane: int, tensor: TensorMap, cta: int, offset: int) -> Indices | None:
        """int64[chunks]: where a box's chunks are in the batch's shared memory; None, and a finding, if they do not fit."""
        shared, size = self._memory.shared, tensor.box_bytes
        if offset % 128:
            self._findings.add("misaligned", i, 1, lane, f"has its box at shared byte {offset}, which is not a multiple of 128")
            return None
        if offset + size > shared.size:
            text = f"has its box of {size} bytes at shared byte {offset}; there are {shared.size}"
            self._findings.add("shared_out_of_bounds", i, 1, lane, text)
            return None
        return swizzled(offset + np.arange(0, size, CHUNK), tensor.swizzle) + cta * shared.stride

    # Loads

    def load(self, i: Instruction, lane: int, tensor: TensorMap, at: Coordinates, targets: list[tuple[int, Place]]) -> None:
        """One thread issues a load of the box at coordinates `at`. targets: (byte of shared memory, mbarrier) for each CTA
        that receives it, which is the CTA of the mbarrier."""
        data, source = self._boxes.read(i, lane, tensor, at)
        placed = [(self._shared(i, lane, tensor, place[0], offset), place) for offset, place in targets]
        self._start(i, lane, placed, data.view(np.uint64).reshape(-1, 2))
        self._note_source(lane, source)

    def load_line(self, i: Instruction, lane: int, address: int, size: int, targets: list[tuple[int, Place]]) -> None:
        """One thread issues a load of consecutive bytes of global memory; targets as for `load`."""
        data, source = self._boxes.read_line(i, lane, address, size)
        placed = [(self._line(i, lane, size, place[0], offset), place) for offset, place in targets]
        self._start(i, lane, placed, data.view(np.uint64).reshape(-1, 2))
        self._note_source(lane, source)

    def send_line(
        self, i: Instruction, lane: int, offset: int, size: int, to: tuple[int, Place], reduction: Reduction | None
    ) -> None:
        """One thread issues a copy of consecutive bytes of its CTA's shared memory to that of another CTA, or a reduction
        there. to: (byte, mbarrier) in it."""
        own, hazards, place = int(self._lanes.cta[lane]), self._hazards, to[1]
        source = self._line(i, lane, size, own, offset)
        barrier = self._mbarriers.usable(i, lane, place, asynchronous=True)
        if source is None or barrier is None:
            return
        if hazards.clocks is not None:
            column = self._mbarriers.column(place)
            self._exits.must_outlast(i, lane, own, column, barrier.phase + 1)
            if hazards.clock_shadow is not None:
                hazards.clock_shadow.bulk_read(i, source, lane, column, barrier.phase + 1)
        data: Events = self._memory.shared.gather(source, 8, 2)
        self._start(i, lane, [(self._line(i, lane, size, place[0], to[0]), place)], data, reduction)

    def _line(self, i: Instruction, lane: int, size: int, cta: int, offset: int) -> Indices | None:
        """As _shared, of consecutive bytes."""
        shared = self._memory.shared
        if offset % CHUNK or offset + size > shared.size:
            kind = "misaligned" if offset % CHUNK else "shared_out_of_bounds"
            text = f"copies {size} bytes at shared byte {offset}; it must be a multiple of 16, and there are {shared.size}"
            self._findings.add(kind, i, 1, lane, text)
            return None
        index: Indices = offset + np.arange(0, size, CHUNK) + cta * shared.stride
        return index

    def _start(
        self,
        i: Instruction,
        lane: int,
        targets: list[tuple[Indices | None, Place]],
        data: Events,
        reduction: Reduction | None = None,
    ) -> None:
        """Bytes are on their way to shared memory."""
        hazards = self._hazards
        placed = []
        for index, place in targets:
            barrier = self._mbarriers.usable(i, lane, place, asynchronous=True)
            if index is None or barrier is None:
                continue
            self._exits.check_running(i, lane, place[0])
            self._mbarriers.copy_begins(barrier, lane, place)
            placed.append((place, index))
            if self._trace:
                self._trace.at("load", lane, place, barrier.phase)
            if hazards.clocks is not None:
                column = self._mbarriers.column(place)
                self._exits.must_outlast(i, lane, place[0], column, barrier.phase + 1)
                if (shadow := hazards.clock_shadow) is not None:
                    note = shadow.tma_reduce if reduction else shadow.tma_write
                    note(i, index, lane, column, barrier.phase + 1)
        self._loads.append(_Load(i, lane, placed, data, reduction))

    def _note_source(self, lane: int, source: Indices | None) -> None:
        """The load that has just started reads these bytes of global memory. They are of one matrix: as one is, are all."""
        sources, places = self._hazards.sources, [place for place, _ in self._loads[-1].targets]
        if sources is None or source is None or not source.size or not places or not sources.may_change(source.flat[:1])[0]:
            return
        phases = [Phase(self._mbarriers.column(place), self._mbarriers.phase(place) + 1, place[1]) for place in places]
        sources.load(lane, source.reshape(-1), phases)

    def deliver(self) -> bool:
        """All that is on its way to shared memory arrives; False if nothing is."""
        loads, self._loads = self._loads, []
        shared = self._memory.shared
        for load in loads:
            for place, index in load.targets:
                data = load.data if load.reduction is None else load.reduction(shared.gather(index, 8, 2), load.data)
                shared.scatter(index, data)
                self._mbarriers.complete_bytes(load.instruction, load.lane, place, load.data.nbytes)
        return bool(loads)

    # Stores

    def store(
        self, i: Instruction, lane: int, tensor: TensorMap, at: Coordinates, offset: int, reduction: Reduction | None = None
    ) -> None:
        """One thread writes a box to the tensor, or reduces what is there with it."""
        index = self._shared(i, lane, tensor, int(self._lanes.cta[lane]), offset)
        if index is not None:
            data = self._read_for_store(i, lane, index, stored_units(tensor, at))
            lines = data.view(np.uint8).reshape(-1, tensor.box[0] * tensor.element)
            self._note_written(lane, self._boxes.write(i, lane, tensor, at, lines, reduction))

    def store_line(self, i: Instruction, lane: int, address: int, offset: int, size: int, reduction: Reduction | None) -> None:
        """As `store`, of consecutive bytes at an address."""
        index = self._line(i, lane, size, int(self._lanes.cta[lane]), offset)
        if index is not None:
            data = self._read_for_store(i, lane, index).view(np.uint8).reshape(-1)
            self._note_written(lane, self._boxes.write_line(i, lane, address, data, reduction))

    def _note_written(self, lane: int, written: Indices) -> None:
        """The lane's open group writes these bytes of global memory."""
        if self._hazards.global_order is not None:
            self._in_flight.setdefault(lane, []).append((int(self._committed[lane]) + 1, written))

    def _read_for_store(self, i: Instruction, lane: int, index: Indices, stored: Mask | None = None) -> Events:
        """uint64[chunks, 2]: what a store of the lane's open group reads. stored: the chunks that matter, None for all; the others
        lie beside the tensor."""
        hazards = self._hazards
        group = int(self._committed[lane]) + 1
        self._last_store[lane] = group, i
        if self._trace:
            self._trace.of("store", lane)
        if hazards.clocks is not None and hazards.clock_shadow is not None:
            column = hazards.clocks.column("bulk", self._lanes.rank(lane), lane % self._lanes.width)
            if len(read := index if stored is None else index[stored]):
                hazards.clock_shadow.bulk_read(i, read, lane, column, group)
        data: Events = self._memory.shared.gather(index, 8, 2)
        return data

    def commit(self, mask: Mask | None) -> None:
        """Closes the open group of each active lane."""
        self._committed[slice(None) if mask is None else mask] += 1

    def wait(self, mask: Mask | None, newest: int, read: bool) -> None:
        """The active lanes wait until at most `newest` of their groups have still to read shared memory, or with `read` not
        set to write global memory too."""
        clocks = self._hazards.clocks
        for lane in self._last_store:
            if mask is not None and not mask[lane]:
                continue
            done = int(self._committed[lane]) - newest
            self._waited[lane] = max(self._waited[lane], done)
            if not read:
                self._complete(lane, done)
            if clocks is not None and done > 0:
                column = clocks.column("bulk", self._lanes.rank(lane), lane % self._lanes.width)
                clocks.advance(np.array([lane]), column, done)

    def _complete(self, lane: int, done: int) -> None:
        """The stores of a thread's groups up to `done` have written global memory, and it knows that."""
        order, stores = self._hazards.global_order, self._in_flight.pop(lane, [])
        if left := [store for store in stores if store[0] > done]:
            self._in_flight[lane] = left
        if order is not None:
            for group, written in stores:
                if group <= done:
                    order.complete(lane, written)

    def end(self, mask: Mask) -> None:
        """These lanes end: they must have waited until their stores have read shared memory."""
        for lane, (group, i) in self._last_store.items():
            if mask[lane] and group > self._waited[lane]:
                text = "stores from shared memory, and ends without having waited until that was read"
                self._findings.add("async_race", i, 1, lane, text)
