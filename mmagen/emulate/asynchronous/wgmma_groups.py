"""wgmma groups in flight: nobody may access their registers and shared memory until the group was waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arithmetic.wgmma import WARPGROUP
from mmagen.emulate.arrays import Indices, Mask, Registers, Values
from mmagen.emulate.hazards.clocks import ClockRow, Clocks
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.lanes.registers import RegisterTracker
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.trace import Trace

_WARPS = WARPGROUP // 32
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
Shape = tuple[int, int]  # N and K of a wgmma


@dataclass
class _InFlight:
    """One warpgroup's instruction. group: the group that it belongs to. sums: registers that it writes; reads: others.

    loaded: what its warps had done before, where A or its metadata are in their registers. The instruction cannot complete before
    all four warps have issued it, so a thread that waited for it knows that the other warps have read what they loaded. What they
    have written is not made visible to it: that takes a barrier.
    """

    group: int
    sums: set[int]
    reads: frozenset[int]
    loaded: ClockRow | None


class WgmmaGroups:
    """The wgmmas of one batch. Warpgroups are numbered through the batch; each CTA begins with a new one."""

    def __init__(
        self,
        lanes: Lanes,
        registers: RegisterTracker,
        clocks: Clocks | None,
        findings: LaneFindings,
        trace: Trace | None = None,
    ):
        self._trace = trace
        self._lanes, self._registers, self._clocks, self._findings = lanes, registers, clocks, findings
        self.of_cta = -(-lanes.width // WARPGROUP)
        self._pending: dict[int, list[_InFlight]] = {}
        self._committed = np.zeros(lanes.count * self.of_cta, dtype=np.int64) if clocks is None else clocks.committed
        # What wgmmas have written since the last fence, and the shape of the last one to do so.
        self._written: dict[int, dict[int, tuple[Values, Shape]]] = {}
        self._at_fence: dict[int, Registers] = {}
        # [warpgroups, 4]: a number that stands for the fences, commits and waits that a warp has executed, and their counts
        self._sequence = np.zeros((len(self._committed), _WARPS), dtype=np.uint64)
        self._executed: dict[int, tuple[Instruction, Indices]] = {}

    def groups_of(self, mask: Mask | None) -> Indices:
        """int64[g]: the warpgroups with active lanes."""
        by_cta = self._lanes.by_cta(self._lanes.live if mask is None else mask)
        if missing := self.of_cta * WARPGROUP - self._lanes.width:
            by_cta = np.pad(by_cta, ((0, 0), (0, missing)))
        return np.flatnonzero(by_cta.reshape(-1, WARPGROUP).any(axis=1))

    def first_lane(self, group: int) -> int:
        """The first lane of a warpgroup."""
        cta, within = divmod(group, self.of_cta)
        return cta * self._lanes.width + within * WARPGROUP

    def lanes_of(self, group: int) -> slice:
        """The lanes of a warpgroup; fewer than 128 at the end of a CTA that is no whole number of warpgroups."""
        first = self.first_lane(group)
        end = (first // self._lanes.width + 1) * self._lanes.width
        return slice(first, min(first + WARPGROUP, end))

    # Fences, commits and waits

    def execute(self, mask: Mask | None, i: Instruction) -> None:
        """Warps execute a fence, commit or wait: all of a warpgroup must (PTX ISA, the .aligned of wgmma)."""
        lanes = self._lanes
        warps = np.flatnonzero((lanes.live if mask is None else mask).reshape(-1, 32).any(axis=1))
        of_cta = lanes.width // 32
        places = warps // of_cta * (self.of_cta * _WARPS) + warps % of_cta
        _, counts = self._executed.setdefault(i.index, (i, np.zeros(self._sequence.size, dtype=np.int64)))
        counts[places] += 1
        sequence = self._sequence.reshape(-1)
        sequence[places] = sequence[places] * _FACTOR + np.uint64(i.index + 1)
        if self._clocks is not None:
            self._clocks.converge(mask)

    def check_together(self, groups: Indices) -> None:
        """Finds fences, commits and waits that only some of the four warps of these warpgroups have executed."""
        sequence = self._sequence[groups]
        for group in groups[(sequence != sequence[:, :1]).any(axis=1)].tolist():
            self._sequence[group] = 0  # report it once
            for i, counts in self._executed.values():
                of_warps = counts.reshape(-1, _WARPS)[group]
                if (of_warps != of_warps.max()).any():
                    some = int((of_warps == of_warps.max()).sum())
                    lane = self.first_lane(group) + 32 * int(np.argmax(of_warps))
                    text = f"executes this with {some} of the 4 warps of its warpgroup"
                    self._findings.add("warp_divergence", i, 1, lane, text)
                    of_warps[:] = of_warps.max()

    def end(self, mask: Mask) -> None:
        """These lanes have ended."""
        if self._executed:
            # A last warpgroup of fewer than four warps multiplies nothing, which is a finding of its own where it tries.
            whole = [g for g in self.groups_of(mask).tolist() if self.first_lane(g) + WARPGROUP == self.lanes_of(g).stop]
            ended = [g for g in whole if not self._lanes.live[self.lanes_of(g)].any()]
            self.check_together(np.array(ended, dtype=np.int64))

    # Registers

    def fence(self, R: Registers, mask: Mask | None) -> None:
        """wgmma.fence: wgmmas may use what the registers hold now."""
        snapshot = list(R)
        for group in self.groups_of(mask).tolist():
            self._at_fence[group], self._written[group] = snapshot, {}

    def check_operands(
        self, R: Registers, group: int, sums: tuple[int, ...], fragments: tuple[int, ...], shape: Shape, i: Instruction
    ) -> None:
        """Finds operands that something else wrote since the last fence than a wgmma of that shape to its own accumulators (PTX
        ISA, "wgmma.fence": these alone are ordered by default), and fragments of A that a wgmma in flight writes."""
        if self._clocks is None:
            return
        if self._at_fence.get(group) is None:
            self._findings.add("wgmma_order", i, 1, self.lanes_of(group).start, "multiplies without a wgmma.fence before")
            return
        if text := self._in_flight(group, sums, fragments) or self._unfenced(R, group, sums, fragments, shape):
            self._findings.add("wgmma_order", i, 1, self.lanes_of(group).start, text)

    def _in_flight(self, group: int, sums: tuple[int, ...], fragments: tuple[int, ...]) -> str:
        """What is wrong with the order of a wgmma and those in flight, or ""."""
        for wgmma in self._pending.get(group, ()):
            for register in fragments:
                if register in wgmma.sums:
                    return f"reads {self._registers.name(register)} as A while a wgmma that writes it is in flight"
            for register in sums:
                if register in wgmma.reads:
                    return f"writes {self._registers.name(register)} while a wgmma that reads it as A is in flight"
        return ""

    def _unfenced(self, R: Registers, group: int, sums: tuple[int, ...], fragments: tuple[int, ...], shape: Shape) -> str:
        """Which operand was written since the last fence, or ""."""
        before, written, lanes = self._at_fence[group], self._written[group], self.lanes_of(group)
        for register in (*sums, *fragments):
            now, (then, by) = R[register], written.get(register, (before[register], None))
            name = self._registers.name(register)
            if now is not then and not _equal(now, then, lanes):
                return f"uses {name}, which was written since the last wgmma.fence"
            if by is not None and register in fragments:
                return f"reads {name} as A, which a wgmma has written since the last wgmma.fence"
            if by is not None and by != shape:
                n, k = by
                return f"adds to {name}, which a wgmma of another shape, m64n{n}k{k}, has written since the last wgmma.fence"
        return ""

    def mark_results(self, R: Registers, mask: Mask | None, registers: tuple[int, ...], shape: Shape) -> None:
        """Notes the results that wgmmas of that shape wrote to registers."""
        for group in self.groups_of(mask).tolist():
            if group in self._written:
                self._written[group].update((register, (R[register], shape)) for register in registers)

    def access(self, mask: Mask | None, reads: tuple[int, ...], writes: tuple[int, ...], i: Instruction) -> None:
        """Finds accesses to registers of wgmmas in flight."""
        if not self._pending:
            return
        for group in self.groups_of(mask).tolist():
            for wgmma in self._pending.get(group, ()):
                bad = next((r for r in (*reads, *writes) if r in wgmma.sums), None)
                bad = next((r for r in writes if r in wgmma.reads), None) if bad is None else bad
                if bad is not None:
                    name = self._registers.name(bad)
                    text = f"accesses {name} while a wgmma that uses it is in flight"
                    self._findings.add("wgmma_order", i, 1, self.first_lane(group), text)
                    wgmma.sums, wgmma.reads = set(), frozenset()  # report it once
                    return

    def report_unkept(self, mask: Mask | None, register: int, i: Instruction) -> None:
        """Warpgroups wait for a sparse wgmma whose register of metadata nothing reads afterwards; see exec/metadata.py."""
        for group in self.groups_of(mask).tolist():
            name = self._registers.name(register)
            text = (
                f"multiplies with metadata in {name}, which nothing reads after the wait: ptxas may use the register before it"
            )
            self._findings.add("wgmma_order", i, 1, self.first_lane(group), text)

    def copy_register(self, mask: Mask | None, source: int, target: int, i: Instruction) -> None:
        """A mov copies a register, perhaps while a wgmma changes it: then ptxas gives both the same register, and the copy is
        another name. A mov of another value into such a register is an access like any other."""
        if not self._pending:
            return
        pending = [wgmma for group in self.groups_of(mask).tolist() for wgmma in self._pending.get(group, ())]
        if any(source in wgmma.sums for wgmma in pending):
            for wgmma in pending:
                if source in wgmma.sums:
                    wgmma.sums.add(target)
        else:
            self.access(mask, (), (target,), i)

    # Groups

    def start(self, group: int, sums: tuple[int, ...], reads: tuple[int, ...], sparse: bool) -> int:
        """A warpgroup issues a wgmma. sparse: it has metadata. Returns the clock at which it will have completed."""
        clock = int(self._committed[group]) + 1
        loaded = None
        if (reads or sparse) and self._clocks is not None:
            lanes = self._lanes.every[self.lanes_of(group)]
            loaded = self._clocks.release(lanes[::32], lanes)
        self._note("multiply", group)
        self._pending.setdefault(group, []).append(_InFlight(clock, set(sums), frozenset(reads), loaded))
        return clock

    def commit(self, mask: Mask | None) -> None:
        """wgmma.commit_group."""
        groups = self.groups_of(mask)
        self._committed[groups] += 1
        for group in groups.tolist():
            self._note("commit", group)

    def wait(self, mask: Mask | None, newest: int) -> None:
        """wgmma.wait_group: until at most `newest` groups are in flight."""
        for group in self.groups_of(mask).tolist():
            self._note("drain", group, newest)
            done = int(self._committed[group]) - newest
            pending = self._pending.pop(group, [])
            if left := [wgmma for wgmma in pending if wgmma.group > done]:
                self._pending[group] = left
            if self._clocks is None or done <= 0:
                continue
            lanes = self._lanes.every[self.lanes_of(group)]
            lanes = lanes if mask is None else lanes[mask[lanes]]
            self._clocks.advance(lanes, self._clocks.warpgroup(group), done)
            loaded = [wgmma.loaded for wgmma in pending if wgmma.group <= done and wgmma.loaded is not None]
            if loaded:  # the last of them includes the others
                self._clocks.know_read(lanes, loaded[-1])

    def _note(self, kind: str, group: int, number: int = 0) -> None:
        if self._trace:
            self._trace.of(kind, self.first_lane(group), number)


def _equal(now: Values, then: Values, lanes: slice) -> bool:
    """Whether a register holds the same bits in these lanes."""
    a, b = (x if len(x) == 1 else x[lanes] for x in (now, then))
    return bool((a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")).all())
