"""The state of the CTAs that run together, as components; instructions take from it what they work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.asynchronous.bulk import BulkCopies
from mmagen.emulate.asynchronous.copy_arrivals import CopyArrivals
from mmagen.emulate.asynchronous.cp_async import PendingCopies
from mmagen.emulate.asynchronous.remote_stores import RemoteStores
from mmagen.emulate.asynchronous.wgmma_groups import WgmmaGroups
from mmagen.emulate.hazards.tracker import HazardTracker, LaunchHistory
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.lanes.members import Members
from mmagen.emulate.lanes.registers import RegisterTracker
from mmagen.emulate.lanes.undefined import UndefinedValues
from mmagen.emulate.memory.owned import BatchMemory, OwnedMemory
from mmagen.emulate.program.program import Program
from mmagen.emulate.report.findings import FindingLog
from mmagen.emulate.report.prefetches import Prefetches
from mmagen.emulate.report.printed import Printed
from mmagen.emulate.report.trace import Trace
from mmagen.emulate.report.traffic import TrafficCounter
from mmagen.emulate.sync.barriers import Barriers
from mmagen.emulate.sync.cluster_barrier import ClusterBarrier
from mmagen.emulate.sync.cluster_exits import ClusterExits
from mmagen.emulate.sync.mbarriers import Mbarriers
from mmagen.emulate.sync.register_pool import RegisterPool
from mmagen.emulate.sync.repeated_arrivals import RepeatedArrivals


@dataclass(frozen=True)
class LaunchState:
    """What all batches of a launch share. tracked: registers that some path reads before it writes them. elects_last: see
    `launch`."""

    program: Program
    log: FindingLog
    traffic: TrafficCounter
    history: LaunchHistory
    tracked: frozenset[int]
    checks: bool
    printed: Printed
    prefetches: Prefetches
    trace: Trace | None = None
    elects_last: bool = False


@dataclass(frozen=True)
class Batch:
    """CTAs that run together. It has no behaviour of its own; its components do not know it."""

    program: Program
    traffic: TrafficCounter
    lanes: Lanes
    findings: LaneFindings
    printed: Printed
    prefetches: Prefetches
    registers: RegisterTracker
    members: Members
    undefined: UndefinedValues
    memory: BatchMemory
    hazards: HazardTracker
    barriers: Barriers
    cluster_barrier: ClusterBarrier
    exits: ClusterExits
    mbarriers: Mbarriers
    copies: PendingCopies
    copy_arrivals: CopyArrivals
    bulk: BulkCopies
    remote_stores: RemoteStores
    wgmmas: WgmmaGroups
    register_pool: RegisterPool
    trace: Trace | None = None


def make_batch(launch: LaunchState, first: int, count: int) -> Batch:
    """CTAs first..first+count-1 of a launch, before their first instruction."""
    program = launch.program
    lanes = Lanes(first, count, program.threads, program.cluster)
    findings = LaneFindings(lanes, launch.log)
    registers = RegisterTracker(lanes, findings, program.entry, launch.tracked)
    memory = _memory(program, lanes)
    hazards = HazardTracker(program, lanes, memory, findings, launch.history, launch.checks)
    trace = launch.trace if first == 0 else None
    if trace:
        trace.width = lanes.width
    exits = ClusterExits(lanes, hazards.clocks, findings)
    repeated = RepeatedArrivals(lanes, findings) if program.cluster > 1 else None
    mbarriers = Mbarriers(lanes, program.shared_bytes, hazards.clocks, exits, findings, trace, repeated)
    copies = PendingCopies(lanes.size, memory.shared, hazards.shadow, hazards.sources, trace)
    return Batch(
        program=program,
        traffic=launch.traffic,
        lanes=lanes,
        findings=findings,
        printed=launch.printed,
        prefetches=launch.prefetches,
        registers=registers,
        members=Members(lanes, findings, launch.elects_last),
        undefined=UndefinedValues(lanes, findings),
        memory=memory,
        hazards=hazards,
        barriers=Barriers(lanes, hazards, registers, findings, trace, repeated),
        cluster_barrier=ClusterBarrier(lanes, hazards.clocks, findings, repeated),
        exits=exits,
        mbarriers=mbarriers,
        copies=copies,
        copy_arrivals=CopyArrivals(lanes, copies, mbarriers, hazards.clocks),
        bulk=BulkCopies(lanes, memory, hazards, mbarriers, exits, findings, trace),
        remote_stores=RemoteStores(lanes, memory.shared, hazards, mbarriers, exits, findings),
        wgmmas=WgmmaGroups(lanes, registers, hazards.clocks, findings, trace),
        register_pool=RegisterPool(lanes, findings, program.entry),
        trace=trace,
    )


def _memory(program: Program, lanes: Lanes) -> BatchMemory:
    shared = OwnedMemory(program.shared_bytes, lanes.count, lanes.cta)
    local = OwnedMemory(program.local_bytes, lanes.size if program.local_bytes else 1, np.arange(lanes.size))
    if program.asynchronous:
        shared.bytes[:] = 0xFF  # NaN, where it is a float: padding of an operand that is used shows in the result
    return BatchMemory(program.memory, shared, local, program.params)
