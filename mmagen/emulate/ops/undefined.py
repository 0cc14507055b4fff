"""Follows values through the registers of an entry that it may hold and not use; see lanes/undefined.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mmagen.emulate.arrays import Mask, Registers
from mmagen.emulate.batch import Batch
from mmagen.emulate.ops.emit import Emitter
from mmagen.emulate.ptx.model import Instruction, Negated, Register


def guard_undefined(e: Emitter, i: Instruction, reached: frozenset[int]) -> None:
    """Emits what an undefined predicate in front of an instruction does; before the instruction is begun."""
    register = i.guard.register if isinstance(i.guard, Negated) else i.guard
    if register is None or register.index not in reached:
        return
    writes = tuple(x.index for x in i.registers[1] if x.index in reached)
    e.begin(replace(i, guard=None), e.full)
    e.line(f"if X.undefined.any: X.undefined.guard({e.bind(i)}, m, {register.index}, {writes})")


def follow_undefined(e: Emitter, i: Instruction, reached: frozenset[int]) -> None:
    """Emits what an instruction does to undefined values. reached: the registers that may hold one."""
    reads, writes = (tuple(x.index for x in registers if x.index in reached) for registers in i.registers)
    if i.base == "shfl" or not (reads or writes):
        return
    e.line("if X.undefined.any:")
    if i.base == "selp" and all(isinstance(i.operands[n], Register) for n in (0, 3)):
        target, first, second, choice = (x.index if isinstance(x, Register) else -1 for x in i.operands)
        e.line(f"  X.undefined.select({e.mask}, {target}, ({choice}, R[{choice}]), {first}, {second})")
    else:
        e.line(f"  X.undefined.flow({e.bind(i)}, {e.mask}, {reads}, {writes})")


def continue_following(e: Emitter, i: Instruction, rest: Callable[[Registers, Mask | None, Batch], None]) -> None:
    """Emits, behind an instruction after which there may be values to follow, that `rest` does what comes behind it then."""
    e.begin(replace(i, guard=None), e.full)
    e.line(f"if X.undefined.any: return {e.bind(rest)}(R, m, X)")
