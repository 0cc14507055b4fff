"""Which registers an entry may read before it writes them, and which ones no block reads before it writes them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from mmagen.emulate.exec.blocks import Block
from mmagen.emulate.ptx.model import Entry, Instruction, Register, Vector


def unused_parts(entry: Entry) -> dict[int, frozenset[int]]:
    """Of each `mov` that packs registers into a wider one: its index -> the registers packed whose bits no instruction reads.

    Where a program uses one half of a value only, nvcc packs a register that nothing writes as the other half: `mov.b64 %rd1,
    {%r1, %r2};` and, as the only read of %rd1, `mov.b64 {tmp, %r3}, %rd1;` with a `tmp` that nothing reads.
    """
    packs = [i for i in entry.instructions if i.base == "mov" and len(i.operands) == 2 and isinstance(i.operands[1], Vector)]
    if not packs:
        return {}
    readers: dict[int, list[Instruction]] = {}
    for i in entry.instructions:
        for register in i.registers[0]:
            readers.setdefault(register.index, []).append(i)
    found: dict[int, frozenset[int]] = {}
    for pack in packs:
        target, packed = pack.operands
        if not isinstance(target, Register) or not isinstance(packed, Vector):
            continue
        used = {n for i in readers.get(target.index, ()) for n in range(len(packed.elements)) if _reads_part(i, n, readers)}
        read = {x.index for n, x in enumerate(packed.elements) if n in used and isinstance(x, Register)}
        unused = frozenset(x.index for x in packed.elements if isinstance(x, Register)) - read
        if unused:
            found[pack.index] = unused
    return found


def _reads_part(i: Instruction, part: int, readers: Mapping[int, list[Instruction]]) -> bool:
    """Does an instruction that reads a packed register read this part of it, as far as is seen from the instruction?"""
    if i.base != "mov" or not isinstance(i.operands[0], Vector) or i.guard is not None:
        return True
    to = i.operands[0].elements[part] if part < len(i.operands[0].elements) else None
    return not isinstance(to, Register) or to.index in readers


def unwritten_reads(entry: Entry, blocks: dict[int, Block], unused: Mapping[int, frozenset[int]]) -> frozenset[int]:
    """Registers that some path reads before it writes them: only those need to be watched while running. unused: reads that do
    not count (unused_parts)."""
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
