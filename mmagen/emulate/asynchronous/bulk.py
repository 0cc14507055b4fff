"""TMA: boxes of tensors between global and shared memory, under way until somebody has waited for them.

A load lands as late as possible, when no thread can run on without it; a store is done at once, and only its shared memory
is watched until its thread has waited. Which chunk of a box lies where follows the CUDA programming guide, "TMA swizzle".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mmagen.emulate.errors import EmulationError
from mmagen.emulate.memory.memory import ALLOCATED, GLOBAL_BASE, INITIALISED, PARAM_WINDOW, WINDOW_SIZE, WRITABLE
from mmagen.emulate.memory.tensor_map import BYTES, TensorMap, decode
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.sync.mbarriers import Place

if TYPE_CHECKING:
    from mmagen.emulate.batch import Batch

CHUNK = 16
_SWIZZLE_MASKS = {16: 0, 32: 0x10, 64: 0x30, 128: 0x70}


def swizzled(address: np.ndarray, width: int) -> np.ndarray:
    """Where the byte of an unswizzled address lies: within lines of `width` bytes, 16-byte chunks are exchanged by what
    the address bits from 7 on are."""
    return address ^ ((address >> 3) & _SWIZZLE_MASKS[width])


@dataclass
class _Load:
    """index: byte positions in the batch's shared memory of all chunks, for each barrier; data: uint64[chunks, 2]."""

    instruction: Instruction
    lane: int
    targets: list[tuple[Place, np.ndarray]]
    data: np.ndarray
    bytes: int


