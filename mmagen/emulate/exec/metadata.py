"""Registers of sparse wgmmas' metadata that ptxas may use for something else while the wgmma reads them.

wgmma reads this register until its group was waited for. ptxas (CUDA 13.0) does not know: to it the register is free where no
instruction behind the wgmma reads it. So something must read it after the wait, unless there is nothing between the group
and its wait for which ptxas could use the register. A register that a mov copied it to is taken for the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from mmagen.emulate.exec.blocks import Block
from mmagen.emulate.exec.dataflow import successors
from mmagen.emulate.ops.wgmma import move_of, registers_of
from mmagen.emulate.ptx.model import Entry, Immediate, Instruction

InFlight = frozenset[tuple[int, int]]
"""(index of a wgmma, how many groups were committed since, its own included), of all paths."""

_MOST_GROUPS = 8  # that are told apart: a wait for fewer groups is a wait for all older ones


def unkept(entry: Entry, blocks: dict[int, Block]) -> dict[int, dict[int, int]]:
    """Index of a wait -> {index of a sparse wgmma that it waits for: the register of metadata that nothing reads afterwards}."""
    metadata = dict(_metadata(entry))
    if not metadata:
        return {}
    names = {register: _copies(entry, register) for register in set(metadata.values())}
    watched = frozenset[int]().union(*names.values())
    live = _live(blocks, watched)
    found: dict[int, dict[int, int]] = {}
    for start, in_flight in _in_flight(blocks, frozenset(metadata)).items():
        for i, state in _through(blocks[start], in_flight, frozenset(metadata)):
            if not _waits(i):
                continue
            after = _live_after(blocks[start], live[start], i.index, watched)
            for wgmma, groups in sorted(state):
                at_once = groups == 1 and _commits(entry.instructions[i.index - 1])
                if groups > _most(i) and not at_once and not names[metadata[wgmma]] & after:
                    found.setdefault(i.index, {})[wgmma] = metadata[wgmma]
    return found


def _metadata(entry: Entry) -> Iterator[tuple[int, int]]:
    for i in entry.instructions:
        if i.base == "wgmma" and i.has("mma_async"):
            for register in registers_of(i)[2]:
                yield i.index, register


def _copies(entry: Entry, register: int) -> frozenset[int]:
    """A register and those that movs copy it to."""
    found, before = {register}, 0
    moves = [move for move in map(move_of, entry.instructions) if move[0] >= 0]
    while len(found) != before:
        before = len(found)
        found.update(target for source, target in moves if source in found)
    return frozenset(found)


# What is in flight


def _waits(i: Instruction) -> bool:
    return i.base == "wgmma" and i.has("wait_group")


def _commits(i: Instruction) -> bool:
    return i.base == "wgmma" and i.has("commit_group")


def _most(i: Instruction) -> int:
    """How many groups a wait leaves in flight."""
    (newest,) = i.operands
    return int(newest.value) if isinstance(newest, Immediate) else 0


def _through(block: Block, in_flight: InFlight, sparse: frozenset[int]) -> Iterator[tuple[Instruction, InFlight]]:
    """Each instruction of a block, with what may be in flight before it."""
    for i in block.body:
        yield i, in_flight
        in_flight = _after(i, in_flight, sparse)


def _after(i: Instruction, in_flight: InFlight, sparse: frozenset[int]) -> InFlight:
    if i.index in sparse:
        return in_flight | {(i.index, 0)}
    if _commits(i):
        return frozenset((one, min(groups + 1, _MOST_GROUPS)) for one, groups in in_flight)
    if _waits(i):
        return frozenset((one, groups) for one, groups in in_flight if groups <= _most(i))
    return in_flight


def _in_flight(blocks: dict[int, Block], sparse: frozenset[int]) -> Mapping[int, InFlight]:
    """What may be in flight where a block begins."""
    following = dict(pairwise(sorted(blocks)))
    before: dict[int, InFlight] = {0: frozenset()}
    waiting = [0]
    while waiting:
        start = waiting.pop()
        state = before[start]
        for i in blocks[start].body:
            state = _after(i, state, sparse)
        for successor in successors(blocks[start], following):
            if successor not in before or not state <= before[successor]:
                before[successor] = before.get(successor, frozenset()) | state
                waiting.append(successor)
    return before


# What is read later


def _before(i: Instruction, live: frozenset[int], watched: frozenset[int]) -> frozenset[int]:
    """What is live before an instruction, of the registers that are watched; live: after it."""
    reads, writes = (frozenset(register.index for register in registers) for registers in i.registers)
    return (live if i.guard is not None else live - writes) | reads & watched


def _live(blocks: dict[int, Block], watched: frozenset[int]) -> dict[int, frozenset[int]]:
    """What is live where a block ends."""
    following = dict(pairwise(sorted(blocks)))
    after = {start: successors(block, following) for start, block in blocks.items()}
    at_start: dict[int, frozenset[int]] = dict.fromkeys(blocks, frozenset())
    changed = True
    while changed:
        changed = False
        for start in sorted(blocks, reverse=True):
            live = frozenset[int]().union(*(at_start[successor] for successor in after[start]))
            for i in reversed(_all_of(blocks[start])):
                live = _before(i, live, watched)
            changed = changed or live != at_start[start]
            at_start[start] = live
    return {start: frozenset[int]().union(*(at_start[one] for one in after[start])) for start in blocks}


def _live_after(block: Block, at_end: frozenset[int], index: int, watched: frozenset[int]) -> frozenset[int]:
    """What is live behind an instruction of a block. at_end: where the block ends."""
    live = at_end
    for i in reversed(_all_of(block)):
        if i.index == index:
            break
        live = _before(i, live, watched)
    return live


def _all_of(block: Block) -> tuple[Instruction, ...]:
    return (*block.body, block.end) if block.end else block.body
