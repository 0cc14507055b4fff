"""An entry cut into straight-line blocks, each compiled to Python when it is first run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mmagen.emulate.errors import EmulationError
from mmagen.emulate.ops.emit import OPS, WARP_WIDE, Emitter
from mmagen.emulate.ops.wgmma import flying_registers, watch_registers
from mmagen.emulate.program.program import Places, space_of
from mmagen.emulate.ptx.model import Entry, Instruction

_ENDS = ("bra", "brx", "ret", "exit", "trap", "bar", "barrier")
_WAITS = ("test_wait", "try_wait")


@dataclass
class Block:
    """Instructions start..stop-1 without `end`, the branch, barrier or exit after them (None: falls into the next one).

    together: lanes, a power of two, of which none may run without the others. polls: begins with reading a flag.
    """

    start: int
    stop: int
    body: tuple[Instruction, ...]
    end: Instruction | None
    together: int
    polls: bool = False
    target: int = -1
    runs: list = field(default_factory=lambda: [None, None])

    @property
    def length(self) -> int:
        return self.stop - self.start


def is_warp_barrier(i: Instruction) -> bool:
    """bar.warp.sync, which orders the lanes of a warp only."""
    return i.base in ("bar", "barrier") and bool(i.modifiers) and i.modifiers[0] == "warp"


def _ends_block(i: Instruction) -> bool:
    return (i.base in _ENDS and not is_warp_barrier(i)) or is_phase_wait(i)


def is_phase_wait(i: Instruction) -> bool:
    """A wait for the phase of an mbarrier: it ends its block, so that others can run until the phase ends."""
    return i.base == "mbarrier" and i.modifiers[0] in _WAITS


def is_poll(i: Instruction) -> bool:
    """A load from global memory that other threads may be writing to: in a loop, it waits for them."""
    return i.base == "ld" and any(map(i.has, ("acquire", "relaxed", "volatile"))) and space_of(i) in ("global", "generic")


def _lanes_together(i: Instruction) -> int:
    """How many neighbouring lanes must be at an instruction at once: a warp, a warpgroup, or 1."""
    if i.base == "wgmma" and i.modifiers[0] == "mma_async":
        return 128
    return 32 if i.base in WARP_WIDE or is_warp_barrier(i) else 1


def cut(entry: Entry) -> dict[int, Block]:
    """The blocks of an entry by their first instruction, and one past the end that is an exit."""
    instructions = entry.instructions
    leaders = {0, *entry.labels.values()}
    gathered = 1
    for i in instructions:
        if is_poll(i):
            leaders.add(i.index)
        if i.index in leaders:
            gathered = 1
        # Within a block the active lanes stay the same: only the first warp-wide instruction has to gather its warp.
        if _lanes_together(i) > gathered:
            leaders.add(i.index)
            gathered = _lanes_together(i)
        if _ends_block(i):
            leaders.add(i.index + 1)
            gathered = 1
    ordered = sorted(x for x in leaders if x <= len(instructions))
    blocks = {}
    for start, stop in zip(ordered, [*ordered[1:], len(instructions)]):
        body = instructions[start:stop]
        end = body[-1] if body and _ends_block(body[-1]) else None
        together = _lanes_together(body[0]) if body else 1
        block = Block(start, max(stop, start), body[:-1] if end else body, end, together, bool(body) and is_poll(body[0]))
        if end is not None and end.base == "bra":
            block.target = entry.labels[end.operands[0].name]
        blocks[start] = block
    blocks.setdefault(len(instructions), Block(len(instructions), len(instructions), (), None, 1))
    return blocks


def unwritten_reads(entry: Entry, blocks: dict[int, Block]) -> frozenset[int]:
    """Registers that some path reads before it writes them: only those need to be watched while running."""
    count = len(entry.registers)
    everything = (1 << count) - 1
    before = dict.fromkeys(blocks, everything)
    before[0] = 0
    order, waiting = sorted(blocks), [0]
    following = {a: b for a, b in zip(order, order[1:])}
    suspects = 0
    effects = {start: _effect(block) for start, block in blocks.items()}
    visited: set[int] = set()
    while waiting:
        start = waiting.pop()
        visited.add(start)
        block = blocks[start]
        after = before[start] | effects[start]
        for successor in _successors(block, following):
            merged = before[successor] & after
            if merged != before[successor] or successor not in visited:
                before[successor] = merged
                waiting.append(successor)
    for start in visited:
        suspects |= _reads_of(blocks[start], before[start])
    return frozenset(index for index in range(count) if suspects >> index & 1)


def _successors(block: Block, following: dict[int, int]) -> list[int]:
    end = block.end
    successors = [block.target] if block.target >= 0 else []
    leaves = end is not None and end.base in ("bra", "ret", "exit", "trap", "brx") and end.guard is None
    if not leaves and block.start in following:
        successors.append(following[block.start])
    return successors


def _effect(block: Block) -> int:
    """Bits of the registers that the block surely writes."""
    written = 0
    for i in block.body:
        if i.guard is None:
            for register in i.registers[1]:
                written |= 1 << register.index
    return written


def _reads_of(block: Block, written: int) -> int:
    """Bits of the registers that the block may read unwritten."""
    suspects = 0
    for i in (*block.body, *((block.end,) if block.end else ())):
        reads, writes = i.registers
        for register in reads:
            if not written >> register.index & 1:
                suspects |= 1 << register.index
        if i.guard is None:
            for register in writes:
                written |= 1 << register.index
    return suspects


class Compiled:
    """An entry's blocks and what they were compiled to so far; launches of the same entry share it."""

    def __init__(self, entry: Entry, file: str, places: Places, checks: bool):
        self.file = file
        self.blocks = cut(entry)
        order = sorted(self.blocks)
        self.next = dict(zip(order, order[1:]))
        self.tracked = unwritten_reads(entry, self.blocks) if checks else frozenset()
        self._emitter = Emitter(places.place_of, places.special, self.tracked)
        self._flying = flying_registers(entry) if checks else frozenset()

    def function(self, block: Block, full: bool) -> Callable:
        """What runs a block's body; full: as in `compile_block`."""
        if block.runs[full] is None:
            block.runs[full] = compile_block(block, self._emitter, full, self.file, self._flying)
        return block.runs[full]


