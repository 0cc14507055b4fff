"""What a run found and counted: findings, memory traffic per instruction, and the report that holds them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from posixpath import normpath

import numpy as np

from mmagen.emulate.ptx.model import Instruction, Location

KINDS = (
    "shared_race",
    "cp_async_unwaited",
    "uninitialised_shared",
    "uninitialised_global",
    "uninitialised_register",
    "global_out_of_bounds",
    "shared_out_of_bounds",
    "local_out_of_bounds",
    "read_only",
    "misaligned",
    "barrier_divergence",
    "warp_divergence",
    "global_race",
    "async_race",
    "proxy_fence",
    "wgmma_order",
    "mbarrier",
    "cluster_exit",
    "deadlock",
)
# Headers of libraries: a finding is told at the line of one's own that used them.
_LIBRARIES = ("/cute/", "/cutlass/", "/cuda/", "/cccl/", "/targets/", "/nvvm/", "/crt/")


@dataclass(frozen=True)
class Finding:
    """Something wrong that a right result may hide.

    kind: one of KINDS. file, line: in the CUDA source where the PTX knows it, else in the PTX. instruction: its text.
    thread, cta: the first that did it (linear numbers), -1 where none is to be named. count: how often, all threads.
    """

    kind: str
    message: str
    file: str
    line: int
    instruction: str
    ptx_line: int
    thread: int
    cta: int
    count: int = 1

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.file}:{self.line}: {self.kind}: {self.message}{times} [{self.instruction}]"


@dataclass(frozen=True)
class Traffic:
    """Memory traffic of one instruction or source line, counted over warps.

    space: "shared" (units: passes through the banks) or "global" (units: 32-byte sectors). requests: warp accesses.
    ideal: what the same distinct bytes would take at best.
    """

    space: str
    file: str
    line: int
    instruction: str
    requests: int
    units: int
    ideal: int


@dataclass
class Report:
    """The outcome of a launch. completed: every thread came to its end."""

    entry: str
    ctas: int = 0
    completed: bool = True
    findings: list[Finding] = field(default_factory=list)
    steps: int = 0
    warp_instructions: int = 0
    opcodes: dict[str, int] = field(default_factory=dict)
    traffic: list[Traffic] = field(default_factory=list)

    def by_line(self) -> list[Traffic]:
        """The traffic summed per space and source line, in the order of file and line; instruction is empty."""
        sums: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
        for t in self.traffic:
            for n, value in enumerate((t.requests, t.units, t.ideal)):
                sums[t.file, t.line, t.space][n] += value
        return [Traffic(space, file, line, "", *values) for (file, line, space), values in sorted(sums.items())]


def _short(text: str) -> str:
    """A wgmma names a hundred registers."""
    return text if len(text) <= 160 else f"{text[:120]} ..."


def source_place(instruction: Instruction, ptx_file: str) -> tuple[str, int]:
    """(file, line) to name for an instruction: the innermost frame outside of libraries, else the innermost, else PTX."""
    frames: tuple[Location, ...] = instruction.location.frames() if instruction.location else ()
    frames = tuple(f for f in frames if f.line > 0)
    for frame in frames:
        if not any(part in frame.file for part in _LIBRARIES):
            return normpath(frame.file), frame.line
    return (normpath(frames[0].file), frames[0].line) if frames else (ptx_file, instruction.line)


class Recorder:
    """Collects findings and traffic during a launch; one finding per kind and instruction, with a count."""

    def __init__(self, ptx_file: str, limit: int = 100):
        self.ptx_file = ptx_file
        self.limit = limit
        self._findings: dict[tuple[str, int], list] = {}
        self._traffic: dict[tuple[str, int], list[int]] = {}
        self._instructions: dict[int, Instruction] = {}
        self._cache: dict[tuple, tuple[int, int]] = {}

    def add(self, kind: str, instruction: Instruction, count: int, message: str, thread: int = -1, cta: int = -1) -> None:
        """Notes a finding; only the first message of a kind and instruction is kept."""
        key = (kind, instruction.index)
        if key in self._findings:
            self._findings[key][0] += count
        elif len(self._findings) < self.limit:
            self._findings[key] = [count, message, thread, cta]
            self._instructions[instruction.index] = instruction

    def findings(self) -> list[Finding]:
        """In the order of the instructions."""
        result = []
        for (kind, index), (count, message, thread, cta) in sorted(self._findings.items(), key=lambda x: x[0][1]):
            instruction = self._instructions[index]
            file, line = source_place(instruction, self.ptx_file)
            result.append(Finding(kind, message, file, line, _short(instruction.text), instruction.line, thread, cta, count))
        return result

    def traffic(self) -> list[Traffic]:
        """In the order of the instructions."""
        result = []
        for (space, index), counts in sorted(self._traffic.items(), key=lambda x: x[0][1]):
            instruction = self._instructions[index]
            result.append(Traffic(space, *source_place(instruction, self.ptx_file), instruction.text, *counts))
        return result

    def count_shared(self, i: Instruction, offsets: np.ndarray, active: np.ndarray | None, size: int) -> None:
        """Counts a shared access: offsets int64[warps, n] of `size` bytes each; active bool of that shape, None for all."""
        self._count("shared", i, offsets, active, size, bank_passes)

    def count_global(self, i: Instruction, addresses: np.ndarray, active: np.ndarray | None, size: int) -> None:
        """Counts a global access likewise."""
        self._count("global", i, addresses, active, size, sectors)

    def _count(self, space, i, addresses, active, size, measure) -> None:
        # Both measures repeat every 128 bytes, and kernels repeat their patterns.
        relative = addresses - (addresses.flat[0] & -128)
        key = (space, size, addresses.shape, relative.tobytes(), None if active is None else active.tobytes())
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = measure(addresses.astype(np.int64), active, size)
        warps = len(addresses) if active is None else int(active.any(axis=1).sum())
        sums = self._traffic.setdefault((space, i.index), [0, 0, 0])
        self._instructions[i.index] = i
        for n, value in enumerate((warps, *found)):
            sums[n] += value


def bank_passes(offsets: np.ndarray, active: np.ndarray | None, size: int) -> tuple[int, int]:
    """(passes, ideal passes) of shared accesses through 32 banks of 4 bytes.

    offsets: int64[warps, n], `size` bytes each; active: bool of that shape, or None. Eight bytes are served to half a
    warp at a time, sixteen to a quarter; lanes that want the same word share it.
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


def sectors(addresses: np.ndarray, active: np.ndarray | None, size: int) -> tuple[int, int]:
    """(sectors, ideal sectors) of 32 bytes that global accesses touch, summed over warps; arguments as bank_passes."""
    ordered = np.sort(np.where(True if active is None else active, addresses, -1), axis=1)
    valid = ordered >= 0
    new_address, new_sector = valid.copy(), valid.copy()
    new_address[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    new_sector[:, 1:] &= ordered[:, 1:] >> 5 != ordered[:, :-1] >> 5
    return int(new_sector.sum()), int((-(-new_address.sum(axis=1) * size // 32)).sum())
