"""Boxes of tensors, and consecutive bytes, in global memory: which bytes TMA reads, writes and reduces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Bytes, Indices, Mask, Reduction
from mmagen.emulate.hazards.tracker import HazardTracker
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.memory.global_memory import ALLOCATED, INITIALISED, POISON, WRITABLE, GlobalMemory
from mmagen.emulate.memory.spaces import GLOBAL_BASE
from mmagen.emulate.memory.tensor_map import TensorMap
from mmagen.emulate.ptx.model import Instruction

Coordinates = tuple[int, ...]
"""The first element of a box, innermost mode first."""
_STORE_UNIT = 16  # bytes that a store writes at least


@dataclass(frozen=True)
class _Extent:
    """The part of a box that lies in its tensor. inside: bool[lines]; first, end: bytes of each line that do. index: their
    byte positions in global memory, int64[lines inside, end - first]; None where they must not be accessed."""

    inside: Mask
    first: int
    end: int
    index: Indices | None


class Boxes:
    """Reads and writes boxes; accesses to bytes that are not there, or not as they must be, are findings."""

    def __init__(self, memory: GlobalMemory, hazards: HazardTracker, findings: LaneFindings):
        self._memory, self._hazards, self._findings = memory, hazards, findings

    def read(self, i: Instruction, lane: int, tensor: TensorMap, at: Coordinates) -> tuple[Bytes, Indices | None]:
        """(uint8[lines, bytes]: a box, zeros outside of the tensor; poison if it covers what must not be read. The positions of
        its bytes in global memory; None if it covers what must not be read)."""
        extent = self._extent(i, lane, tensor, at, ALLOCATED | INITIALISED)
        box = np.zeros((len(extent.inside), tensor.box[0] * tensor.element), dtype=np.uint8)
        source = POISON if extent.index is None else self._memory.flat()[extent.index]
        box[extent.inside, extent.first : extent.end] = source
        return box, extent.index

    def write(
        self, i: Instruction, lane: int, tensor: TensorMap, at: Coordinates, box: Bytes, reduction: Reduction | None
    ) -> Indices:
        """Writes the part of a box that lies in the tensor, or reduces what is there with it. Returns int64[n], the positions
        of its bytes."""
        extent = self._extent(i, lane, tensor, at, _written_state(reduction))
        if extent.index is None:
            return np.zeros(0, dtype=np.int64)
        return self._put(extent.index, box[extent.inside, extent.first : extent.end], reduction)

    def read_line(self, i: Instruction, lane: int, address: int, size: int) -> tuple[Bytes, Indices | None]:
        """As `read`, of consecutive bytes: uint8[bytes], and their positions."""
        index = address - GLOBAL_BASE + np.arange(size)
        if not self._check(i, lane, index, ALLOCATED | INITIALISED):
            return np.full(size, POISON, dtype=np.uint8), None
        data: Bytes = self._memory.flat()[index]
        return data, index

    def write_line(self, i: Instruction, lane: int, address: int, data: Bytes, reduction: Reduction | None) -> Indices:
        """As `write`, of consecutive bytes."""
        index = address - GLOBAL_BASE + np.arange(len(data))
        if not self._check(i, lane, index, _written_state(reduction)):
            return np.zeros(0, dtype=np.int64)
        return self._put(index, data, reduction)

    def _put(self, index: Indices, data: Bytes, reduction: Reduction | None) -> Indices:
        memory = self._memory.flat()
        self._memory.writes += 1
        memory[index] = data if reduction is None else reduction(memory[index], data)
        self._memory.flat_state()[index] |= INITIALISED
        return index.reshape(-1)

    def _extent(self, i: Instruction, lane: int, tensor: TensorMap, at: Coordinates, wanted: int) -> _Extent:
        """wanted: the state that the bytes must have."""
        address, inside, low, high = _lines(tensor, at)
        first, end = low * tensor.element, high * tensor.element
        if wanted & WRITABLE:
            end = _stored_end(tensor, first, end)
        start = address[inside] + at[0] * tensor.element - GLOBAL_BASE
        index = start[:, None] + np.arange(first, end)
        return _Extent(inside, first, end, index if self._check(i, lane, index, wanted) else None)

    def _check(self, i: Instruction, lane: int, index: Indices, wanted: int) -> bool:
        """Whether the bytes may be accessed; notes the access. Reading what nothing wrote is a finding, but is done."""
        memory, state = self._memory, self._memory.flat_state()
        outside = (index < 0) | (index >= memory.size)
        bad = outside | (state[np.where(outside, 0, index)] & wanted != wanted)
        if bad.any():
            where = int(index[bad][0]) + GLOBAL_BASE
            flags = 0 if outside.any() else int(np.bitwise_and.reduce(state[index[bad]]))
            kind, why = "global_out_of_bounds", "not memory of the kernel"
            if flags & ALLOCATED:
                locked = wanted & WRITABLE and not flags & WRITABLE
                kind, why = ("read_only", "read-only") if locked else ("uninitialised_global", "not written yet")
            self._findings.add(kind, i, 1, lane, f"copies over {memory.describe(where)}, which is {why}")
            if kind != "uninitialised_global":
                return False
        if self._hazards.checks and index.size:
            flat, writing = index.reshape(-1), bool(wanted & WRITABLE)
            lanes = np.full(len(flat), lane)
            reduces = writing and bool(wanted & INITIALISED)
            self._hazards.global_access(i, flat, 1, lanes, writing, asynchronous=True, reduces=reduces)
        return True


def stored_units(tensor: TensorMap, at: Coordinates) -> Mask:
    """Which 16 bytes of a box in shared memory a store reads: bool[n], those of which a part lies in the tensor."""
    _, inside, low, high = _lines(tensor, at)
    first, end = low * tensor.element, high * tensor.element
    unit = np.arange(0, tensor.box[0] * tensor.element, _STORE_UNIT)
    of_line = (unit + _STORE_UNIT > first) & (unit < _stored_end(tensor, first, end))
    return (inside[:, None] & of_line).reshape(-1)


def _stored_end(tensor: TensorMap, first: int, end: int) -> int:
    """Of the bytes of a line that a store writes, of which those from first to end lie in the tensor. An H200 stores whole 16
    bytes: a line that ends within them is written up to their end (seen with rows of 520 bytes, no documentation says so). Loads
    stop at the element. Of reductions it was not measured."""
    return min(-(-end // _STORE_UNIT) * _STORE_UNIT, tensor.box[0] * tensor.element) if end > first else end


def _written_state(reduction: Reduction | None) -> int:
    """The state of bytes that are stored to, or reduced."""
    return ALLOCATED | WRITABLE | (INITIALISED if reduction else 0)


def _lines(tensor: TensorMap, at: Coordinates) -> tuple[Indices, Mask, int, int]:
    """(address of each line of the box at element 0 of the innermost mode, whether it lies in the tensor, the first
    element of a line that does, and the end of those that do)."""
    address, inside = np.array([tensor.address]), np.array([True])
    for mode in range(1, tensor.rank):
        place = at[mode] + np.arange(tensor.box[mode])
        address = (place * tensor.strides[mode - 1])[:, None] + address
        inside = ((place >= 0) & (place < tensor.extents[mode]))[:, None] & inside
        address, inside = address.reshape(-1), inside.reshape(-1)
    low = min(max(-at[0], 0), tensor.box[0])
    return address, inside, low, max(low, min(tensor.extents[0] - at[0], tensor.box[0]))
