"""What a run found: kinds, findings, and the log that collects them during a launch."""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import normpath

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
    "grid_dependency",
    "deadlock",
    "member_mask",
    "undefined_value",
    "register_count",
    "cache_policy",
    "assertion",
    "trap",
    "endless_loop",
    "time_limit",
    "unused_prefetch",
)
# Headers of libraries: a finding is reported at the line of the user's code that used them.
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


def _short(text: str) -> str:
    """A wgmma names a hundred registers."""
    return text if len(text) <= 160 else f"{text[:120]} ..."


def _frames(instruction: Instruction) -> tuple[Location, ...]:
    frames = instruction.location.frames() if instruction.location else ()
    return tuple(frame for frame in frames if frame.line > 0)


def own_frames(instruction: Instruction) -> tuple[Location, ...]:
    """The place of an instruction and the calls that led to it, innermost first, without those in libraries."""
    return tuple(frame for frame in _frames(instruction) if not any(part in frame.file for part in _LIBRARIES))


def source_place(instruction: Instruction, ptx_file: str) -> tuple[str, int]:
    """(file, line) to name for an instruction: the innermost frame outside of libraries, else the innermost, else PTX."""
    for frame in own_frames(instruction):
        return normpath(frame.file), frame.line
    frames = _frames(instruction)
    return (normpath(frames[0].file), frames[0].line) if frames else (ptx_file, instruction.line)


@dataclass
class _Entry:
    """The findings of one kind at one instruction: the first message, and how often."""

    instruction: Instruction
    message: str
    thread: int
    cta: int
    count: int


class FindingLog:
    """Collects the findings of a launch; one per kind and instruction, with a count."""

    def __init__(self, ptx_file: str, limit: int = 100):
        self._ptx_file = ptx_file
        self._limit = limit
        self._entries: dict[tuple[str, int], _Entry] = {}

    def add(self, kind: str, instruction: Instruction, count: int, message: str, thread: int = -1, cta: int = -1) -> None:
        """Notes a finding; only the first message of a kind and instruction is kept."""
        key = (kind, instruction.index)
        if key in self._entries:
            self._entries[key].count += count
        elif len(self._entries) < self._limit:
            self._entries[key] = _Entry(instruction, message, thread, cta, count)

    def findings(self) -> list[Finding]:
        """In the order of the instructions."""
        return [self._finding(kind, entry) for (kind, _), entry in sorted(self._entries.items(), key=lambda x: x[0][1])]

    def _finding(self, kind: str, entry: _Entry) -> Finding:
        i = entry.instruction
        file, line = source_place(i, self._ptx_file)
        return Finding(kind, entry.message, file, line, _short(i.text), i.line, entry.thread, entry.cta, entry.count)
