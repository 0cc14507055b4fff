"""Reads of registers that do not matter, since no instruction uses the bytes that they contribute.

Where a program uses a part of a value only, nvcc packs registers that nothing writes as the rest of it: `mov.b64 %rd1, {%r1, %r2};`
and, as the only read of %rd1, `mov.b64 {tmp, %r3}, %rd1;` with a `tmp` that nothing reads; or two bytes by `prmt.b32`, of which
`dp2a.lo` reads the other two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mmagen.emulate.ptx.model import Entry, Immediate, Instruction, Operand, Register, Vector, elements_of

_EVERY = -1  # all bytes, of a register of any width


@dataclass(frozen=True)
class _Move:
    """Byte `to` of register `target` is byte `of` of register `source`. target: -1 where the byte is used, whatever becomes of the
    result."""

    source: int
    of: int
    target: int
    to: int


def unused_reads(entry: Entry) -> dict[int, frozenset[int]]:
    """The index of an instruction -> the registers that it reads without a need."""
    moves: dict[int, list[_Move]] = {}
    sources: dict[int, frozenset[Register]] = {}
    used: dict[int, int] = {}  # bits of bytes
    for i in entry.instructions:
        found = _moves(i)
        if found is not None:
            moves[i.index], sources[i.index] = found, frozenset(_sources(i))
        for register in i.registers[0]:
            if register not in sources.get(i.index, ()):
                used[register.index] = _EVERY
    waiting = [move for of in moves.values() for move in of]
    while counted := [move for move in waiting if _counts(move, used)]:
        waiting = [move for move in waiting if not _counts(move, used)]
        for move in counted:
            used[move.source] = used.get(move.source, 0) | 1 << move.of
    needed = {index: {move.source for move in of if _counts(move, used)} for index, of in moves.items()}
    unused = {index: frozenset(x.index for x in of) - needed[index] for index, of in sources.items()}
    return {index: registers for index, registers in unused.items() if registers}


def _counts(move: _Move, used: dict[int, int]) -> bool:
    return move.target < 0 or used.get(move.target, 0) >> move.to & 1 == 1


def _sources(i: Instruction) -> Iterator[Register]:
    """The registers whose bytes _moves follows."""
    operands = i.operands[2:3] if i.base == "dp2a" else i.operands[1:3]
    for operand in operands:
        yield from (x for x in elements_of(operand) if isinstance(x, Register))


def _moves(i: Instruction) -> list[_Move] | None:
    """What an instruction does with each byte of its sources; None for one that may use them all."""
    match i.base, i.operands:
        case "mov", (to, source):
            return _of_mov(i, to, source)
        case "prmt", (to, a, b, Immediate(value=int(selector))) if i.type == "b32":
            return _of_prmt(to, a, b, selector)
        case "dp2a", (_, a, Register() as b, c) if b not in (a, c):
            first = 0 if i.has("lo") else 2  # of the two bytes of the second operand that are multiplied
            return [_Move(b.index, first + byte, -1, 0) for byte in range(2)]
    return None


def _of_mov(i: Instruction, to: Operand, source: Operand) -> list[_Move] | None:
    """Of registers that are packed into one, or one that is split into several. A copy is left out: its target is read as it is."""
    parts = elements_of(to if isinstance(to, Vector) else source)
    if isinstance(to, Vector) == isinstance(source, Vector) or not i.type[1:].isdigit() or not parts:
        return None
    width = int(i.type[1:]) // 8 // len(parts)
    found = []
    for n, part in enumerate(parts):
        for byte in range(width):
            whole, of_part = n * width + byte, byte
            if isinstance(to, Vector):
                found += _move(source, whole, part, of_part)
            else:
                found += _move(part, of_part, to, whole)
    return found


def _of_prmt(to: Operand, a: Operand, b: Operand, selector: int) -> list[_Move]:
    """In the default mode, each of the selector's four nibbles chooses one of the eight bytes of both sources (PTX ISA 9.7.9,
    "prmt"). Its highest bit replicates the sign of that byte."""
    found = []
    for byte in range(4):
        chosen = selector >> 4 * byte & 7
        found += _move((a, b)[chosen // 4], chosen % 4, to, byte)
    return found


def _move(source: Operand, of: int, target: Operand, to: int) -> list[_Move]:
    """Nothing where a byte comes from no register, or goes to the sink `_`."""
    if isinstance(source, Register) and isinstance(target, Register):
        return [_Move(source.index, of, target.index, to)]
    return []
