"""mbarriers: arrivals and bytes that end a phase, and the threads that wait for one.

PTX ISA, "mbarrier": a barrier's phase ends when all expected arrivals are there and as many bytes as were announced; the
next one begins at once. A thread that waits for one runs on when it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mmagen.emulate.hazards.clocks import Seen
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.sync.clusters import owners

if TYPE_CHECKING:
    from mmagen.emulate.batch import Batch

Place = tuple[int, int]
"""(CTA in the batch, byte of its shared memory)."""


@dataclass
class Mbarrier:
    """count: arrivals of a phase; missing: of this one still; bytes: announced less arrived; phase: how many have ended.
    initialiser: the thread that did it; made: (column, clock) of that in the clocks; fenced: whether it is known beyond
    its CTA's threads. coming: copies under way that report to it."""

    count: int
    missing: int
    initialiser: int
    made: tuple[int, int] = (0, 0)
    bytes: int = 0
    phase: int = 0
    fenced: bool = False
    coming: int = 0
    arriving: Seen | None = None
    met: Seen | None = None


@dataclass
class Wait:
    """Lanes that wait for a phase; start: the block that follows. target: the predicate that becomes true."""

    instruction: Instruction
    start: int
    place: Place
    phase: int
    lanes: np.ndarray


class Mbarriers:
    """The mbarriers of one batch."""

    def __init__(self, batch: Batch):
        self._batch = batch
        self._barriers: dict[Place, Mbarrier] = {}
        self.waits: list[Wait] = []
        self.flipped: set[Place] = set()

    def places(self, lanes: np.ndarray, where: np.ndarray) -> list[Place]:
        """Of shared addresses that lanes use."""
        ctas, offsets = owners(self._batch, lanes, where)
        return list(zip(ctas.tolist(), offsets.tolist(), strict=True))

    def column(self, place: Place) -> int:
        """The barrier's column in the clocks."""
        return self._batch.clocks.column("mbarrier", place[0] % self._batch.program.cluster, place[1])

    def init(self, i: Instruction, lanes: np.ndarray, where: np.ndarray, counts: np.ndarray) -> None:
        """mbarrier.init."""
        for lane, place, count in zip(lanes.tolist(), self.places(lanes, where), counts.tolist(), strict=True):
            if place[1] % 8 or place[1] + 8 > self._batch.shared.size:
                self._batch.found("mbarrier", i, 1, lane, f"puts an mbarrier at shared byte {place[1]}, where none can be")
                continue
            if not 1 <= count < 1 << 20:
                self._batch.found("mbarrier", i, 1, lane, f"initialises an mbarrier for {count} arrivals")
            self._barriers[place] = Mbarrier(count, count, lane, self._made(lane))

    def _made(self, lane: int) -> tuple[int, int]:
        """The event of an initialisation, of which the thread itself knows."""
        batch = self._batch
        if batch.clocks is None:
            return 0, 0
        column = batch.clocks.column("init", lane // batch.width % batch.program.cluster, lane % batch.width)
        clock = int(batch.clocks.known[lane, column]) + 1
        batch.clocks.learn(np.array([lane]), column, clock)
        return column, clock

    def invalidate(self, lanes: np.ndarray, where: np.ndarray) -> None:
        """mbarrier.inval."""
        for place in self.places(lanes, where):
            self._barriers.pop(place, None)

    def fence(self, mask: np.ndarray | None) -> None:
        """fence.mbarrier_init, or a proxy fence: what these lanes initialised is known to the cluster and to TMA."""
        for barrier in self._barriers.values():
            if barrier.fenced or not (mask is None or mask[barrier.initialiser]):
                continue
            barrier.fenced = True
            if self._batch.clocks is not None:
                self._batch.clocks.prepare(np.array([barrier.initialiser]), barrier.made[0])

    def known(self, i: Instruction, lane: int, place: Place, asynchronous: bool = False) -> Mbarrier | None:
        """The barrier there, if `lane` may use it; None, and a finding, if nothing initialised it."""
        batch, barrier = self._batch, self._barriers.get(place)
        if barrier is None:
            batch.found("mbarrier", i, 1, lane, f"uses shared byte {place[1]} as an mbarrier, which nothing initialised")
            return None
        if batch.clocks is not None:
            column, clock = barrier.made
            if batch.clocks.known[lane, column] < clock:
                text = f"uses the mbarrier at shared byte {place[1]}, which another thread initialised with no barrier between"
                batch.found("mbarrier", i, 1, lane, text)
            elif not barrier.fenced and (asynchronous or batch.cta[lane] != place[0]):
                text = f"uses the mbarrier at shared byte {place[1]} from afar, which no fence.mbarrier_init made known"
                batch.found("proxy_fence", i, 1, lane, text)
        return barrier

    def arrive(
        self, i: Instruction, lanes: np.ndarray, where: np.ndarray, counts: np.ndarray, bytes_: np.ndarray, told: bool
    ) -> np.ndarray:
        """Arrivals `counts`, and announced bytes, of each lane; told: they release what the lanes did. Returns the phases."""
        phases = np.zeros(len(lanes), dtype=np.uint64)
        batch = self._batch
        for n, (lane, place) in enumerate(zip(lanes.tolist(), self.places(lanes, where), strict=True)):
            barrier = self.known(i, lane, place)
            if barrier is None:
                continue
            batch.exits.signal(i, lane, place[0])
            phases[n] = barrier.phase
            count = int(counts[n])
            if count > barrier.missing:
                text = f"arrives at the mbarrier at shared byte {place[1]} when all {barrier.count} arrivals of its phase"
                batch.found("mbarrier", i, 1, lane, f"{text} are there")
                continue
            barrier.bytes += int(bytes_[n])
            barrier.missing -= count
            if told and batch.clocks is not None:
                barrier.arriving = batch.clocks.release(np.array([lane])).join(barrier.arriving)
            self._complete(i, lane, place, barrier)
        return phases

    def complete(self, i: Instruction, lane: int, place: Place, bytes_: int) -> None:
        """Bytes have come; lane: whose copy it was."""
        barrier = self._barriers.get(place)
        if barrier is not None:
            barrier.bytes -= bytes_
            barrier.coming -= 1
            self._complete(i, lane, place, barrier)

    def _complete(self, i: Instruction, lane: int, place: Place, barrier: Mbarrier) -> None:
        if barrier.missing or barrier.bytes:
            return
        clocks = self._batch.clocks
        if barrier.coming:
            text = f"ends phase {barrier.phase} of the mbarrier at shared byte {place[1]} while copies that report to it"
            self._batch.found("mbarrier", i, 1, lane, f"{text} are under way")
        barrier.phase += 1
        barrier.missing = barrier.count
        if clocks is not None:
            column = self.column(place)
            seen = barrier.arriving
            if seen is None:
                seen = Seen(np.zeros(column + 1, dtype=np.uint32), np.zeros(clocks.warps, dtype=np.uint32))
            if len(seen.known) <= column:
                seen.known = np.pad(seen.known, (0, column + 1 - len(seen.known)))
            seen.known[column] = barrier.phase
            barrier.met = seen.join(barrier.met)
            barrier.arriving = None
        self.flipped.add(place)

    # Waiting

    def wait(
        self, i: Instruction, start: int, lanes: np.ndarray, where: np.ndarray, phases: np.ndarray, parity: bool
    ) -> np.ndarray:
        """Lanes ask whether a phase has ended: that of a parity, or of a state that arrive returned. Returns bool[n]: for
        which it has; the others wait."""
        ended = np.zeros(len(lanes), dtype=bool)
        groups: dict[tuple[Place, int], list[int]] = {}
        for n, (place, phase) in enumerate(zip(self.places(lanes, where), phases.tolist(), strict=True)):
            groups.setdefault((place, phase), []).append(n)
        for (place, phase), members in groups.items():
            who = lanes[members]
            barrier = self.known(i, int(who[0]), place)
            if barrier is None:
                ended[members] = True
                continue
            wanted = (barrier.phase if barrier.phase & 1 == phase & 1 else barrier.phase - 1) if parity else phase
            if parity:
                self._check_parity(i, who, place, wanted)
            if barrier.phase > wanted:
                ended[members] = True
                self._tell(who, barrier)
            else:
                self.waits.append(Wait(i, start, place, wanted, who))
        return ended

    def _check_parity(self, i: Instruction, lanes: np.ndarray, place: Place, wanted: int) -> None:
        """A parity tells a phase from the one before only: who waits must know that the ones before that are over."""
        batch = self._batch
        if batch.clocks is None:
            return
        unsure = batch.clocks.known[lanes, self.column(place)].astype(np.int64) < wanted
        if unsure.any():
            text = (
                f"waits by parity for phase {wanted} of the mbarrier at shared byte {place[1]}, not knowing that phase "
                f"{wanted - 1} is over: had it not been, the wait would have ended too early"
            )
            batch.found("mbarrier", i, int(unsure.sum()), int(lanes[unsure][0]), text)

    def _tell(self, lanes: np.ndarray, barrier: Mbarrier) -> None:
        if self._batch.clocks is not None and barrier.met is not None:
            self._batch.clocks.acquire(lanes, barrier.met)

    def woken(self) -> list[tuple[Instruction, int, np.ndarray]]:
        """(instruction, block that follows, lanes) of those whose phase has ended since the last call."""
        if not self.flipped:
            return []
        result, remaining = [], []
        for wait in self.waits:
            barrier = self._barriers.get(wait.place)
            if wait.place in self.flipped and (barrier is None or barrier.phase > wait.phase):
                if barrier is not None:
                    self._tell(wait.lanes, barrier)
                result.append((wait.instruction, wait.start, wait.lanes))
            else:
                remaining.append(wait)
        self.waits = remaining
        self.flipped.clear()
        return result

    def failed_tests(self) -> list[tuple[Instruction, int, np.ndarray]]:
        """Takes out those that only test: when nobody can run on, the answer is that the phase has not ended."""
        tests = [wait for wait in self.waits if wait.instruction.has("test_wait")]
        self.waits = [wait for wait in self.waits if not wait.instruction.has("test_wait")]
        return [(wait.instruction, wait.start, wait.lanes) for wait in tests]

    def report_deadlock(self) -> None:
        """Notes the phases that never end."""
        batch = self._batch
        for wait in self.waits:
            barrier, lanes = self._barriers[wait.place], wait.lanes
            here = barrier.count - barrier.missing
            text = (
                f"waits for ever for phase {wait.phase} (parity {wait.phase & 1}) of the mbarrier at shared byte {wait.place[1]}: "
                f"{here} of {barrier.count} arrivals are there"
            )
            if barrier.bytes > 0:
                text += f", {barrier.bytes} announced bytes never come"
            elif barrier.bytes < 0:
                text += f", {-barrier.bytes} more bytes came than were announced"
            batch.found("deadlock", wait.instruction, len(lanes), int(lanes[0]), text)
