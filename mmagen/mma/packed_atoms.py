"""mma.sync of 4-bit integers as atoms: two elements lie in a byte, and the fragments are those of 8-bit operands of half the depth.

PTX ISA, "Matrix fragments for mma.m16n8k64", ".m16n8k32" and ".m8n8k32" with .s4 and .u4: a 32-bit register has eight neighbours
along K, the first in the lowest bits. Read as bytes, each with the element of even k in its low half, the registers of an
operation are those of the .u8 operation with half its K.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from mmagen.mma import catalogue
from mmagen.mma.atoms import TYPES, Atom, ElementType, find_atom

PER_BYTE = 2
PACKED_TYPES = {"s4": ElementType("s4", "cute::int4_t", 4), "u4": ElementType("u4", "cute::uint4_t", 4)}
BYTE = TYPES["u8"]  # that memory has PER_BYTE elements in


@dataclass(frozen=True)
class PackedAtom(Atom):
    """An mma.sync of s4 and u4 whose operands lie in memory as bytes. k, type_a and type_b are those of the elements."""

    @property
    def cxx(self) -> str:
        return self.struct

    @property
    def struct(self) -> str:
        """The operation on bytes, which the project defines."""
        return self.name.replace("_", "_BYTES_", 1)

    @property
    def defined_by(self) -> str:
        """The operation of CuTe that executes it."""
        return f"cute::{self.name}"

    @property
    def of_bytes(self) -> Atom:
        """The operation on bytes that has the same registers and the same layouts."""
        return _of_bytes(self.m, self.n, self.k // PER_BYTE)

    def stored(self, letter: str) -> tuple[int, int]:
        return PER_BYTE, 1

    def stored_type(self, letter: str) -> ElementType:
        return BYTE

    def of_stored(self, letter: str) -> Atom:
        return self.of_bytes


@cache
def _of_bytes(m: int, n: int, k: int) -> Atom:
    found = find_atom(f"SM80_{m}x{n}x{k}_S32U8U8S32_TN")
    assert found, (m, n, k)
    return found


@cache
def find_packed(name: str) -> PackedAtom | None:
    """The mma.sync of 4-bit integers of that name; None for every other operation."""
    operation = catalogue.known(name)
    if (
        operation is None
        or operation.warpgroup
        or operation.tensor_memory
        or operation.sparse
        or operation.block_scaled
        or operation.broken
    ):
        return None
    if operation.type_a not in PACKED_TYPES or operation.type_b not in PACKED_TYPES or operation.type_d not in TYPES:
        return None
    return PackedAtom.from_operation(operation, TYPES | PACKED_TYPES, "TN")
