"""Which registers an entry may read before it writes them, and which ones no block reads before it writes them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from mmagen.emulate.exec.blocks import Block
from mmagen.emulate.ptx.model import Entry


def unwritten_reads(entry: Entry, blocks: dict[int, Block], unused: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """Registers that some path reads before it writes them: only those need to be watched while running. unused: reads that do
    not count (unused.py)."""
    count = len(entry.registers)
    everything = (1 << count) - 1
    before = dict.fromkeys(blocks, everything)
    before[0] = 0
    order, waiting = sorted(blocks), [0]
    following = dict(pairwise(order))
    suspects = 0
    effects = {start: _effect(block) for start, block in blocks.items()}
    visited: set[int] = set()
    while waiting:
        start = waiting.pop()
        visited.add(start)
        block = blocks[start]
        after = before[start] | effects[start]
        for successor in successors(block, following):
            merged = before[successor] & after
            if merged != before[successor] or successor not in visited:
                before[successor] = merged
                waiting.append(successor)
    for start in visited:
        suspects |= _reads_of(blocks[start], before[start], unused)
    return frozenset(index for index in range(count) if suspects >> index & 1)


def block_registers(entry: Entry, blocks: Mapping[int, Block]) -> frozenset[int]:
    """Registers that each block which reads them writes before, for all lanes that run it. What the lanes that are elsewhere hold
    in them does not matter. The end of a block may read them, but not write them."""
    others: set[int] = set()
    for block in blocks.values():
        written: set[int] = set()
        for i in block.instructions:
            reads, writes = ({x.index for x in registers} for registers in i.registers)
            others |= reads - written
            if i.guard is None and i is not block.end:
                written |= writes
            others |= writes - written
    return frozenset(range(len(entry.registers))) - others


def successors(block: Block, following: dict[int, int]) -> list[int]:
    """The blocks that may be run after a block. following: block -> the one that comes next in the text."""
    end = block.end
    found = [block.target] if block.target >= 0 else list(block.targets)
    leaves = end is not None and end.base in ("bra", "ret", "exit", "trap", "brx") and end.guard is None
    if not leaves and block.start in following:
        found.append(following[block.start])
    return found


def past(blocks: dict[int, Block], start: int) -> frozenset[int]:
    """The blocks that may be run after a block and never before it, without those that only end their threads."""
    following = dict(pairwise(sorted(blocks)))
    after = {number: successors(block, following) for number, block in blocks.items()}
    before: dict[int, list[int]] = {number: [] for number in blocks}
    for number, successors_of in after.items():
        for successor in successors_of:
            before[successor].append(number)
    behind = _reachable(after, start) - _reachable(before, start) - {start}
    return frozenset(x for x in behind if blocks[x].body)


def _reachable(after: dict[int, list[int]], start: int) -> set[int]:
    found: set[int] = set()
    waiting = list(after[start])
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += after[block]
    return found


def _effect(block: Block) -> int:
    """Bits of the registers that the block surely writes."""
    written = 0
    for i in block.body:
        if i.guard is None:
            for register in i.registers[1]:
                written |= 1 << register.index
    return written


def _reads_of(block: Block, written: int, unused: Mapping[int, frozenset[int]]) -> int:
    """Bits of the registers that the block may read unwritten."""
    suspects = 0
    for i in (*block.body, *((block.end,) if block.end else ())):
        reads, writes = i.registers
        for register in reads:
            if not written >> register.index & 1 and register.index not in unused.get(i.index, ()):
                suspects |= 1 << register.index
        if i.guard is None:
            for register in writes:
                written |= 1 << register.index
    return suspects
