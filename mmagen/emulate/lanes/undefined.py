"""Values that shfl.sync read from lanes which did not take part: undefined (PTX ISA 9.7.9, "shfl.sync").

A lane may receive such a value, as the upper lanes of a partial warp do in a reduction, if it never uses it. So the value is
followed through the registers; it is a finding when it reaches memory, an address, a matrix product or a branch.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Mask, Values, Words
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.lanes.members import participants
from mmagen.emulate.ptx.model import Entry, Instruction

_POISON = np.uint32(0xFFFBADBD)  # as f32 it is NaN
_USES = ("st", "red", "atom", "stmatrix", "cp", "mma", "wmma", "wgmma", "mbarrier", "ld", "ldmatrix", "call")


class UndefinedValues:
    """Which lanes hold an undefined value in which register of the entry. any: whether there is one."""

    def __init__(self, lanes: Lanes, findings: LaneFindings):
        self._lanes, self._findings = lanes, findings
        self._where: dict[int, Mask] = {}
        self._origin: Instruction | None = None
        self.any = False

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
        if outside.any():
            self._origin = i
        self._set(target, active, undefined)
        return np.where(outside, _POISON, values)

    def guard(self, i: Instruction, mask: Mask | None, register: int, writes: tuple[int, ...]) -> None:
        """An instruction is executed where a predicate holds that may be undefined."""
        active = self._lanes.live if mask is None else mask
        undefined = active & self._where[register] if register in self._where else None
        if undefined is None or not undefined.any():
            return
        if i.base in _USES:
            self.used(i, undefined)
        for target in writes:
            self._set(target, undefined, undefined)

    def flow(self, i: Instruction, mask: Mask | None, reads: tuple[int, ...], writes: tuple[int, ...]) -> None:
        """An instruction computes `writes` from `reads`."""
        active = self._lanes.live if mask is None else mask
        taken = [self._where[r] for r in reads if r in self._where]
        undefined = np.logical_or.reduce(taken) & active if taken else np.zeros(len(active), dtype=bool)
        if i.base in _USES and undefined.any():
            self.used(i, undefined)
        for register in writes:
            self._set(register, active, undefined)

    def select(self, mask: Mask | None, target: int, choice: tuple[int, Mask], first: int, second: int) -> None:
        """selp: only the value that is chosen counts. choice: the predicate's register, and its value."""
        active, none = self._lanes.live if mask is None else mask, np.zeros(self._lanes.size, dtype=bool)
        chosen = np.where(choice[1], self._where.get(first, none), self._where.get(second, none))
        self._set(target, active, active & (chosen | self._where.get(choice[0], none)))

    def branch(self, i: Instruction, register: int, mask: Mask) -> None:
        """A branch, barrier or exit is taken by a predicate."""
        undefined = mask & self._where[register] if register in self._where else None
        if undefined is not None and undefined.any():
            self.used(i, undefined)

    def used(self, i: Instruction, lanes: Mask) -> None:
        """Notes that lanes use an undefined value."""
        line = self._origin.line if self._origin else 0
        text = f"uses an undefined value: the shfl in PTX line {line} read it from a lane that did not take part"
        self._findings.add("undefined_value", i, int(lanes.sum()), int(np.flatnonzero(lanes)[0]), text)

    def _set(self, register: int, active: Mask, undefined: Mask) -> None:
        before = self._where.get(register)
        after = undefined if before is None else (before & ~active) | undefined
        if after.any():
            self._where[register] = after
            self.any = True
        elif before is not None:
            del self._where[register]
            self.any = bool(self._where)


def registers_from_shuffles(entry: Entry) -> frozenset[int]:
    """The registers that a result of a shuffle may reach."""
    found: set[int] = set()
    flows: list[tuple[frozenset[int], frozenset[int]]] = []
    for i in entry.instructions:
        reads, writes = (frozenset(x.index for x in registers) for registers in i.registers)
        if i.base == "shfl":
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
