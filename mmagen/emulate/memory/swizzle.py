"""The swizzle of tensor maps and matrix descriptors (CUDA programming guide, "TMA swizzle"; PTX ISA, "Swizzling modes")."""

from __future__ import annotations

from mmagen.emulate.arrays import Indices

CHUNK = 16
"""Bytes that a swizzle moves as a whole, and the unit in which TMA and wgmma access shared memory."""
_SWIZZLE_MASKS = {16: 0, 32: 0x10, 64: 0x30, 128: 0x70}


def swizzled(address: Indices, width: int) -> Indices:
    """Where the bytes at unswizzled addresses lie: address bits from 7 on are XORed into the number of the 16-byte chunk
    within its line of `width` bytes (16: no swizzle)."""
    return address ^ ((address >> 3) & _SWIZZLE_MASKS[width])
