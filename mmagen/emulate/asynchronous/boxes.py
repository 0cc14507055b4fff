"""Boxes of tensors in global memory: which bytes TMA reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Bytes, Indices, Mask
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

    def read(self, i: Instruction, lane: int, tensor: TensorMap, at: Coordinates) -> Bytes:
        """uint8[lines, bytes]: a box, zeros outside of the tensor; poison if it covers what must not be read."""
        extent = self._extent(i, lane, tensor, at, ALLOCATED | INITIALISED)
        box = np.zeros((len(extent.inside), tensor.box[0] * tensor.element), dtype=np.uint8)
        source = POISON if extent.index is None else self._memory.flat()[extent.index]
        box[extent.inside, extent.first : extent.end] = source
        return box

    def write(self, i: Instruction, lane: int, tensor: TensorMap, at: Coordinates, box: Bytes) -> Indices:
        """Writes the part of a box that lies in the tensor. Returns int64[n], the positions of its bytes."""
        extent = self._extent(i, lane, tensor, at, ALLOCATED | WRITABLE)
        if extent.index is None:
            return np.zeros(0, dtype=np.int64)
        self._memory.writes += 1
        self._memory.flat()[extent.index] = box[extent.inside, extent.first : extent.end]
        self._memory.flat_state()[extent.index] |= INITIALISED
        return extent.index.reshape(-1)

    def _extent(self, i: Instruction, lane: int, tensor: TensorMap, at: Coordinates, wanted: int) -> _Extent:
        """wanted: the state that the bytes must have."""
        address, inside, low, high = _lines(tensor, at)
        first, end = low * tensor.element, high * tensor.element
        if wanted & WRITABLE and end > first:
            # An H200 stores whole 16 bytes: a line that ends within them is written up to their end (seen with rows of
            # 520 bytes, no documentation says so). Loads stop at the element.
            end = min(-(-end // _STORE_UNIT) * _STORE_UNIT, tensor.box[0] * tensor.element)
        start = address[inside] + at[0] * tensor.element - GLOBAL_BASE
        index = start[:, None] + np.arange(first, end)
        if not self._check_state(i, lane, index, wanted):
            return _Extent(inside, first, end, None)
        if self._hazards.checks and index.size:
            flat = index.reshape(-1)
            lanes, writing = np.full(len(flat), lane), bool(wanted & WRITABLE)
            self._hazards.global_access(i, flat, 1, lanes, writing, asynchronous=True)
        return _Extent(inside, first, end, index)

    def _check_state(self, i: Instruction, lane: int, index: Indices, wanted: int) -> bool:
        """Whether the bytes may be accessed. Reading what nothing wrote is a finding, but is done."""
        memory, state = self._memory, self._memory.flat_state()
        outside = (index < 0) | (index >= memory.size)
        bad = outside | (state[np.where(outside, 0, index)] & wanted != wanted)
        if not bad.any():
            return True
        where = int(index[bad][0]) + GLOBAL_BASE
        flags = 0 if outside.any() else int(state[index[bad][0]])
        kind, why = "global_out_of_bounds", "not memory of the kernel"
        if flags & ALLOCATED:
            kind, why = ("read_only", "read-only") if wanted & WRITABLE else ("uninitialised_global", "not written yet")
        self._findings.add(kind, i, 1, lane, f"copies a box over {memory.describe(where)}, which is {why}")
        return kind == "uninitialised_global"


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
