"""All that orders the accesses of one batch's threads, and the shadows in which they are noted."""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.emulate.arrays import Indices, Mask
from mmagen.emulate.hazards.barrier_shadow import BarrierShadow
from mmagen.emulate.hazards.clock_shadow import ClockShadow
from mmagen.emulate.hazards.clocks import GLOBAL, ClockRow, Clocks, FenceSpace
from mmagen.emulate.hazards.cross_cta_order import CrossCtaOrder
from mmagen.emulate.hazards.global_history import GlobalHistory
from mmagen.emulate.hazards.global_order import GlobalOrder
from mmagen.emulate.hazards.global_writers import GlobalWriters
from mmagen.emulate.hazards.granules import SharedShadow
from mmagen.emulate.hazards.grid_dependency import GridDependency
from mmagen.emulate.hazards.source_reads import SourceReads
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes, lanes_by
from mmagen.emulate.memory.owned import BatchMemory
from mmagen.emulate.program.program import Program
from mmagen.emulate.ptx.facts import is_strong
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.findings import FindingLog


class LaunchHistory:
    """What is kept of global accesses from batch to batch of one launch."""

    def __init__(self, log: FindingLog, granule: int):
        self.writers = GlobalWriters(log, granule)
        self.clocked = GlobalHistory()


@dataclass(frozen=True)
class _Shadows:
    """At most one of the two. clocks: in kernels with asynchronous units, clusters or flags."""

    clocks: Clocks | None = None
    by_clock: ClockShadow | None = None
    by_barrier: BarrierShadow | None = None


class HazardTracker:
    """Notes accesses and synchronisation; without `checks` it notes nothing.

    clocks: vector clocks, where the kernel needs them, else None. shadow: of shared memory, None where there is none or
    nothing is checked; clock_shadow: the same one where the kernel has clocks. global_order, cross_cta: accesses to global
    memory, and order by flags there, where the kernel has clocks. sources: of copies in flight; None without checks.
    """

    def __init__(
        self,
        program: Program,
        lanes: Lanes,
        memory: BatchMemory,
        findings: LaneFindings,
        history: LaunchHistory,
        checks: bool,
    ):
        self.checks = checks
        self._lanes, self._memory, self._writers = lanes, memory, history.writers
        shadows = _shadows(program, lanes, memory, findings) if checks else _Shadows()
        self.clocks, self.clock_shadow, self._barrier_shadow = shadows.clocks, shadows.by_clock, shadows.by_barrier
        self.shadow: SharedShadow | None = shadows.by_clock or shadows.by_barrier
        self.sources = SourceReads(memory.device, lanes, self.clocks, findings) if checks else None
        self._released_at: dict[tuple[int, int], ClockRow] = {}
        self.cross_cta: CrossCtaOrder | None = None
        self.global_order: GlobalOrder | None = None
        self._grid_before: GridDependency | None = None
        if self.clocks is not None:
            self.cross_cta = CrossCtaOrder(history.clocked, memory.device, lanes, self.clocks, findings.log)
            self.global_order = GlobalOrder(history.clocked, memory.device, lanes, self.clocks, findings.log)
            if program.overlaps:
                self._grid_before = GridDependency(lanes, self.clocks, findings)

    # Global memory

    def global_access(
        self,
        i: Instruction,
        index: Indices,
        size: int,
        lanes: Indices,
        writing: bool,
        atomic: bool = False,
        asynchronous: bool = False,
        reduces: bool = False,
    ) -> None:
        """Notes accesses to global memory: byte positions int64[n] of lanes int64[n]. asynchronous: by TMA. reduces: a
        reduction by TMA."""
        if writing and self.sources is not None:
            self.sources.check_write(i, index, size, lanes)
        if self.global_order is None or self.cross_cta is None:
            ctas = self._lanes.cta[lanes] + self._lanes.first
            self._writers.note(i, index, size, ctas, writing, atomic, self._memory.device)
            return
        if self._grid_before is not None:
            self._grid_before.check(i, lanes[:1] if asynchronous else lanes)
        clocks = self.cross_cta.strong_write(i, index, size, lanes) if writing and is_strong(i) else None
        self.global_order.note(i, index, size, lanes, writing, asynchronous, clocks, reduces)

    # Barriers and fences

    def arrive(self, number: int, mask: Mask) -> None:
        """Lanes arrive at a barrier of their CTA without waiting: they release what they did to those that wait."""
        if self.clocks is None:
            return
        for cta, lanes in lanes_by(self._lanes.cta, mask):
            self._released_at[number, cta] = self.clocks.release(lanes).join(self._released_at.get((number, cta)))

    def pass_barrier(self, mask: Mask | None, number: int = 0) -> None:
        """The lanes of a mask (None: all) are ordered after what they and the others at the barrier did before."""
        if self._barrier_shadow is not None:
            self._barrier_shadow.pass_barrier(mask)
        if self.clocks is None:
            return
        for cta, lanes in lanes_by(self._lanes.cta, self._lanes.live if mask is None else mask):
            self.clocks.barrier(lanes)
            if (number, cta) in self._released_at:
                self.clocks.acquire(lanes, self._released_at.pop((number, cta)))

    def pass_warp_barrier(self, mask: Mask | None) -> None:
        """As pass_barrier, for the lanes of each warp by themselves."""
        if self._barrier_shadow is not None:
            self._barrier_shadow.pass_warp_barrier(mask)
        if self.clocks is not None:
            self.clocks.warp_barrier(mask)

    def converge(self, mask: Mask | None) -> None:
        """Lanes of warps execute a shuffle, vote or election together."""
        if self.clocks is not None:
            self.clocks.converge(mask)

    def wait_for_grid_before(self, mask: Mask | None) -> None:
        """griddepcontrol.wait of the active lanes."""
        if self._grid_before is not None:
            self._grid_before.wait(self._lanes.of(mask))

    def proxy_fence(self, mask: Mask | None, spaces: tuple[FenceSpace, ...]) -> None:
        """fence.proxy.async of the active lanes, for some spaces."""
        if self.clocks is not None:
            lanes = self._lanes.of(mask)
            if self.global_order is not None and GLOBAL in spaces:
                self.global_order.proxy_fence(lanes)
            self.clocks.proxy_fence(lanes, spaces)

    def memory_fence(self, mask: Mask | None, scope: int) -> None:
        """fence.acq_rel and fence.sc of the active lanes."""
        if self.clocks is not None and self.cross_cta is not None:
            lanes = self._lanes.of(mask)
            self.cross_cta.fence(lanes, scope)
            self.clocks.release_fence(lanes, scope)


def _shadows(program: Program, lanes: Lanes, memory: BatchMemory, findings: LaneFindings) -> _Shadows:
    granule, shared = program.shared_granule, memory.shared
    if program.asynchronous:
        clocks = Clocks(lanes.size, lanes.width, program.cluster)
        shadow = ClockShadow(shared, min(granule, 16), lanes, clocks, findings) if program.shared_bytes else None
        return _Shadows(clocks, by_clock=shadow)
    if not program.shared_bytes:
        return _Shadows()
    return _Shadows(by_barrier=BarrierShadow(shared, granule, lanes, findings.log))
