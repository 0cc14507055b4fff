"""TMA: boxes of tensors between global and shared memory, in flight until some thread has waited for them.

A load arrives as late as possible, when no thread can go on without it. A store is executed at once; its shared memory is
checked until its thread has waited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Events, Indices, Mask
from mmagen.emulate.asynchronous.boxes import Boxes, Coordinates
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.hazards.tracker import HazardTracker
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.memory.owned import BatchMemory
from mmagen.emulate.memory.spaces import GLOBAL_BASE, PARAM_WINDOW, WINDOW_SIZE
from mmagen.emulate.memory.swizzle import CHUNK, swizzled
from mmagen.emulate.memory.tensor_map import TensorMap
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.sync.cluster_exits import ClusterExits
from mmagen.emulate.sync.mbarriers import Mbarriers, Place


@dataclass
class _Load:
    """targets: for each mbarrier, the byte positions in the batch's shared memory of all chunks. data: uint64[chunks, 2]."""

    instruction: Instruction
    lane: int
    targets: list[tuple[Place, Indices]]
    data: Events
    bytes: int


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
    ):
        self._lanes, self._memory, self._hazards, self._findings = lanes, memory, hazards, findings
        self._mbarriers, self._exits = mbarriers, exits
        self._boxes = Boxes(memory.device, hazards, findings)
        self._loads: list[_Load] = []
        self._committed = np.zeros(lanes.size, dtype=np.int64)
        self._waited = np.zeros(lanes.size, dtype=np.int64)
        self._last_store: dict[int, tuple[int, Instruction]] = {}  # lane -> group of its last store
        self._maps: dict[int, TensorMap] = {}

    def tensor(self, i: Instruction, address: int) -> TensorMap:
        """The tensor map at a generic address; raises EmulationError where there is none."""
        if address not in self._maps:
            if PARAM_WINDOW <= address < PARAM_WINDOW + WINDOW_SIZE:
                data = self._memory.params[address - PARAM_WINDOW :][: TensorMap.BYTES]
            else:
                memory = self._memory.device.flat()
                start = address - GLOBAL_BASE
                data = memory[start : start + TensorMap.BYTES].tobytes() if 0 <= start < len(memory) else b""
            if address % 64:
                raise EmulationError(f"line {i.line}: a tensor map at {address:#x}, which is not a multiple of 64")
            self._maps[address] = TensorMap.decode(data)
            if 16 < self._maps[address].swizzle != self._maps[address].box[0] * self._maps[address].element:
                raise EmulationError(f"line {i.line}: boxes narrower than their swizzle are not supported")
        return self._maps[address]

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
        data = self._boxes.read(i, lane, tensor, at)
        placed = [(self._shared(i, lane, tensor, place[0], offset), place) for offset, place in targets]
        self._start(i, lane, placed, data.view(np.uint64).reshape(-1, 2))

    def load_line(self, i: Instruction, lane: int, data: Events, targets: list[tuple[int, Place]]) -> None:
        """One thread issues a load of consecutive bytes, uint64[chunks, 2]; targets as for `load`."""
        placed = [(self._line(i, lane, data.nbytes, place[0], offset), place) for offset, place in targets]
        self._start(i, lane, placed, data)

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

    def _start(self, i: Instruction, lane: int, targets: list[tuple[Indices | None, Place]], data: Events) -> None:
        """A load is in flight."""
        hazards = self._hazards
        placed = []
        for index, place in targets:
            barrier = self._mbarriers.usable(i, lane, place, asynchronous=True)
            if index is None or barrier is None:
                continue
            self._exits.check_running(i, lane, place[0])
            barrier.pending_copies += 1
            placed.append((place, index))
            if hazards.clocks is not None:
                column = self._mbarriers.column(place)
                self._exits.must_outlast(i, lane, place[0], column, barrier.phase + 1)
                if hazards.clock_shadow is not None:
                    hazards.clock_shadow.tma_write(i, index, lane, column, barrier.phase + 1)
        self._loads.append(_Load(i, lane, placed, data, data.nbytes))

    def deliver(self) -> bool:
        """All loads in flight arrive; False if there are none."""
        loads, self._loads = self._loads, []
        for load in loads:
            for place, index in load.targets:
                self._memory.shared.scatter(index, load.data)
                self._mbarriers.complete_bytes(load.instruction, load.lane, place, load.bytes)
        return bool(loads)

    # Stores

    def store(self, i: Instruction, lane: int, tensor: TensorMap, at: Coordinates, offset: int) -> None:
        """One thread writes a box to the tensor."""
        index = self._shared(i, lane, tensor, int(self._lanes.cta[lane]), offset)
        if index is not None:
            data = self._read_for_store(i, lane, index)
            self._boxes.write(i, lane, tensor, at, data.view(np.uint8).reshape(-1, tensor.box[0] * tensor.element))

    def store_line(self, i: Instruction, lane: int, offset: int, size: int) -> Events | None:
        """One thread stores consecutive bytes: uint64[chunks, 2], None where they are not there."""
        index = self._line(i, lane, size, int(self._lanes.cta[lane]), offset)
        return None if index is None else self._read_for_store(i, lane, index)

    def _read_for_store(self, i: Instruction, lane: int, index: Indices) -> Events:
        """uint64[chunks, 2]: what a store of the lane's open group reads."""
        hazards = self._hazards
        group = int(self._committed[lane]) + 1
        self._last_store[lane] = group, i
        if hazards.clocks is not None and hazards.clock_shadow is not None:
            column = hazards.clocks.column("bulk", self._lanes.rank(lane), lane % self._lanes.width)
            hazards.clock_shadow.bulk_read(i, index, lane, column, group)
        data: Events = self._memory.shared.gather(index, 8, 2)
        return data

    def commit(self, mask: Mask | None) -> None:
        """Closes the open group of each active lane."""
        self._committed[slice(None) if mask is None else mask] += 1

    def wait(self, mask: Mask | None, newest: int) -> None:
        """The active lanes wait until at most `newest` of their groups have still to read shared memory."""
        clocks = self._hazards.clocks
        for lane in self._last_store:
            if mask is not None and not mask[lane]:
                continue
            done = int(self._committed[lane]) - newest
            self._waited[lane] = max(self._waited[lane], done)
            if clocks is not None and done > 0:
                column = clocks.column("bulk", self._lanes.rank(lane), lane % self._lanes.width)
                clocks.advance(np.array([lane]), column, done)

    def end(self, mask: Mask) -> None:
        """These lanes end: they must have waited until their stores have read shared memory."""
        for lane, (group, i) in self._last_store.items():
            if mask[lane] and group > self._waited[lane]:
                text = "stores from shared memory, and ends without having waited until that was read"
                self._findings.add("async_race", i, 1, lane, text)
