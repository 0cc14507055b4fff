"""Kernels that do not end: how many steps a thread may take, how long a launch may last, and which loop is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from math import inf
from time import monotonic

import numpy as np

from mmagen.emulate.arrays import Mask
from mmagen.emulate.batch import Batch
from mmagen.emulate.exec.blocks import Block
from mmagen.emulate.ptx.facts import is_phase_wait, is_poll
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.findings import own_frames, source_place

_CHECK_EVERY = 256  # runs of blocks between two looks at the counts
_TURN = 64  # runs of blocks before other lanes get a turn, while lanes are counted
_MOST_PLACES = 8


@dataclass(frozen=True)
class Limits:
    """steps: that one thread may take; see `Block.steps`. until: of time.monotonic(). seconds: what `until` was made from."""

    steps: int
    until: float = inf
    seconds: float = inf

    @classmethod
    def of(cls, steps: int, seconds: float | None) -> Limits:
        return cls(steps) if seconds is None else cls(steps, monotonic() + seconds, seconds)


class Stopped(Exception):
    """The limit of steps or of time is exceeded; the findings say where."""


class Watch:
    """Counts the steps of each lane of a batch, once all of them together have taken half of what one may.

    While it counts, lanes take turns: those that wait in a loop for others must not keep these from running.
    """

    def __init__(self, batch: Batch, blocks: dict[int, Block], limits: Limits):
        self._batch, self._blocks, self._limits = batch, blocks, limits
        self._counts = np.zeros(batch.lanes.size, dtype=np.int64)
        self._seen: dict[int, Mask] = {}  # block -> lanes that ran it since half of the limit
        self._half = False
        self._runs = 0

    def count(self, block: Block, mask: Mask) -> None:
        """Lanes are about to run a block. Raises Stopped, with a finding, where one has exceeded the limit."""
        self._counts[mask] += block.steps
        self._seen[block.start] = self._seen[block.start] | mask if block.start in self._seen else mask
        self._runs += 1
        if self._runs % _CHECK_EVERY:
            return
        most = int(self._counts.max())
        if not self._half and 2 * most > self._limits.steps:
            self._half = True
            self._seen.clear()
        elif most > self._limits.steps:
            self._report(int(self._counts.argmax()))
            raise Stopped

    @property
    def turn_ends(self) -> bool:
        """Is it time for lanes that only run when no other can?"""
        return self._runs % _TURN == 0

    def in_turn(self, starts: list[int]) -> list[int]:
        """Blocks that lanes are about to run, in the order in which they may."""
        first = self._runs // _TURN % len(starts) if starts else 0
        return starts[first:] + starts[:first]

    def _report(self, lane: int) -> None:
        loop = [self._blocks[start] for start, mask in sorted(self._seen.items()) if mask[lane]]
        inside = np.logical_or.reduce([self._seen[block.start] for block in loop]) & self._batch.lanes.live
        back = _widest(loop)
        instructions = [i for block in loop for i in block.instructions]
        place = _placer(self._batch)
        others = int(inside.sum()) - 1
        text = f"and {others} other threads do" if others else "does"
        text += (
            f" not leave the loop at {_ranges(map(place, instructions))}{_callers(back)} within {self._limits.steps:,} steps"
        )
        waits = dict.fromkeys(f"{what} at {_spelled(*place(i))}" for i in instructions if (what := _waiting(i)))
        text += f"; in it they {', '.join([*waits][:_MOST_PLACES])}" if waits else ""
        text += self._others(inside)
        self._batch.findings.add("endless_loop", back, int(inside.sum()), lane, text)

    def _others(self, inside: Mask) -> str:
        """The threads that have not ended and are not in the loop, and what they wait for."""
        outside = self._batch.lanes.live & ~inside
        if not outside.any():
            return ""
        place = _placer(self._batch)
        waits = [(place(wait.instruction), int(outside[wait.lanes].sum())) for wait in self._batch.mbarriers.waits]
        text = f"; {int(outside.sum())} threads outside of it have not ended"
        sums: dict[tuple[str, int], int] = {}
        for where, count in waits:
            sums[where] = sums.get(where, 0) + count
        known = [f"{count} wait for an mbarrier at {_spelled(*where)}" for where, count in sums.items() if count]
        return f"{text}: {', '.join(known[:_MOST_PLACES])}" if known else text


def report_late(batch: Batch, block: Block, mask: Mask, limits: Limits) -> None:
    """Notes that the time is over while these lanes were about to run a block."""
    lane = int(np.flatnonzero(mask)[0])
    text = f"is here after {limits.seconds:g} s, the time limit; {int(batch.lanes.live.sum())} threads have not ended"
    batch.findings.add("time_limit", block.instructions[0], int(mask.sum()), lane, text)


def _widest(loop: list[Block]) -> Instruction:
    """The branch back that spans most of a loop's blocks; their last instruction where none does."""
    starts = {block.start for block in loop}
    back = [block for block in loop if block.end and block.target in starts and block.target <= block.start]
    if not back:
        return loop[-1].instructions[-1]
    return max(back, key=lambda block: block.stop - block.target).instructions[-1]


def _callers(i: Instruction) -> str:
    """The calls that led to an instruction that was inlined, or ""."""
    spelled = dict.fromkeys(_spelled(frame.file, frame.line) for frame in own_frames(i)[1:])
    return f" (called at {', '.join(spelled)})" if spelled else ""


def _waiting(i: Instruction) -> str:
    """What a thread does that waits at an instruction, or ""."""
    if is_phase_wait(i):
        return "wait for an mbarrier"
    if is_poll(i):
        return "read a flag"
    if i.base in ("bar", "barrier") and not i.has("arrive"):
        return "wait at a barrier"
    return "use an atomic operation" if i.base == "atom" else ""


def _placer(batch: Batch) -> Callable[[Instruction], tuple[str, int]]:
    file = batch.program.module.file
    return lambda i: source_place(i, file)


def _spelled(file: str, line: int) -> str:
    return f"{file.rsplit('/', 1)[-1]}:{line}"


def _ranges(places: Iterable[tuple[str, int]]) -> str:
    """`a.cuh:12-15, b.cuh:7` for places in files; lines with at most two others between them are joined."""
    spelled = []
    known = set(places)
    # The debug information of some instructions names no line of the source.
    for file, group in groupby(
        sorted({place for place in known if not place[0].endswith(".ptx")} or known), key=lambda place: place[0]
    ):
        ranges: list[list[int]] = []
        for _, line in group:
            if ranges and line - ranges[-1][1] <= 3:
                ranges[-1][1] = line
            else:
                ranges.append([line, line])
        spelled += [f"{_spelled(file, first)}{f'-{last}' if last > first else ''}" for first, last in ranges]
    more = f" and {len(spelled) - _MOST_PLACES} other places" if len(spelled) > _MOST_PLACES else ""
    return ", ".join(spelled[:_MOST_PLACES]) + more
