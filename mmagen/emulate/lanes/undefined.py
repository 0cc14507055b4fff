"""Values that a thread may hold as long as it does not use them: those that shfl.sync read from lanes which did not take part,
undefined (PTX ISA 9.7.9, "shfl.sync"), and those read from shared memory that nothing wrote.

The upper lanes of a partial warp receive such values in a reduction, and a pipeline that loads fragments ahead reads behind its
last k tile. So a value is followed through the registers; it is a finding when it reaches memory, an address, a matrix product,
a branch or other lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Indices, Mask, Values, Words
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.lanes.members import participants
from mmagen.emulate.ptx.facts import space_of
from mmagen.emulate.ptx.model import Entry, Instruction, Register, elements_of

_POISON = np.uint32(0xFFFBADBD)  # as f32 it is NaN
_USES = {
    *("st", "red", "atom", "stmatrix", "cp", "mma", "wmma", "wgmma", "mbarrier", "ld", "ldmatrix", "call", "bar", "barrier"),
    *("vote", "match", "redux", "movmatrix"),  # whose results other lanes have
}
_FOLLOWED = ("ld", "ldmatrix")  # whose results are followed where nothing wrote what they read


@dataclass(frozen=True)
class UnwrittenRead:
    """Reads of shared memory that nothing wrote. parts: bool[n, k], which of the k equal parts of n accesses; byte: the first,
    as messages name it."""

    parts: Mask
    byte: str


@dataclass(frozen=True)
class _Origin:
    """The instruction that a value comes from. text: what the finding says of its lane; "" where that is the lane that uses the
    value."""

    instruction: Instruction
    lane: int = 0
    text: str = ""


class UndefinedValues:
    """Which lanes hold such a value in which register of the entry. any: whether there is one."""

    def __init__(self, lanes: Lanes, findings: LaneFindings):
        self._lanes, self._findings = lanes, findings
        self._where: dict[int, Mask] = {}
        self._origins: dict[int, _Origin] = {}
        self.any = False

    def read(self, i: Instruction, lanes: Indices, unwritten: UnwrittenRead) -> None:
        """Lanes int64[n] read shared memory that nothing wrote. A finding, unless the registers they load can be followed."""
        lacking = np.asarray(unwritten.parts.any(axis=1))
        row = int(lacking.argmax())
        origin = _Origin(i, int(lanes[row]), f"reads {unwritten.byte}, which nothing wrote")
        if i.base not in _FOLLOWED:
            self._findings.add("uninitialised_shared", i, int(lacking.sum()), origin.lane, origin.text)
            return
        targets = elements_of(i.operands[0])
        for target, held in zip(targets, self._loaded(i, lanes, unwritten.parts, len(targets)), strict=True):
            if isinstance(target, Register) and held.any():
                self._set(target.index, held, held, origin)

    def _loaded(self, i: Instruction, lanes: Indices, parts: Mask, count: int) -> list[Mask]:
        """For each register that a load writes the lanes whose value has bytes of such parts."""
        if i.base == "ldmatrix":
            rows = np.zeros(self._lanes.size, dtype=bool)  # at the addresses of these lanes, eight for each register
            rows[lanes] = parts.any(axis=1)
            matrices = [rows.reshape(-1, 32)[:, 8 * n : 8 * n + 8] for n in range(count)]
            if i.has("trans"):  # a lane has a column's elements of two rows
                return [np.tile(m.reshape(-1, 4, 2).any(axis=2), 8).reshape(-1) for m in matrices]
            return [np.repeat(m, 4, axis=1).reshape(-1) for m in matrices]
        of_each = np.zeros((self._lanes.size, count), dtype=bool)
        if parts.shape[1] % count == 0:
            of_each[lanes] = parts.reshape(len(parts), count, -1).any(axis=2)
        else:  # the parts are larger than an element
            of_each[lanes] = np.asarray(parts.any(axis=1))[:, None]
        return list(of_each.T)

    def shuffle(
        self,
        i: Instruction,
        mask: Mask | None,
        members: Words,
        read: int,
        target: int,
        values: Words,
        source: tuple[Values, Mask],
    ) -> Words:
        """The result of a shuffle, with a pattern in place of undefined values. read, target: the registers; source: the lane
        of the warp that each lane reads, and whether that was in its segment."""
        if not self.any and mask is None and len(members) == 1 and members[0] == 0xFFFFFFFF:
            return values
        active = self._lanes.live if mask is None else mask
        index = self._lanes.every // 32 * 32 + source[0]
        defined = np.zeros(len(active), dtype=bool)
        for _, part in participants(self._lanes, mask, members):
            defined |= part & part[index]
        outside = active & ~defined
        undefined = outside | (active & self._where[read][index]) if read in self._where else outside
        self._set(target, active, undefined, _Origin(i) if outside.any() else self._origins.get(read))
        return np.where(outside, _POISON, values)

    def guard(self, i: Instruction, mask: Mask | None, register: int, writes: tuple[int, ...]) -> None:
        """An instruction is executed where a predicate holds that may be undefined."""
        active = self._lanes.live if mask is None else mask
        undefined = active & self._where[register] if register in self._where else None
        if undefined is None or not undefined.any():
            return
        if i.base in _USES:
            self._used(i, undefined, register)
        for target in writes:
            self._set(target, undefined, undefined, self._origins[register])

    def flow(self, i: Instruction, mask: Mask | None, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        """An instruction computes `writes` from `reads`."""
        active = self._lanes.live if mask is None else mask
        taken = [r for r in reads if r in self._where and (self._where[r] & active).any()]
        undefined = (
            np.logical_or.reduce([self._where[r] for r in taken]) & active if taken else np.zeros(len(active), dtype=bool)
        )
        if i.base in _USES:
            for register in dict.fromkeys(taken):
                self._used(i, self._where[register] & active, register)
        for register in writes:
            self._set(register, active, undefined, self._origins[taken[0]] if taken else None)

    def select(self, mask: Mask | None, target: int, choice: tuple[int, Mask], first: int, second: int) -> None:
        """selp: only the value that is chosen counts. choice: the predicate's register, and its value."""
        active, none = self._lanes.live if mask is None else mask, np.zeros(self._lanes.size, dtype=bool)
        chosen = np.where(choice[1], self._where.get(first, none), self._where.get(second, none))
        origin = next((self._origins[r] for r in (choice[0], first, second) if r in self._origins), None)
        self._set(target, active, active & (chosen | self._where.get(choice[0], none)), origin)

    def branch(self, i: Instruction, register: int, mask: Mask) -> None:
        """A branch, barrier or exit is taken by a predicate."""
        undefined = mask & self._where[register] if register in self._where else None
        if undefined is not None and undefined.any():
            self._used(i, undefined, register)

    def _used(self, i: Instruction, lanes: Mask, register: int) -> None:
        """Notes that lanes use such a value of a register."""
        origin, count = self._origins[register], int(lanes.sum())
        if origin.text:
            text = f"{origin.text}; PTX line {i.line} uses the value"
            self._findings.add("uninitialised_shared", origin.instruction, count, origin.lane, text)
            return
        line = origin.instruction.line
        text = f"uses an undefined value: the shfl in PTX line {line} read it from a lane that did not take part"
        self._findings.add("undefined_value", i, count, int(np.flatnonzero(lanes)[0]), text)

    def _set(self, register: int, active: Mask, undefined: Mask, origin: _Origin | None) -> None:
        before = self._where.get(register)
        after = undefined if before is None else (before & ~active) | undefined
        if after.any():
            self._where[register] = after
            if origin is not None:
                self._origins[register] = origin
            self.any = True
        elif before is not None:
            del self._where[register], self._origins[register]
            self.any = bool(self._where)


def is_source(i: Instruction) -> bool:
    """May the registers that it writes hold such values although those that it reads do not?"""
    return i.base == "shfl" or (i.base in _FOLLOWED and space_of(i) in ("shared", "generic"))


def registers_to_follow(entry: Entry) -> frozenset[int]:
    """The registers that a result of a shuffle or of a load from shared memory may reach."""
    found: set[int] = set()
    flows: list[tuple[frozenset[int], frozenset[int]]] = []
    for i in entry.instructions:
        reads, writes = (frozenset(x.index for x in registers) for registers in i.registers)
        if is_source(i):
            found |= writes
        elif writes and i.base not in _USES:
            flows.append((reads, writes))
    before = -1
    while found and len(found) != before:
        before = len(found)
        for reads, writes in flows:
            if not reads.isdisjoint(found):
                found |= writes
    return frozenset(found)
