"""An entry cut into straight-line blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from mmagen.emulate.ops.emit import WARP_WIDE
from mmagen.emulate.ptx.facts import (
    is_aligned_arrival,
    is_map_copy,
    is_phase_wait,
    is_poll,
    is_warp_barrier,
    member_mask,
    names_members,
)
from mmagen.emulate.ptx.model import Entry, Instruction, Name, Operand, Vector

_STEPS = {
    ("mma",): 8,
    ("wmma",): 8,
    ("wgmma", "mma_async"): 32,
    ("mbarrier",): 8,
    ("bar",): 4,
    ("barrier",): 4,
    ("cp", "async"): 4,
}
_ENDS = ("bra", "brx", "ret", "exit", "trap", "bar", "barrier")


@dataclass(frozen=True)
class Block:
    """Instructions start..stop-1 without `end`, the branch, barrier or exit after them (None: falls into the next one).

    together: lanes, a power of two, of which none may run without the others. members: where the first instruction names the
    lanes that are to run together, the operand with their mask. synchronises: it names lanes, all 32 or others, or is
    an .aligned arrival. registers: where it is setmaxnreg.inc, how many it waits for. polls: begins with reading a flag.
    target: the block that a branch at its end goes to, else -1; targets: those of brx.idx.
    """

    start: int
    stop: int
    body: tuple[Instruction, ...]
    end: Instruction | None
    together: int
    members: Operand | None = None
    synchronises: bool = False
    registers: int = 0
    polls: bool = False
    target: int = -1
    targets: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        return self.stop - self.start

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The body and the end."""
        return (*self.body, *((self.end,) if self.end else ()))

    @cached_property
    def opcodes(self) -> dict[str, int]:
        """How many of its instructions have each name, "ld.global.u32"."""
        return dict(Counter(".".join((i.base, *i.modifiers)) for i in self.instructions))

    @cached_property
    def steps(self) -> int:
        """What it adds to the steps of a thread: 1, and 1 for each instruction or more where it takes longer to emulate."""
        return 1 + sum(_STEPS.get((i.base, *i.modifiers[:1]), _STEPS.get((i.base,), 1)) for i in self.instructions)


def _ends_block(i: Instruction) -> bool:
    """A wait for the phase of an mbarrier ends its block too, so that other lanes can run until the phase completes."""
    return (i.base in _ENDS and not is_warp_barrier(i)) or is_phase_wait(i)


def _lanes_together(i: Instruction) -> int:
    """How many neighbouring lanes must be at an instruction at once: a warp, a warpgroup, or 1."""
    if i.base == "wgmma" and i.modifiers[0] == "mma_async":
        return 128
    if i.base == "setmaxnreg":
        return 128
    return 32 if i.base in WARP_WIDE or is_warp_barrier(i) or is_aligned_arrival(i) or is_map_copy(i) else 1


def _gathered(i: Instruction) -> tuple[int, Operand | None]:
    """(lanes that an instruction needs together, the operand that names them, None where it is all)."""
    return _lanes_together(i), member_mask(i)


def _takes_registers(i: Instruction) -> bool:
    """setmaxnreg.inc waits until the CTA has the registers."""
    return i.base == "setmaxnreg" and i.has("inc")


def cut(entry: Entry) -> dict[int, Block]:
    """The blocks of an entry by their first instruction, and one past the end that is an exit."""
    instructions = entry.instructions
    leaders = {0, *entry.labels.values()}
    nothing: tuple[int, Operand | None] = (1, None)
    gathered = nothing
    for i in instructions:
        if is_poll(i):
            leaders.add(i.index)
        if i.index in leaders:
            gathered = nothing
        # Within a block the active lanes stay the same: only the first warp-wide instruction has to gather its warp.
        lanes, members = _gathered(i)
        if lanes > gathered[0] or (lanes > 1 and gathered[1] not in (None, members)) or _takes_registers(i):
            leaders.add(i.index)
            gathered = lanes, members
        if _ends_block(i):
            leaders.add(i.index + 1)
            gathered = nothing
    ordered = sorted(x for x in leaders if x <= len(instructions))
    blocks = {start: _block(entry, start, stop) for start, stop in zip(ordered, [*ordered[1:], len(instructions)], strict=True)}
    blocks.setdefault(len(instructions), Block(len(instructions), len(instructions), (), None, 1))
    return blocks


def _block(entry: Entry, start: int, stop: int) -> Block:
    body = entry.instructions[start:stop]
    end = body[-1] if body and _ends_block(body[-1]) else None
    target = -1
    if end is not None and end.base == "bra" and isinstance(end.operands[0], Name):
        target = entry.labels[end.operands[0].name]
    targets: tuple[int, ...] = ()
    if end is not None and end.base == "brx" and isinstance(end.operands[-1], Vector):
        targets = tuple(entry.labels[x.name] for x in end.operands[-1].elements if isinstance(x, Name))
    return Block(
        start,
        max(stop, start),
        body[:-1] if end else body,
        end,
        together=_lanes_together(body[0]) if body else 1,
        members=member_mask(body[0]) if body else None,
        synchronises=bool(body) and (names_members(body[0]) or is_aligned_arrival(body[0])),
        registers=int(getattr(body[0].operands[0], "value", 0)) if body and _takes_registers(body[0]) else 0,
        polls=bool(body) and is_poll(body[0]),
        target=target,
        targets=targets,
    )