class BulkCopies:
    """The bulk copies of one batch."""

    def __init__(self, batch: Batch):
        self._batch = batch
        self._loads: list[_Load] = []
        self._committed = np.zeros(batch.size, dtype=np.int64)
        self._waited = np.zeros(batch.size, dtype=np.int64)
        self._last: dict[int, tuple[int, Instruction]] = {}  # of each thread that stored, the last group
        self._maps: dict[int, TensorMap] = {}

    # Where things are

    def tensor(self, i: Instruction, address: int) -> TensorMap:
        """The tensor map at a generic address; raises EmulationError where there is none."""
        if address not in self._maps:
            if PARAM_WINDOW <= address < PARAM_WINDOW + WINDOW_SIZE:
                data = self._batch.program.params[address - PARAM_WINDOW :][:BYTES]
            else:
                memory = self._batch.program.memory.view("bytes", 1, 1).reshape(-1)
                start = address - GLOBAL_BASE
                data = memory[start : start + BYTES].tobytes() if 0 <= start < len(memory) else b""
            if address % 64:
                raise EmulationError(f"line {i.line}: a tensor map at {address:#x}, which is not a multiple of 64")
            self._maps[address] = decode(data)
            if 16 < self._maps[address].swizzle != self._maps[address].box[0] * self._maps[address].element:
                raise EmulationError(f"line {i.line}: boxes narrower than their swizzle are not supported")
        return self._maps[address]

    def _shared(self, i: Instruction, lane: int, tensor: TensorMap, cta: int, offset: int) -> np.ndarray | None:
        """int64[chunks]: where the chunks of a box lie in the batch's shared memory; None, and a finding, if not there."""
        batch, size = self._batch, tensor.box_bytes
        if offset % 128:
            batch.found("misaligned", i, 1, lane, f"has its box at shared byte {offset}, which is not a multiple of 128")
            return None
        if offset + size > batch.shared.size:
            text = f"has its box of {size} bytes at shared byte {offset}; there are {batch.shared.size}"
            batch.found("shared_out_of_bounds", i, 1, lane, text)
            return None
        return swizzled(offset + np.arange(0, size, CHUNK), tensor.swizzle) + cta * batch.shared.stride

    # Loads

    def load(self, i: Instruction, lane: int, tensor: TensorMap, at: tuple[int, ...], targets: list[tuple[int, Place]]) -> None:
        """One thread starts to read the box at coordinates `at`. targets: (byte of shared memory, barrier) for each CTA
        that gets it; the barrier's CTA is the one."""
        batch = self._batch
        data = _read(batch, i, lane, tensor, at)
        placed = []
        for offset, place in targets:
            index = self._shared(i, lane, tensor, place[0], offset)
            barrier = batch.mbarriers.known(i, lane, place, asynchronous=True)
            if index is None or barrier is None:
                continue
            batch.exits.reach(i, lane, place[0])
            barrier.coming += 1
            placed.append((place, index))
            if batch.clocks is not None:
                column = batch.mbarriers.column(place)
                batch.exits.expect(i, lane, place[0], column, barrier.phase + 1)
                if batch.shadow is not None:
                    batch.shadow.fetch(i, index, lane, column, barrier.phase + 1)
        self._loads.append(_Load(i, lane, placed, data.view(np.uint64).reshape(-1, 2), tensor.box_bytes))

    def land(self) -> bool:
        """All loads that are under way arrive; False if there are none."""
        loads, self._loads = self._loads, []
        for load in loads:
            for place, index in load.targets:
                self._batch.shared.scatter(index, load.data)
                self._batch.mbarriers.complete(load.instruction, load.lane, place, load.bytes)
        return bool(loads)

    # Stores

    def store(self, i: Instruction, lane: int, tensor: TensorMap, at: tuple[int, ...], offset: int) -> None:
        """One thread writes a box to the tensor."""
        batch = self._batch
        index = self._shared(i, lane, tensor, int(batch.cta[lane]), offset)
        if index is None:
            return
        group = int(self._committed[lane]) + 1
        self._last[lane] = group, i
        if batch.clocks is not None and batch.shadow is not None:
            column = batch.clocks.column("bulk", lane // batch.width % batch.program.cluster, lane % batch.width)
            batch.shadow.drain(i, index, lane, column, group)
        lines = batch.shared.gather(index, 8, 2).view(np.uint8).reshape(-1, tensor.box[0] * tensor.element)
        _write(batch, i, lane, tensor, at, lines)

    def commit(self, mask: np.ndarray | None) -> None:
        """Closes the open group of each active lane."""
        self._committed[slice(None) if mask is None else mask] += 1

    def wait(self, mask: np.ndarray | None, newest: int) -> None:
        """The active lanes wait until at most `newest` of their groups have still to read shared memory."""
        batch = self._batch
        for lane in self._last:
            if mask is not None and not mask[lane]:
                continue
            done = int(self._committed[lane]) - newest
            self._waited[lane] = max(self._waited[lane], done)
            if batch.clocks is not None and done > 0:
                column = batch.clocks.column("bulk", lane // batch.width % batch.program.cluster, lane % batch.width)
                batch.clocks.learn(np.array([lane]), column, done)

    def exit(self, mask: np.ndarray) -> None:
        """These lanes end; their stores must have read their shared memory."""
        for lane, (group, i) in self._last.items():
            if mask[lane] and group > self._waited[lane]:
                text = "stores from shared memory, and ends without having waited until that was read"
                self._batch.found("async_race", i, 1, lane, text)


# Boxes in global memory

_STORED = 16  # bytes that a store writes at least


def _lines(tensor: TensorMap, at: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, int, int]:
    """(address of each line of the box at element 0 of the innermost mode, whether it lies in the tensor, the first and
    the last but one element of a line that do)."""
    address, inside = np.array([tensor.address]), np.array([True])
    for mode in range(1, tensor.rank):
        place = at[mode] + np.arange(tensor.box[mode])
        address = (place * tensor.strides[mode - 1])[:, None] + address
        inside = ((place >= 0) & (place < tensor.extents[mode]))[:, None] & inside
        address, inside = address.reshape(-1), inside.reshape(-1)
    low = min(max(-at[0], 0), tensor.box[0])
    return address, inside, low, max(low, min(tensor.extents[0] - at[0], tensor.box[0]))


def _bytes_of(batch: Batch, i: Instruction, lane: int, tensor: TensorMap, at: tuple[int, ...], wanted: int) -> tuple:
    """(which lines, first byte, end byte of a line, byte positions in global memory) of what a box has in the tensor;
    bytes that are not as `wanted` are a finding, and no positions are returned."""
    address, inside, low, high = _lines(tensor, at)
    first, end = low * tensor.element, high * tensor.element
    if wanted & WRITABLE and end > first:
        # An H200 stores whole 16 bytes: a line that ends within them is written up to their end (seen with rows of 520
        # bytes, no documentation says so). Loads stop at the element.
        end = min(-(-end // _STORED) * _STORED, tensor.box[0] * tensor.element)
    start = address[inside] + at[0] * tensor.element - GLOBAL_BASE
    index = start[:, None] + np.arange(first, end)
    memory = batch.program.memory
    outside = (index < 0) | (index >= memory.size)
    state = memory.view("state", 1, 1).reshape(-1)
    bad = outside | (state[np.where(outside, 0, index)] & wanted != wanted)
    if bad.any():
        where = int(index[bad][0]) + GLOBAL_BASE
        flags = 0 if outside.any() else int(state[index[bad][0]])
        kind, why = "global_out_of_bounds", "no memory of the kernel's"
        if flags & ALLOCATED:
            kind, why = ("read_only", "read-only") if wanted & WRITABLE else ("uninitialised_global", "not written yet")
        batch.found(kind, i, 1, lane, f"moves a box over {memory.describe(where)}, which is {why}")
        if kind != "uninitialised_global":
            return inside, first, end, None
    if batch.checks and index.size:
        flat = index.reshape(-1)
        batch.note_global(i, flat, 1, np.full(len(flat), lane), bool(wanted & WRITABLE))
    return inside, first, end, index


def _read(batch: Batch, i: Instruction, lane: int, tensor: TensorMap, at: tuple[int, ...]) -> np.ndarray:
    """uint8[lines, bytes]: a box, zeros where the tensor has nothing."""
    inside, first, end, index = _bytes_of(batch, i, lane, tensor, at, ALLOCATED | INITIALISED)
    box = np.zeros((len(inside), tensor.box[0] * tensor.element), dtype=np.uint8)
    if index is not None:
        box[inside, first:end] = batch.program.memory.view("bytes", 1, 1).reshape(-1)[index]
    return box


def _write(batch: Batch, i: Instruction, lane: int, tensor: TensorMap, at: tuple[int, ...], box: np.ndarray) -> None:
    """Writes the part of a box that lies in the tensor."""
    inside, first, end, index = _bytes_of(batch, i, lane, tensor, at, ALLOCATED | WRITABLE)
    if index is not None:
        memory = batch.program.memory
        memory.writes += 1
        memory.view("bytes", 1, 1).reshape(-1)[index] = box[inside, first:end]
        memory.view("state", 1, 1).reshape(-1)[index] |= INITIALISED
