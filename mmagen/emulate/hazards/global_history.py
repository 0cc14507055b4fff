"""What a launch keeps of accesses to global memory: the last writer and the last reader of each byte, and flags.

Events are uint64: bits 63..48 the cluster of the grid, plus one; bits 47..32 its warp; bits 29..0 the warp's clock, of which
the largest stands for a bulk store that nobody has waited for. Bit 31: of a writer, that the access was strong; of a reader,
that it went through the read-only cache. Bit 30: a bulk store wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mmagen.emulate.arrays import Events
from mmagen.emulate.memory.sparse import zeros

CLUSTER_SHIFT, WARP_SHIFT = np.uint64(48), np.uint64(32)
STRONG = READ_ONLY = np.uint64(1 << 31)
BULK = np.uint64(1 << 30)
EVENT_CLOCK = np.uint64((1 << 30) - 1)

_WIDEST_FLAG = 16

Warp = tuple[int, int]
"""(cluster of the grid, its warp)."""
Knowledge = dict[Warp, int]
"""Warp -> clock."""
Releases = dict[tuple[int, int], Knowledge]
"""(scope, CTA of the grid) of the threads that released -> what they knew."""


@dataclass
class Flag:
    """released: what its last strong store released. old_value, old_released: its bytes, and what was released with them,
    before that store. event: (cluster of the grid, its warp, clock) of the store; cta: of the grid; scope: of the store.
    stale_readers: CTAs that have read the old value since; observers: those that have read or changed this one."""

    released: Releases
    old_value: bytes
    old_released: Releases
    event: tuple[int, int, int]
    cta: int
    scope: int
    stale_readers: set[int] = field(default_factory=set)
    observers: set[int] = field(default_factory=set)


class GlobalHistory:
    """Of one launch, over all of its batches. fences: the clocks of each warp at its proxy fences of global memory."""

    def __init__(self) -> None:
        self.flags: dict[int, Flag] = {}
        self.fences: dict[Warp, list[int]] = {}
        self._writer: Events | None = None
        self._reader: Events | None = None

    def writer(self, size: int) -> Events:
        """The last writers of memory of so many bytes; 0: nobody."""
        if self._writer is None:
            self._writer = zeros(size, np.uint64)
        return self._writer

    def reader(self, size: int) -> Events:
        """The last readers."""
        if self._reader is None:
            self._reader = zeros(size, np.uint64)
        return self._reader

    def has_observed(self, cta: int, byte: int) -> bool:
        """Whether a CTA has seen the last strong store to the flag that a byte belongs to: what it does then comes later."""
        flags = (self.flags.get(place) for place in range(byte, byte - _WIDEST_FLAG, -1))
        return any(cta in flag.observers for flag in flags if flag)

    @property
    def is_written(self) -> bool:
        """Has anything been written?"""
        return self._writer is not None

    @property
    def is_read(self) -> bool:
        """Has memory been read that kernels may write?"""
        return self._reader is not None
