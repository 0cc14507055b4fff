"""Memory traffic: bank conflicts in shared memory and 32-byte sectors of global memory, counted per instruction.

Accesses of threads ("shared") are counted as Nsight Compute counts them. Those of wgmma and TMA are models that were not
measured: Nsight Compute has no such counter for them.

- "wgmma": an operand in shared memory is read once, core matrix by core matrix: 8 rows of 16 bytes (PTX ISA, "Asynchronous
  warpgroup level matrix operation", canonical layouts), which take one pass if their 128 bytes lie in 32 different banks. In
  every layout that a descriptor can state they do; passes beyond that show rows which a descriptor puts on top of each other.
- "tma": a box is written or read line by line, each of the inner extent of the box, in passes of 128 bytes; so boxes with lines
  of less than 128 bytes, as without swizzle, use a part of the banks. The bytes of one line never conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Indices, Mask
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.findings import source_place

Measure = Callable[[Indices, Mask | None, int], tuple[int, int]]


@dataclass(frozen=True)
class Traffic:
    """Memory traffic of one instruction or source line, counted over warps.

    space: "shared", "wgmma" or "tma" (units: passes through the banks) or "global" (units: 32-byte sectors). requests: warp
    accesses, core matrices, lines of boxes. ideal: what the same distinct bytes would take at best.
    """

    space: str
    file: str
    line: int
    instruction: str
    requests: int
    units: int
    ideal: int


class TrafficCounter:
    """Counts the traffic of a launch."""

    def __init__(self, ptx_file: str) -> None:
        self._ptx_file = ptx_file
        self._sums: dict[tuple[str, int], list[int]] = {}
        self._instructions: dict[int, Instruction] = {}
        self._measured: dict[tuple[object, ...], tuple[int, int]] = {}

    def traffic(self) -> list[Traffic]:
        """In the order of the instructions."""
        result = []
        for (space, index), (requests, units, ideal) in sorted(self._sums.items(), key=lambda x: x[0][1]):
            i = self._instructions[index]
            file, line = source_place(i, self._ptx_file)
            result.append(Traffic(space, file, line, i.text, requests, units, ideal))
        return result

    def count_shared(self, i: Instruction, offsets: Indices, active: Mask | None, size: int) -> None:
        """Counts a shared access: offsets int64[warps, n] of `size` bytes each; active bool of that shape, None for all."""
        self._count("shared", i, offsets, active, size, bank_passes)

    def count_core_matrices(self, i: Instruction, offsets: Indices) -> None:
        """Counts the reads of core matrices by wgmma: int64[matrices, 8], 16 bytes each."""
        self._count("wgmma", i, offsets, None, 16, bank_passes)

    def count_box(self, i: Instruction, size: int, inner: int) -> None:
        """Counts a box of `size` bytes in lines of `inner` bytes."""
        lines = size // inner
        self._add("tma", i, lines, lines * -(-inner // 128), -(-size // 128))

    def count_global(self, i: Instruction, addresses: Indices, active: Mask | None, size: int) -> None:
        """Counts a global access; arguments as for count_shared."""
        self._count("global", i, addresses, active, size, sectors)

    def _count(self, space: str, i: Instruction, addresses: Indices, active: Mask | None, size: int, measure: Measure) -> None:
        # Both measures repeat every 128 bytes, and kernels repeat their patterns.
        relative = addresses - (addresses.flat[0] & -128)
        key = (space, size, addresses.shape, relative.tobytes(), None if active is None else active.tobytes())
        found = self._measured.get(key)
        if found is None:
            found = self._measured[key] = measure(addresses.astype(np.int64), active, size)
        warps = len(addresses) if active is None else int(active.any(axis=1).sum())
        self._add(space, i, warps, *found)

    def _add(self, space: str, i: Instruction, requests: int, units: int, ideal: int) -> None:
        sums = self._sums.setdefault((space, i.index), [0, 0, 0])
        self._instructions[i.index] = i
        for n, value in enumerate((requests, units, ideal)):
            sums[n] += value


def bank_passes(offsets: Indices, active: Mask | None, size: int) -> tuple[int, int]:
    """(passes, ideal passes) of shared accesses through 32 banks of 4 bytes.

    offsets: int64[warps, n], `size` bytes each; active: bool of that shape, or None. Eight bytes are served to half a
    warp at a time, sixteen to a quarter; lanes that access the same word share it.
    """
    together = min(offsets.shape[1], {8: 16, 16: 8}.get(size, 32))
    words = np.where(True if active is None else active, offsets >> 2, -1).reshape(-1, together)
    if size > 4:
        words = np.where(words[..., None] < 0, -1, words[..., None] + np.arange(size // 4)).reshape(len(words), -1)
    words = np.sort(words, axis=1)
    distinct = words >= 0
    distinct[:, 1:] &= words[:, 1:] != words[:, :-1]
    rows = np.nonzero(distinct)[0]
    per_bank = np.bincount(rows * 32 + (words[distinct] & 31), minlength=32 * len(words)).reshape(-1, 32)
    return int(per_bank.max(axis=1).sum()), int((-(-distinct.sum(axis=1) // 32)).sum())


def sectors(addresses: Indices, active: Mask | None, size: int) -> tuple[int, int]:
    """(sectors, ideal sectors) of 32 bytes that global accesses touch, summed over warps; arguments as bank_passes."""
    ordered = np.sort(np.where(True if active is None else active, addresses, -1), axis=1)
    valid = ordered >= 0
    new_address, new_sector = valid.copy(), valid.copy()
    new_address[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    new_sector[:, 1:] &= ordered[:, 1:] >> 5 != ordered[:, :-1] >> 5
    return int(new_sector.sum()), int((-(-new_address.sum(axis=1) * size // 32)).sum())
