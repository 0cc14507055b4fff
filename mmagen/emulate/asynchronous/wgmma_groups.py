"""wgmmas that are under way: whose registers and shared memory nobody may touch until their group was waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mmagen.emulate.arithmetic.wgmma import WARPGROUP
from mmagen.emulate.hazards.clocks import Seen
from mmagen.emulate.ptx.model import Instruction

if TYPE_CHECKING:
    from mmagen.emulate.batch import Batch


@dataclass
class _Flight:
    """One warpgroup's instruction: its group, the registers that it changes and those that it reads.

    loaded: what its warps had done before, where it takes A from their registers. It cannot be over before all of them
    have loaded those, so whoever waited for it knows that much of the other warps.
    """

    group: int
    sums: set[int]
    reads: frozenset[int]
    loaded: Seen | None


class Flights:
    """The wgmmas of one batch. Warpgroups are numbered through the batch; those of a CTA that is no whole number of them
    count from its begin, as its threads do."""

    def __init__(self, batch: Batch):
        self._batch = batch
        self.of_cta = -(-batch.width // WARPGROUP)
        self._flying: dict[int, list[_Flight]] = {}
        self._committed = np.zeros(batch.count * self.of_cta, dtype=np.int64)
        self._fenced: dict[int, dict[int, np.ndarray]] = {}
        self._at_fence: dict[int, list] = {}

    def groups(self, mask: np.ndarray | None) -> np.ndarray:
        """int64[g]: the warpgroups with active lanes."""
        batch = self._batch
        if mask is None:
            mask = batch.live
        lanes = mask.reshape(batch.count, batch.width)
        padded = np.pad(lanes, ((0, 0), (0, self.of_cta * WARPGROUP - batch.width)))
        return np.flatnonzero(padded.reshape(-1, WARPGROUP).any(axis=1))

    def first_lane(self, group: int) -> int:
        cta, within = divmod(group, self.of_cta)
        return cta * self._batch.width + within * WARPGROUP

    def lanes(self, group: int) -> slice:
        first = self.first_lane(group)
        end = (first // self._batch.width + 1) * self._batch.width
        return slice(first, min(first + WARPGROUP, end))

    # Registers

    def fence(self, R: list, mask: np.ndarray | None) -> None:
        """wgmma.fence: what registers hold now, wgmmas may use."""
        kept = list(R)
        for group in self.groups(mask).tolist():
            self._at_fence[group], self._fenced[group] = kept, {}

    def check_operands(self, R: list, group: int, registers: tuple[int, ...], i: Instruction) -> None:
        """Finds registers that changed since the last fence other than by wgmmas before."""
        if self._batch.clocks is None:
            return
        before, lanes = self._at_fence.get(group), self.lanes(group)
        if before is None:
            self._batch.found("wgmma_order", i, 1, lanes.start, "multiplies without a wgmma.fence before")
            return
        written = self._fenced[group]
        for register in registers:
            now, then = R[register], written.get(register, before[register])
            if now is then or _equal(now, then, lanes):
                continue
            name = self._batch.program.entry.registers[register].name
            text = f"uses {name}, which was written since the last wgmma.fence"
            self._batch.found("wgmma_order", i, 1, lanes.start, text)
            return

    def wrote(self, R: list, mask: np.ndarray | None, registers: tuple[int, ...]) -> None:
        """Notes what wgmmas left in registers."""
        for group in self.groups(mask).tolist():
            if group in self._fenced:
                self._fenced[group].update((register, R[register]) for register in registers)

    def touch(self, mask: np.ndarray | None, reads: tuple[int, ...], writes: tuple[int, ...], i: Instruction) -> None:
        """Finds accesses to registers of wgmmas under way."""
        if not self._flying:
            return
        for group in self.groups(mask).tolist():
            for flight in self._flying.get(group, ()):
                bad = next((r for r in (*reads, *writes) if r in flight.sums), None)
                bad = next((r for r in writes if r in flight.reads), None) if bad is None else bad
                if bad is not None:
                    name = self._batch.program.entry.registers[bad].name
                    text = f"touches {name} while a wgmma that uses it is under way"
                    self._batch.found("wgmma_order", i, 1, self.first_lane(group), text)
                    flight.sums, flight.reads = set(), frozenset()  # once is enough
                    return

    def move(self, mask: np.ndarray | None, source: int, target: int, i: Instruction) -> None:
        """A mov gives a register another name, also while a wgmma changes it: compilers join both to one. To put
        something else into such a register is an access like any other."""
        if not self._flying:
            return
        flights = [flight for group in self.groups(mask).tolist() for flight in self._flying.get(group, ())]
        if any(source in flight.sums for flight in flights):
            for flight in flights:
                if source in flight.sums:
                    flight.sums.add(target)
        else:
            self.touch(mask, (), (target,), i)

    # Groups

    def start(self, group: int, sums: tuple[int, ...], reads: tuple[int, ...]) -> int:
        """A wgmma of a warpgroup begins. Returns the clock at which it is over."""
        clock = int(self._committed[group]) + 1
        loaded = None
        if reads and self._batch.clocks is not None:
            loaded = self._batch.clocks.release(self.first_lane(group) + np.arange(0, WARPGROUP, 32))
        self._flying.setdefault(group, []).append(_Flight(clock, set(sums), frozenset(reads), loaded))
        return clock

    def commit(self, mask: np.ndarray | None) -> None:
        self._committed[self.groups(mask)] += 1

    def wait(self, mask: np.ndarray | None, newest: int) -> None:
        """Until at most `newest` groups are under way."""
        batch = self._batch
        for group in self.groups(mask).tolist():
            done = int(self._committed[group]) - newest
            flights = self._flying.pop(group, [])
            if left := [flight for flight in flights if flight.group > done]:
                self._flying[group] = left
            if batch.clocks is None or done <= 0:
                continue
            lanes = batch.every[self.lanes(group)]
            lanes = lanes if mask is None else lanes[mask[lanes]]
            batch.clocks.learn(lanes, batch.clocks.warpgroup(group), done)
            for flight in flights:
                if flight.group <= done and flight.loaded is not None:
                    batch.clocks.acquire(lanes, flight.loaded)


def _equal(now: np.ndarray, then: np.ndarray, lanes: slice) -> bool:
    """Whether a register holds the same bits in these lanes."""
    a, b = (x if len(x) == 1 else x[lanes] for x in (now, then))
    return bool((a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")).all())
