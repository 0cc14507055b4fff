"""Notes which ways threads have gone at branches, and how often round loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from mmagen.emulate.arrays import Mask
from mmagen.emulate.exec.blocks import Block
from mmagen.emulate.ptx.facts import is_phase_wait, is_poll
from mmagen.emulate.report.coverage import Coverage, Goal
from mmagen.emulate.report.findings import source_place

_TAKEN, _NOT_TAKEN, _ONCE = 1, 2, 4


class Branches:
    """The branches of an entry of which something is asked. starts: their blocks; loops: those that end with a test."""

    def __init__(self, blocks: Mapping[int, Block], file: str):
        self._blocks, self._file = blocks, file
        asked = [block for block in blocks.values() if block.target >= 0 and not _waits(block, blocks)]
        self.starts = tuple(block.start for block in asked)
        self.loops = tuple(block.start for block in asked if _is_bottom_test(block))

    @cached_property
    def goals(self) -> tuple[tuple[int, int, Goal], ...]:
        """(block, what the goal is noted as, the goal)."""
        found = []
        for start in self.starts:
            end = self._blocks[start].instructions[-1]
            place = source_place(end, self._file)
            found += [(start, bit, Goal(end.line, what, *place)) for what, bit in _asked(self._blocks[start])]
        return tuple(found)


class BranchLog:
    """The branches of one launch."""

    def __init__(self, branches: Branches):
        self._branches = branches
        self._noted = dict.fromkeys(branches.starts, 0)
        # Loops of which no thread is known to have left one after the first iteration: lanes that have begun another.
        self._again: dict[int, Mask | None] = {}
        self.begin()

    def begin(self) -> None:
        """Other CTAs run from here on."""
        self._again = {start: None for start in self._branches.loops if not self._noted[start] & _ONCE}

    def note(self, block: Block, taken: Mask | None, rest: Mask | None) -> None:
        """Lanes at the branch at the end of a block: those that take it, those that go on behind it; None for no lanes."""
        start = block.start
        noted = self._noted.get(start)
        if noted is None:
            return
        self._noted[start] = noted | (0 if taken is None else _TAKEN) | (0 if rest is None else _NOT_TAKEN)
        if start not in self._again:
            return
        again = self._again[start]
        if rest is not None:
            if again is None or (rest & ~again).any():
                self._noted[start] |= _ONCE
                del self._again[start]
                return
            again = again & ~rest
        if taken is not None:
            again = taken if again is None else again | taken
        self._again[start] = again

    def coverage(self, entry: str) -> Coverage:
        """What has been reached in all."""
        goals = self._branches.goals
        missed = frozenset(goal for start, bit, goal in goals if not self._noted[start] & bit)
        return Coverage(entry, tuple(goal for _, _, goal in goals), missed)


def _is_back(block: Block) -> bool:
    return block.target <= block.start


def _is_bottom_test(block: Block) -> bool:
    return _is_back(block) and block.instructions[-1].guard is not None


def _asked(block: Block) -> Iterator[tuple[str, int]]:
    """The goals of a branch, and what they are noted as."""
    conditional = block.instructions[-1].guard is not None
    if _is_back(block):
        yield "again", _TAKEN
        if conditional:
            yield "once", _ONCE
    elif conditional:
        yield "taken", _TAKEN
        yield "not taken", _NOT_TAKEN


def _waits(block: Block, blocks: Mapping[int, Block]) -> bool:
    """Is it the end of a loop that holds no other loop, and in which threads wait for others?"""
    if not _is_back(block):
        return False
    body = [one for start, one in blocks.items() if block.target <= start <= block.start]
    inner = any(one.target >= 0 and _is_back(one) and one is not block for one in body)
    return not inner and any(is_phase_wait(i) or is_poll(i) for one in body for i in one.instructions)
