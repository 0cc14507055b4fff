"""mbarriers: arrivals and bytes that complete a phase, and the threads that wait for it.

PTX ISA, "mbarrier": a phase completes when all expected arrivals and as many bytes as were announced are there; the next
phase begins at once. A thread that waits for a phase goes on when it has completed.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Events, Indices, Mask, Values
from mmagen.emulate.hazards.clocks import ClockRow, Clocks
from mmagen.emulate.lanes.cluster_addresses import owners
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.ptx.scopes import CLUSTER, CTA, named_scope
from mmagen.emulate.report.trace import Trace
from mmagen.emulate.sync.alike import alike
from mmagen.emulate.sync.cluster_exits import ClusterExits
from mmagen.emulate.sync.mbarrier import Mbarrier, Place, Ready, Wait
from mmagen.emulate.sync.overtaken import Evidence, Passed, passed
from mmagen.emulate.sync.repeated_arrivals import RepeatedArrivals

_ALWAYS, _ONE_OF = 2, 4  # which waits return false first: for these phases all, for later ones a share


class Mbarriers:
    """The mbarriers of one batch."""

    def __init__(
        self,
        lanes: Lanes,
        shared_bytes: int,
        clocks: Clocks | None,
        exits: ClusterExits,
        findings: LaneFindings,
        trace: Trace | None = None,
        repeated: RepeatedArrivals | None = None,
    ):
        self._trace = trace
        self._lanes, self._shared_bytes, self._clocks, self._exits = lanes, shared_bytes, clocks, exits
        self._findings = findings
        self._barriers: dict[Place, Mbarrier] = {}
        self.waits: list[Wait] = []
        self._completed: set[Place] = set()
        self._failed: set[tuple[int, Place, int]] = set()
        self._last_wait = np.zeros(lanes.size // 32, dtype=np.uint32)  # the clock of each warp when it last went past one
        self._repeated = repeated
        self._indirect = False  # waits may be ordered in ways that the clocks do not know

    def places(self, lanes: Indices, where: Indices) -> list[Place]:
        """The places of shared addresses int64[n] that lanes int64[n] use."""
        ctas, offsets = owners(self._lanes, lanes, where)
        return list(zip(ctas.tolist(), offsets.tolist(), strict=True))

    def column(self, place: Place) -> int:
        """The barrier's column in the clocks; only where there are clocks."""
        assert self._clocks is not None
        return self._clocks.column("mbarrier", place[0] % self._lanes.cluster, place[1])

    def stores_column(self, place: Place) -> int:
        """The column of the stores that complete on the barrier; only where there are clocks."""
        assert self._clocks is not None
        return self._clocks.column("stores", place[0] % self._lanes.cluster, place[1])

    def phase(self, place: Place) -> int:
        """How many phases of an initialised barrier have completed."""
        return self._barriers[place].phase

    def init(self, i: Instruction, lanes: Indices, where: Indices, counts: Indices) -> None:
        """mbarrier.init."""
        for lane, place, count in zip(lanes.tolist(), self.places(lanes, where), counts.tolist(), strict=True):
            if place[1] % 8 or place[1] + 8 > self._shared_bytes:
                self._findings.add(
                    "mbarrier",
                    i,
                    1,
                    lane,
                    f"initialises an mbarrier at shared byte {place[1]}, which is misaligned or out of bounds",
                )
                continue
            if not 1 <= count < 1 << 20:
                self._findings.add("mbarrier", i, 1, lane, f"initialises an mbarrier for {count} arrivals")
            self._barriers[place] = Mbarrier(count, count, lane, self._initialised(lane))
            if self._repeated:
                self._repeated.forget(place)

    def _initialised(self, lane: int) -> tuple[int, int]:
        """The event of an initialisation, of which the thread itself knows."""
        if self._clocks is None:
            return 0, 0
        column = self._clocks.column("init", self._lanes.rank(lane), lane % self._lanes.width)
        clock = int(self._clocks.known[lane, column]) + 1
        self._clocks.advance(np.array([lane]), column, clock)
        return column, clock

    def invalidate(self, lanes: Indices, where: Indices) -> None:
        """mbarrier.inval."""
        for place in self.places(lanes, where):
            self._barriers.pop(place, None)

    def fence(self, mask: Mask | None) -> None:
        """What these lanes initialised is visible to the cluster and to TMA: by a proxy fence, or by a release at cluster or
        a wider scope, of which fence.mbarrier_init is the weakest (PTX ISA, "membar/fence": it orders prior inits alone)."""
        for barrier in self._barriers.values():
            if barrier.fenced or not (mask is None or mask[barrier.initialiser]):
                continue
            barrier.fenced = True
            if self._clocks is not None:
                self._clocks.release_fence(np.array([barrier.initialiser]), CLUSTER, barrier.initialised[0])

    def usable(self, i: Instruction, lane: int, place: Place, asynchronous: bool = False) -> Mbarrier | None:
        """The barrier there, if `lane` may use it; None, and a finding, if nothing initialised it."""
        barrier = self._barriers.get(place)
        if barrier is None:
            self._findings.add("mbarrier", i, 1, lane, f"uses shared byte {place[1]} as an mbarrier, which nothing initialised")
            return None
        if self._clocks is not None:
            column, clock = barrier.initialised
            if self._clocks.known[lane, column] < clock:
                text = f"uses the mbarrier at shared byte {place[1]}, which another thread initialised with no barrier between"
                self._findings.add("mbarrier", i, 1, lane, text)
            elif not barrier.fenced and (asynchronous or self._lanes.cta[lane] != place[0]):
                text = (
                    f"uses the mbarrier at shared byte {place[1]} from another CTA or by TMA, but neither fence.mbarrier_init nor "
                    "a release at cluster scope made its initialisation visible there"
                )
                self._findings.add("proxy_fence", i, 1, lane, text)
        return barrier

    def arrive(
        self, i: Instruction, lanes: Indices, where: Indices, counts: Indices, bytes_: Indices, releases: bool
    ) -> Events:
        """Arrivals `counts`, and announced bytes, of each lane. releases: they have release semantics. Returns the phases."""
        phases = np.zeros(len(lanes), dtype=np.uint64)
        places = self.places(lanes, where)
        if self._repeated:
            for lane, place, count in zip(lanes.tolist(), places, counts.tolist(), strict=True):
                if count and (known := self._barriers.get(place)):
                    self._repeated.issues(lane, place, known.phase)
        for n, (lane, place) in enumerate(zip(lanes.tolist(), places, strict=True)):
            barrier = self.usable(i, lane, place)
            if barrier is None:
                continue
            phases[n] = barrier.phase
            count = int(counts[n])
            self._outlasts(i, lane, place, barrier, completes_bytes=count == 0 and int(bytes_[n]) < 0)
            if count > barrier.missing:
                text = f"arrives at the mbarrier at shared byte {place[1]} when all {barrier.count} arrivals of its phase"
                self._findings.add("mbarrier", i, 1, lane, f"{text} are there")
                continue
            barrier.bytes += int(bytes_[n])
            barrier.missing -= count
            if self._repeated:
                if count and barrier.count > 1:  # a single arrival is in no other one's place
                    self._repeated.arrives(i, lane, place, barrier.phase)
                elif count or bytes_[n]:
                    self._repeated.contributes(lane, place)
            if self._trace:
                self._trace.at("arrive", lane, place, barrier.phase)
            if releases and self._clocks is not None:
                self._release(
                    self._clocks,
                    i,
                    lane,
                    lanes if n == 0 else lanes[n : n + 1],
                    barrier,
                    near=int(self._lanes.cta[lane]) == place[0],
                )
            elif self._clocks is not None:
                barrier.evidence.copy(self._clocks, lane, None)
            barrier.completed_by = lane if barrier.count == 1 else -1
            self._complete(i, lane, place, barrier)
        return phases

    def _outlasts(self, i: Instruction, lane: int, place: Place, barrier: Mbarrier, completes_bytes: bool) -> None:
        """Another CTA's barrier changes: that CTA must not end before it knows. Of bytes, which release nothing, it knows when the
        phase that needs them has completed, as of those of a copy."""
        if not completes_bytes:
            self._exits.remote_write(i, lane, place[0])
        elif self._exits.check_running(i, lane, place[0]) and self._clocks is not None:
            self._exits.must_outlast(i, lane, place[0], self.column(place), barrier.phase + 1)

    def arrive_later(self, i: Instruction, lane: int, place: Place, released: ClockRow | None) -> None:
        """One arrival, issued by a lane before, that happens now. released: what it releases."""
        barrier = self._barriers.get(place)
        if barrier is None:
            return
        if not barrier.missing:
            text = f"arrives at the mbarrier at shared byte {place[1]} when all {barrier.count} arrivals of its phase are there"
            self._findings.add("mbarrier", i, 1, lane, text)
            return
        barrier.missing -= 1
        if self._repeated:
            self._repeated.contributes(lane, place)
        barrier.evidence.arrival(released)
        if released is not None:
            barrier.arrivals = released.join(barrier.arrivals)
            barrier.near_arrivals = released.join(barrier.near_arrivals)
        self._complete(i, lane, place, barrier)

    def _release(self, clocks: Clocks, i: Instruction, lane: int, peers: Indices, barrier: Mbarrier, near: bool) -> None:
        """What an arrival releases. One that names the scope .cta releases nothing to another CTA. Without a scope it does
        here, although the PTX ISA's default is .cta: CUTLASS arrives at other CTAs' barriers in that way."""
        one, least = np.array([lane]), CTA if near else CLUSTER
        row = clocks.relaxed_release(one, least) if i.has("relaxed") else clocks.release(one, peers)
        barrier.evidence.arrival(row)
        if row is None or (not near and named_scope(i) == CTA):
            return
        barrier.arrivals = row.join(barrier.arrivals)
        if near:
            barrier.near_arrivals = row.join(barrier.near_arrivals)

    def complete_bytes(self, i: Instruction, lane: int, place: Place, bytes_: int) -> None:
        """Bytes of a copy have arrived; lane: the thread that issued it."""
        barrier = self._barriers.get(place)
        if barrier is not None:
            barrier.bytes -= bytes_
            barrier.pending_copies -= 1
            self._complete(i, lane, place, barrier)

    def _complete(self, i: Instruction, lane: int, place: Place, barrier: Mbarrier) -> None:
        if barrier.missing or barrier.bytes:
            return
        clocks = self._clocks
        if barrier.pending_copies:
            text = f"completes phase {barrier.phase} of the mbarrier at shared byte {place[1]} while copies to it are in flight"
            self._findings.add("mbarrier", i, 1, lane, text)
        if self._trace:
            self._trace.at("complete", lane, place, barrier.phase)
        self._indirect |= barrier.evidence.is_indirect
        if not self._indirect:
            for one in barrier.evidence.overtaken():
                self._overtaken(one, place, barrier.phase - 1)
        barrier.evidence = Evidence()
        barrier.phase += 1
        barrier.missing = barrier.count
        if self._repeated:
            self._repeated.completes(place)
        if clocks is not None:
            ended, with_stores = self._ended(clocks, place, barrier.phase)
            barrier.released = with_stores.join(barrier.arrivals).join(barrier.released)
            near = ended if barrier.far_stores else with_stores
            barrier.near_released = near.join(barrier.near_arrivals).join(barrier.near_released)
            barrier.arrivals = barrier.near_arrivals = None
        barrier.far_stores = False
        self._completed.add(place)

    def copy_begins(self, barrier: Mbarrier, lane: int, place: Place) -> None:
        """A lane issues a copy, or stores, that complete on the barrier there."""
        near = int(self._lanes.cta[lane]) == place[0]
        barrier.pending_copies += 1
        if self._repeated:
            self._repeated.contributes(lane, place)
        if self._clocks is not None:
            barrier.evidence.copy(self._clocks, lane, int(self._last_wait[lane // 32]) if near else None)

    def _overtaken(self, one: Passed, place: Place, phase: int) -> None:
        text = (
            f"waits for phase {phase} (parity {phase & 1}) of the mbarrier at shared byte {place[1]}, and nothing keeps phase "
            f"{phase + 1} from completing before this thread tests it: the wait would then last until phase {phase + 2} completes, "
            "and may never end"
        )
        self._findings.add("mbarrier", one.instruction, int(one.counts.sum()), int(one.lanes[0]), text)

    def _ended(self, clocks: Clocks, place: Place, phases: int) -> tuple[ClockRow, ClockRow]:
        """What the end of so many phases says, without and with that of the stores that completed them."""
        column, stores = self.column(place), clocks.stores(place[0] % self._lanes.cluster, place[1])
        ended = clocks.nothing(column + 1)
        ended.known[column] = phases
        if stores is None:
            return ended, ended
        stored = clocks.nothing(stores + 1)
        stored.known[stores] = phases
        return ended, ended.join(stored)

    # Waiting

    def wait(
        self, i: Instruction, start: int, lanes: Indices, where: Indices, phases: Values, parity: bool
    ) -> tuple[Mask, Mask]:
        """Lanes test whether a phase has completed: that of a parity, or of a state that arrive returned. Returns bool[n]
        twice: for which it has, and for which the result is false although it has; the others wait."""
        ended, failed = np.zeros(len(lanes), dtype=bool), np.zeros(len(lanes), dtype=bool)
        for (cta, offset, phase), members in alike(*owners(self._lanes, lanes, where), phases):
            place, who = (cta, offset), lanes[members]
            barrier = self.usable(i, int(who[0]), place)
            if barrier is None:
                ended[members] = True
                continue
            wanted = (barrier.phase if barrier.phase & 1 == phase & 1 else barrier.phase - 1) if parity else phase
            if parity:
                self._check_parity(i, who, place, wanted)
            if barrier.phase <= wanted:
                self.waits.append(Wait(i, start, place, wanted, who))
            else:
                fails = self._fails(i, who, place, wanted)
                failed[members], ended[members] = fails, ~fails
                self._pass(i, who[~fails], place, barrier, wanted)
        return ended, failed

    def _fails(self, i: Instruction, lanes: Indices, place: Place, wanted: int) -> Mask:
        """bool[n]: for which lanes a test of a phase that has completed is false, as it may be for threads that do not know of
        that: it began before, and test_wait does not wait, while a try_wait does for a limited time. A loop tests again."""
        key = i.index, place, wanted
        if key in self._failed or (wanted >= _ALWAYS and (wanted + place[1] // 8 + i.index) % _ONE_OF):
            return np.zeros(len(lanes), dtype=bool)
        self._failed.add(key)
        unknown: Mask = lanes != self._barriers[place].completed_by
        if self._clocks is not None:
            unknown &= self._clocks.reached(lanes, self.column(place)) <= wanted
        return unknown

    def _check_parity(self, i: Instruction, lanes: Indices, place: Place, wanted: int) -> None:
        """A parity distinguishes a phase from the one before it only: the thread must know that earlier ones completed."""
        if self._clocks is None:
            return
        unsure = self._clocks.reached(lanes, self.column(place)).astype(np.int64) < wanted
        if unsure.any():
            text = (
                f"waits by parity for phase {wanted} of the mbarrier at shared byte {place[1]} without knowing that phase "
                f"{wanted - 1} has completed: if it had not, the wait would have returned too early"
            )
            self._findings.add("mbarrier", i, int(unsure.sum()), int(lanes[unsure][0]), text)

    def _pass(self, i: Instruction, lanes: Indices, place: Place, barrier: Mbarrier, phase: int) -> None:
        """Lanes see that a phase has completed."""
        if len(lanes):
            if self._repeated:
                self._repeated.waited(lanes, place, phase)
            self._acquire(i, lanes, barrier)
            self._went_past(i, lanes, place, barrier, phase)

    def _acquire(self, i: Instruction, lanes: Indices, barrier: Mbarrier) -> None:
        released = barrier.near_released if named_scope(i) == CTA else barrier.released
        if self._clocks is not None and released is not None:
            self._clocks.acquire(lanes, released)

    def _went_past(self, i: Instruction, lanes: Indices, place: Place, barrier: Mbarrier, phase: int) -> None:
        """Lanes go past a wait for a phase. A state of arrive, unlike a parity, may be that of any earlier phase."""
        if self._trace:
            for warp in np.unique(lanes // 32).tolist():
                if int(self._lanes.cta[32 * warp]) == place[0]:
                    self._trace.at("wait", 32 * warp, place, phase)
        if self._clocks is None or not i.has("parity"):
            return
        one = passed(self._clocks, i, lanes)
        self._last_wait[lanes // 32] = self._clocks.clock[lanes // 32]
        if barrier.phase == phase + 1:
            barrier.evidence.waited.append(one)
        else:
            self._overtaken(one, place, phase)

    def take_completed(self) -> list[Ready]:
        """Lanes whose phase has completed since the last call; the result of some is false all the same."""
        if not self._completed:
            return []
        result: list[Ready] = []
        remaining: list[Wait] = []
        for wait in self.waits:
            barrier = self._barriers.get(wait.place)
            if wait.place in self._completed and (barrier is None or barrier.phase > wait.phase):
                fails = np.zeros(len(wait.lanes), dtype=bool)
                if barrier is not None:
                    fails = self._fails(wait.instruction, wait.lanes, wait.place, wait.phase)
                    self._pass(wait.instruction, wait.lanes[~fails], wait.place, barrier, wait.phase)
                for lanes, true in ((wait.lanes[~fails], True), (wait.lanes[fails], False)):
                    if len(lanes):
                        result.append((wait.instruction, wait.start, lanes, true))
            else:
                remaining.append(wait)
        self.waits = remaining
        self._completed.clear()
        return result

    def take_failed_tests(self) -> list[Ready]:
        """Lanes at a test_wait: when no other lane can run, the result is that the phase has not completed."""
        tests = [wait for wait in self.waits if wait.instruction.has("test_wait")]
        self.waits = [wait for wait in self.waits if not wait.instruction.has("test_wait")]
        return [(wait.instruction, wait.start, wait.lanes, False) for wait in tests]

    def report_deadlock(self) -> None:
        """Notes the phases that never complete."""
        for wait in self.waits:
            barrier, lanes = self._barriers[wait.place], wait.lanes
            arrived = barrier.count - barrier.missing
            text = (
                f"waits forever for phase {wait.phase} (parity {wait.phase & 1}) of the mbarrier at shared byte "
                f"{wait.place[1]}: {arrived} of {barrier.count} arrivals are there"
            )
            if barrier.bytes > 0:
                text += f", {barrier.bytes} announced bytes never arrive"
            elif barrier.bytes < 0:
                text += f", {-barrier.bytes} more bytes arrived than were announced"
            self._findings.add("deadlock", wait.instruction, len(lanes), int(lanes[0]), text)
