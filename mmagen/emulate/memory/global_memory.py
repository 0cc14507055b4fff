"""Global memory as named allocations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mmagen.emulate.arrays import Bytes, Mask, Values
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.memory.rows import Rows
from mmagen.emulate.memory.spaces import GLOBAL_BASE, UNSIGNED
from mmagen.emulate.memory.sparse import zeros

# Flags of a byte's state.
ALLOCATED, INITIALISED, WRITABLE = 1, 2, 4
POISON = 0xFF
"""Every byte that nothing wrote, and every one that an access may not read: a NaN of each format, -1 as an integer."""
_GUARD = 4096
_NEAR = 1 << 20
_ROOM, _MOST_ROOM = 1 << 25, 1 << 40  # bytes of addresses that are taken at first, and up to which twice as many as are needed


@dataclass(frozen=True)
class Allocation:
    """A named range of global memory: `address` and `size` in bytes. rows: its bytes that may be accessed."""

    name: str
    address: int
    size: int
    rows: Rows

    def contains(self, address: int) -> bool:
        return self.address <= address < self.address + self.size


class GlobalMemory:
    """Device memory: allocations at 64-bit addresses with guard gaps; each byte has flags: allocated, initialised, writable.

    What lies outside of allocations and of their rows has no flags: no access reaches it, so that it needs no contents. It
    takes no memory either, however large it is.
    """

    def __init__(self) -> None:
        self.allocations: dict[str, Allocation] = {}
        # Contents and state, each of so many addresses that most further allocations need no others.
        self._room: tuple[Bytes, Bytes] = zeros(_ROOM, np.uint8), zeros(_ROOM, np.uint8)
        self._bytes, self._state = (room[:_GUARD] for room in self._room)
        self._views: dict[tuple[bool, int, int], Values] = {}
        self.holds_parts = False  # whether allocations are parts of the matrices that a kernel is called with
        self.writes = 0  # by kernels; a loop that polls a flag need not read it again before this changes
        # Of tensor maps that kernels have written: first byte -> the scope it was published to, and its writer's CTA.
        self.tensor_maps: dict[int, tuple[int, int]] = {}

    @property
    def size(self) -> int:
        """Bytes from GLOBAL_BASE to the end of the last guard gap."""
        return len(self._bytes)

    def note_tensor_map(self, place: int, scope: int, cta: int) -> None:
        """A CTA of the grid writes the tensor map that begins at this byte, for the threads of a scope."""
        self.tensor_maps[place] = scope, cta

    def allocate(
        self,
        name: str,
        data: Values | bytes | None = None,
        *,
        size: int | None = None,
        writable: bool = True,
        misalign: int = 0,
        rows: Rows | None = None,
    ) -> int:
        """The address of a new allocation.

        data: its contents (an array's bytes in C order); without it, `size` bytes that nothing wrote yet. misalign: bytes
        past a 256-byte boundary at which it begins. rows: the bytes that may be accessed, if not all. Raises EmulationError
        where the name is taken or no size is given.
        """
        if name in self.allocations:
            raise EmulationError(f"there is an allocation called {name} already")
        contents = None if data is None else _raw(data)
        count = len(contents) if contents is not None else size
        if count is None:
            raise EmulationError(f"allocation {name} needs data or a size")
        start = -(-len(self._bytes) // 256) * 256 + misalign
        self._grow(-(-(start + count + _GUARD) // 256) * 256)
        flags = ALLOCATED | (INITIALISED if data is not None else 0) | (WRITABLE if writable else 0)
        place = Allocation(name, GLOBAL_BASE + start, count, rows or Rows(0, count))
        for begin, end in _spans(place):
            self._bytes[begin:end] = POISON if contents is None else contents[begin - start : end - start]
            self._state[begin:end] = flags
        self.allocations[name] = place
        return place.address

    def _grow(self, size: int) -> None:
        if size > len(self._room[0]):
            count = 2 * size if size < _MOST_ROOM else size
            room = zeros(count, np.uint8), zeros(count, np.uint8)
            for place in self.allocations.values():
                for begin, end in _spans(place):
                    room[0][begin:end], room[1][begin:end] = self._bytes[begin:end], self._state[begin:end]
            self._room = room
        self._bytes, self._state = (room[:size] for room in self._room)
        self._views = {}

    def read(self, name: str, dtype: npt.DTypeLike = np.uint8) -> Values:
        """A copy of an allocation's contents as a flat array of `dtype`."""
        place = self.allocations[name]
        start = place.address - GLOBAL_BASE
        return np.frombuffer(self._bytes[start : start + place.size].tobytes(), dtype=dtype).copy()

    @property
    def first(self) -> int:
        """The address below which nothing lies."""
        return GLOBAL_BASE

    def load(self, address: int, size: int) -> bytes:
        """Bytes as the host copies them. Raises EmulationError where some are not allocated."""
        return self._bytes[self._range(address, size)].tobytes()

    def store(self, address: int, data: bytes) -> None:
        """The host writes bytes, to read-only allocations too. Raises EmulationError where some are not allocated."""
        place = self._range(address, len(data))
        self._bytes[place] = np.frombuffer(data, dtype=np.uint8)
        self._state[place] |= INITIALISED

    def _range(self, address: int, size: int) -> slice:
        start = address - GLOBAL_BASE
        place = slice(max(start, 0), max(start + size, 0))
        if start < 0 or start + size > self.size or not (self._state[place] & ALLOCATED).all():
            raise EmulationError(f"the host copies {size} bytes at {self.describe(address, size)}")
        return place

    def written(self, name: str) -> Mask:
        """bool[bytes]: which bytes of an allocation hold something."""
        place = self.allocations[name]
        start = place.address - GLOBAL_BASE
        written: Mask = (self._state[start : start + place.size] & INITIALISED) != 0
        return written

    def read_rows(self, name: str) -> tuple[Bytes, Mask]:
        """(the bytes of an allocation's rows, uint8[rows, width]; which of them hold something, bool[rows, width])."""
        spans = list(_spans(self.allocations[name]))
        contents = np.stack([self._bytes[begin:end] for begin, end in spans])
        written: Mask = np.stack([self._state[begin:end] for begin, end in spans]) & INITIALISED != 0
        return contents, written

    def data(self, width: int, count: int) -> Values:
        """All of it as [elements, count] unsigned integers of `width` bytes; writing to them writes to memory."""
        return self._view(False, width, count)

    def state(self, width: int, count: int) -> Values:
        """The state flags of all bytes, in the shape of `data`."""
        return self._view(True, width, count)

    def flat(self) -> Bytes:
        """uint8[size]: all of it, byte by byte."""
        return self._bytes

    def flat_state(self) -> Bytes:
        """uint8[size]: the state flags of all bytes."""
        return self._state

    def _view(self, state: bool, width: int, count: int) -> Values:
        key = (state, width, count)
        if key not in self._views:
            whole = self._state if state else self._bytes
            whole = whole[: len(whole) // (width * count) * (width * count)]
            self._views[key] = whole.view(UNSIGNED[width]).reshape(-1, count)
        return self._views[key]

    def describe(self, address: int, size: int = 1) -> str:
        """Where `size` bytes lie: in which allocation, or how far outside of the nearest one."""
        best, distance = None, 1 << 64
        for place in self.allocations.values():
            end = place.address + place.size
            if place.contains(address):
                return self._inside(place, address, size)
            away = place.address - address if address < place.address else address - end
            if away < distance:
                best, distance = place, away
        if best is None or distance > _NEAR:
            return f"address {address:#x}, which is near no allocation"
        side = "before" if address < best.address else "past the end of"
        return f"{distance} bytes {side} {best.name} ({best.size} bytes)"

    def _inside(self, place: Allocation, address: int, size: int) -> str:
        """Where `size` bytes lie that begin in an allocation, and how much of them does not belong to it or to a row."""
        first = address - place.address
        inside, over = f"{place.name}[{first}]", first + size - place.size
        if over > 0:
            return f"{inside}, of which {over} bytes lie past its end ({place.size} bytes)"
        start = address - GLOBAL_BASE
        padding = np.flatnonzero(self._state[start : start + size] & ALLOCATED == 0)
        if not len(padding):
            return inside
        place_of = place.rows.past_end(first + int(padding[0]))
        if padding[0] == 0:
            return f"{inside}, {place_of}"
        return f"{inside}, of which {len(padding)} bytes lie in padding, {place_of}"


def _spans(place: Allocation) -> Iterator[tuple[int, int]]:
    """(first, end) of each row of an allocation, as positions in the memory."""
    start, width = place.address - GLOBAL_BASE, place.rows.width
    for row in (place.rows.starts() + start).tolist():
        yield row, row + width


def _raw(data: Values | bytes) -> Bytes:
    if isinstance(data, bytes):
        return np.frombuffer(data, dtype=np.uint8)
    if data.dtype == np.uint8 and data.flags.c_contiguous:
        return data.reshape(-1)
    return np.frombuffer(np.ascontiguousarray(data).tobytes(), dtype=np.uint8)