def compile_block(block: Block, emitter: Emitter, full: bool, file: str, flying: frozenset[int] = frozenset()) -> Callable:
    """The function `run(R, m, X)` of a block: registers, mask of the active lanes (None: all), batch.

    full: the active lanes are all that still run, so results need no mask. flying: registers that wgmmas may be changing.
    Raises EmulationError with file and line for an instruction that is not supported.
    """
    emitter.lines = []
    for i in block.body:
        emitter.begin(i, full)
        try:
            if flying:
                watch_registers(emitter, i, flying)
            OPS.get(i.base, _unknown)(emitter, i)
        except EmulationError as error:
            _refuse(emitter, f"{file}:{i.line}: {error}: {i.text}")
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, StopIteration):
            # Builders take the forms that exist for granted; a text that was edited may hold others.
            _refuse(emitter, f"{file}:{i.line}: this form of the instruction is not supported: {i.text}")
    source = "def run(R, m, X):\n" + "\n".join(emitter.lines or ["  pass"]) + "\n"
    exec(compile(source, f"<block {block.start}>", "exec"), emitter.namespace)
    return emitter.namespace["run"]


def _unknown(emitter: Emitter, i: Instruction) -> None:
    raise emitter.unsupported("this instruction is not supported")


def _refuse(emitter: Emitter, message: str) -> None:
    """An error at execution, not now: the instruction may never be reached."""
    emitter.line(f"X.refuse({emitter.bind(message)})")
