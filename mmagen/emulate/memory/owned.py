"""Shared and local memory: what each CTA or each thread has for itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Indices, Values
from mmagen.emulate.memory.global_memory import GlobalMemory
from mmagen.emulate.memory.spaces import UNSIGNED


class OwnedMemory:
    """Memory of which each CTA (shared) or each thread (local) has `size` bytes of its own, addressed from 0.

    owner: int64[lanes], which of the `count` blocks a lane uses. stride: bytes from one block to the next.
    """

    def __init__(self, size: int, count: int, owner: Indices):
        self.size = size
        self.stride = -(-max(size, 1) // 128) * 128
        self.bytes = np.zeros(self.stride * count, dtype=np.uint8)
        self.base: Indices = owner.astype(np.int64) * self.stride

    def gather(self, index: Indices, width: int, count: int) -> Values:
        """[n, count] elements of `width` bytes at byte positions `index`, which are aligned to width * count."""
        elements: Values = self.bytes.view(UNSIGNED[width]).reshape(-1, count)
        return elements[index // (width * count)]

    def scatter(self, index: Indices, values: Values) -> None:
        """Writes [n, count] elements at byte positions `index`; of several to one position the last one stays."""
        count, width = values.shape[1], values.dtype.itemsize
        self.bytes.view(UNSIGNED[width]).reshape(-1, count)[index // (width * count)] = values


@dataclass(frozen=True)
class BatchMemory:
    """All that the threads of one batch can address. params: the parameter block."""

    device: GlobalMemory
    shared: OwnedMemory
    local: OwnedMemory
    params: bytes
