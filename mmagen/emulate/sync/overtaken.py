"""Threads that a later phase of an mbarrier may overtake, whatever the order in which the emulator runs them.

PTX ISA, "mbarrier.test_wait/try_wait": a wait by parity tells a phase from the one before it alone. Thus phase p + 1 must not
complete before every thread that waits for phase p has gone past its wait: one that comes later finds the parity of a phase
that is not over, and waits for phase p + 2, which may never end. What completes a phase has to happen after those waits; here
that is asked of the vector clocks, so that no schedule in which a warp is so late has to be found.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from mmagen.emulate.arrays import Indices, Mask, Words
from mmagen.emulate.hazards.clocks import ClockRow, Clocks
from mmagen.emulate.ptx.model import Instruction


@dataclass(frozen=True)
class Passed:
    """Warps that went past a wait: their first lanes that waited, and how many did; their columns in the clocks and the clocks
    then; columns of their warpgroups, and the group of wgmmas that each of these commits next, which all of its warps take part
    in."""

    instruction: Instruction
    lanes: Indices
    counts: Indices
    columns: Indices
    clocks: Words
    groups: Indices
    next_group: Indices

    def overtaken_by(self, known: Words) -> Mask:
        """bool[warps]: of which `known`, what precedes an event, does not include that they went past."""
        late: Mask = (known[self.columns] < self.clocks) & (known[self.groups] < self.next_group)
        return late

    def of(self, warps: Mask) -> Passed:
        """These of the warps."""
        return replace(
            self,
            lanes=self.lanes[warps],
            counts=self.counts[warps],
            columns=self.columns[warps],
            clocks=self.clocks[warps],
            groups=self.groups[warps],
            next_group=self.next_group[warps],
        )


def passed(clocks: Clocks, i: Instruction, lanes: Indices) -> Passed:
    """These lanes (ascending) go past a wait now."""
    warps, firsts, counts = np.unique(lanes // 32, return_index=True, return_counts=True)
    groups = warps // clocks.warps_of_cta * clocks.groups_of_cta + warps % clocks.warps_of_cta // 4
    columns = clocks.warps + groups % (clocks.ctas * clocks.groups_of_cta)
    clock, next_group = clocks.clock[warps], clocks.committed[groups] + 1
    return Passed(i, lanes[firsts], counts, warps % clocks.warps, clock, columns, next_group)


@dataclass
class Evidence:
    """What is known to precede the end of the present phase of an mbarrier, and who went past a wait for the phase before it.
    arrived: the clocks that arrivals released; copied: those of threads that issued copies which complete on it; copiers: the
    warps among these that belong to the barrier's own CTA, with their clocks at their last wait. partial: an arrival released
    nothing that is known, so that nothing follows from what is missing."""

    arrived: Words | None = None
    copied: Words | None = None
    copiers: dict[int, int] = field(default_factory=dict)
    partial: bool = False
    waited: list[Passed] = field(default_factory=list)

    def arrival(self, row: ClockRow | None) -> None:
        """An arrival that released this, or nothing."""
        if row is None:
            self.partial = True
        else:
            self.arrived = _joined(self.arrived, row.known)

    def copy(self, clocks: Clocks, lane: int, waited: int | None) -> None:
        """A lane issues a copy that completes on the mbarrier. waited: the clock of its warp's last wait, None for a copy to
        another CTA."""
        warp, known = lane // 32, clocks.known[lane].copy()
        column = warp % clocks.warps
        # The warp's earlier waits precede the copy, although no release of the warp lies between.
        known[column] = clocks.clock[warp]
        self.copied = _joined(self.copied, known)
        if waited is not None:
            self.copiers[column] = waited

    @property
    def is_indirect(self) -> bool:
        """Whether this phase follows a wait of a thread that issued a copy and whose warp did not arrive since. Who waits for this
        phase follows it too, but the clocks, which are those of memory, do not say so."""
        arrived = self.arrived
        return any(arrived is None or arrived[column] < clock for column, clock in self.copiers.items())

    def overtaken(self) -> list[Passed]:
        """Waits for the phase before, by the warps that went past them, that the end of the present one, now, is not known to
        follow."""
        if self.partial or (self.arrived is None and self.copied is None):
            return []
        before = self.copied if self.arrived is None else _joined(self.copied, self.arrived)
        assert before is not None
        late = [(one, one.overtaken_by(before)) for one in self.waited]
        return [one.of(warps) for one, warps in late if warps.any()]


def _joined(known: Words | None, more: Words) -> Words:
    """The latest clocks of both, of the columns that both have: agents that are found later are no warps."""
    if known is None:
        return more
    common = min(len(known), len(more))
    latest: Words = np.maximum(known[:common], more[:common])
    return latest
