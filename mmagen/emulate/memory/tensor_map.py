"""Tensor maps in a form that the emulator can read: extents, strides, box, swizzle.

The driver's 128 bytes are opaque, so the host side of an emulated launch puts a description of its own into them, and the
kernel passes its address to TMA as it would the driver's. What cuTensorMapEncodeTiled refuses is refused here too.
Source: CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from mmagen.emulate.errors import EmulationError

_MAGIC = b"mmagenTM"
_MOST_RANK = 5
_HEAD = struct.Struct("<8sBBBBIQ")
SWIZZLES = (16, 32, 64, 128)
DATA_TYPES = {
    "UINT8": "u8",
    "UINT16": "u16",
    "UINT32": "u32",
    "INT32": "s32",
    "UINT64": "u64",
    "INT64": "s64",
    "FLOAT16": "f16",
    "FLOAT32": "f32",
    "FLOAT64": "f64",
    "BFLOAT16": "bf16",
    "FLOAT32_FTZ": "f32_ftz",
    "TFLOAT32": "tf32",
    "TFLOAT32_FTZ": "tf32_ftz",
}
"""The ends of CU_TENSOR_MAP_DATA_TYPE_..., in the order of their values -> the PTX type of an element."""
_KINDS = ("", *DATA_TYPES.values())


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory and the box that one copy moves; innermost mode first, as for cuTensorMapEncodeTiled.

    address: of the first element. element: bytes of one. extents: in elements. strides: of all modes but the innermost,
    in bytes. box: in elements. swizzle: bytes of a line of the box over which 16-byte chunks are swizzled; 16: not. kind: the
    PTX type of an element, which reductions need; "": unknown.
    """

    address: int
    element: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 16
    kind: str = ""
    BYTES: ClassVar[int] = 128
    HEAD: ClassVar[int] = 16  # bytes before the address: among them the rank

    @property
    def rank(self) -> int:
        return len(self.extents)

    @property
    def box_bytes(self) -> int:
        """What one copy moves, elements outside of the tensor included."""
        count = self.element
        for extent in self.box:
            count *= extent
        return count

    def fault(self) -> str:
        """Why the driver would refuse this map; "" where it would not."""
        line = self.box[0] * self.element
        if not (len(self.box) == self.rank == len(self.strides) + 1 and 1 <= self.rank <= _MOST_RANK):
            return "a tensor map has 1 to 5 modes, each with an extent and a box, all but the first with a stride"
        if self.address % 16:
            return f"the tensor's address {self.address:#x} is not a multiple of 16"
        if any(stride % 16 or not 0 <= stride < 1 << 40 for stride in self.strides):
            return f"a stride of {self.strides} bytes is not a multiple of 16 below 2^40"
        if any(not 1 <= extent <= 1 << 32 for extent in self.extents):
            return f"extents {self.extents} are not within 1 to 2^32"
        if any(not 1 <= extent <= 256 for extent in self.box):
            return f"a box of {self.box} elements; 1 to 256 are possible"
        if line % 16:
            return f"lines of the box are {line} bytes, not a multiple of 16"
        if self.swizzle not in SWIZZLES or (self.swizzle > 16 and line > self.swizzle):
            return f"lines of {line} bytes do not fit a swizzle of {self.swizzle}"
        return ""

    def encode(self) -> bytes:
        """The 128 bytes that stand for a CUtensorMap; raises EmulationError where the driver would refuse it."""
        if fault := self.fault():
            raise EmulationError(f"cuTensorMapEncodeTiled would fail: {fault}")
        head = _HEAD.pack(_MAGIC, self.rank, self.element, self.swizzle, _KINDS.index(self.kind), 0, self.address)
        body = struct.pack(f"<{self.rank}Q{self.rank - 1}Q{self.rank}H", *self.extents, *self.strides, *self.box)
        return (head + body).ljust(self.BYTES, b"\0")

    @classmethod
    def rank_of(cls, head: bytes) -> int:
        """The rank, of the first HEAD bytes of a map; raises EmulationError where they are of no map."""
        if head[:8] != _MAGIC or not 1 <= head[8] <= _MOST_RANK:
            raise EmulationError("this address holds no tensor map")
        return head[8]

    @classmethod
    def place_of(cls, field: str, mode: int, rank: int) -> int:
        """The byte at which the 8 bytes of a field begin: global_address, or global_dim or global_stride of a mode (of strides,
        0 is that of the second mode)."""
        before = {"global_address": -1, "global_dim": 0, "global_stride": rank}[field]
        return _HEAD.size + 8 * (before + (0 if field == "global_address" else mode))

    @classmethod
    def decode(cls, data: bytes) -> TensorMap:
        """The map that `encode` made these bytes of; raises EmulationError for any others."""
        if len(data) < cls.BYTES or data[:8] != _MAGIC:
            raise EmulationError("this address holds no tensor map")
        _, rank, element, swizzle, kind, _, address = _HEAD.unpack_from(data)
        if not 1 <= rank <= _MOST_RANK or kind >= len(_KINDS):
            raise EmulationError("this address holds no tensor map")
        values = struct.unpack_from(f"<{rank}Q{rank - 1}Q{rank}H", data, _HEAD.size)
        return cls(address, element, values[:rank], values[rank : 2 * rank - 1], values[2 * rank - 1 :], swizzle, _KINDS[kind])
