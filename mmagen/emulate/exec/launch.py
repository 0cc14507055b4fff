"""Runs a launch: a grid of CTAs, many at a time."""

from __future__ import annotations

from collections.abc import Callable
from operator import index

import numpy as np

from mmagen.emulate.batch import LaunchState
from mmagen.emulate.errors import EmulationError, reported
from mmagen.emulate.exec.batches import Batches
from mmagen.emulate.exec.compile import compiled
from mmagen.emulate.exec.endless import Limits
from mmagen.emulate.exec.kept_code import KeptCode
from mmagen.emulate.hazards.tracker import LaunchHistory
from mmagen.emulate.memory.global_memory import GlobalMemory
from mmagen.emulate.program.limits import launched_cluster
from mmagen.emulate.program.program import Dim, Program
from mmagen.emulate.ptx.model import Module
from mmagen.emulate.report.findings import FindingLog
from mmagen.emulate.report.prefetches import Prefetches
from mmagen.emulate.report.printed import Printed
from mmagen.emulate.report.report import Report
from mmagen.emulate.report.trace import Trace
from mmagen.emulate.report.traffic import TrafficCounter

STEP_LIMIT = 400_000
_LANES_AT_ONCE = 4096


@reported("outside of the kernel's instructions")
def launch(
    module: Module,
    entry: str,
    *,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    dynamic_smem: int = 0,
    params: bytes = b"",
    memory: GlobalMemory | None = None,
    step_limit: int = STEP_LIMIT,
    timeout_s: float | None = None,
    checks: bool = True,
    progress: Callable[[int, int], None] | None = None,
    lanes: int = _LANES_AT_ONCE,
    cluster: int | tuple[int, ...] = 1,
    overlaps: bool = False,
    trace: Trace | None = None,
    elects_last: bool = False,
    kept: KeptCode | None = None,
    first_cta: int = 0,
) -> Report:
    """Executes one kernel launch to its end.

    grid, block: extents in x, y, z. dynamic_smem: bytes behind the kernel's own shared memory. params: the parameter
    block, laid out as the PTX declares it. memory: what its pointers point to; changed in place. step_limit: steps that one
    thread may take: about as many as instructions. timeout_s: seconds that the launch may last. A kernel that exceeds either
    is stopped, and a finding names the loop, or where threads are then; `Report.completed` is False. checks: also look for
    what a right result may hide, and count traffic. progress: called with (CTAs done, CTAs in all). lanes: about how many
    threads to run at once. cluster: its extents in CTAs; an int is the one along x, and 1 stands for the cluster that the entry
    requires, if it does. overlaps: the launch may begin before the one before it ends (programmatic stream serialization).
    trace: gets what the first CTA does: see Event. elects_last: elect.sync elects the last of the lanes that take part in place
    of the first; PTX does not say which. kept: generated code of earlier processes. first_cta: only the CTAs from
    this one on are executed; CTAs are numbered cluster by cluster.

    Raises EmulationError for an entry that is not there, unsupported instructions that are reached, parameters of
    another size, and a launch that the entry's directives forbid.
    """
    if entry not in module.entries:
        raise EmulationError(f"{module.file}: no entry {entry}; there are: {', '.join(module.entries) or 'none'}")
    extents = launched_cluster(module.entries[entry], _dim(grid), _dim(block), _dim(cluster))
    program = Program(
        module,
        module.entries[entry],
        _dim(grid),
        _dim(block),
        _whole("dynamic_smem", dynamic_smem, 0),
        params,
        memory or GlobalMemory(),
        extents,
        overlaps,
    )
    code = compiled(program, checks, trace is not None, kept)
    log, traffic = FindingLog(module.file), TrafficCounter(module.file)
    if not 0 <= first_cta < program.cta_count or first_cta % program.cluster:
        raise EmulationError(f"first_cta is {first_cta}; it must be the first CTA of a cluster of the grid")
    history = LaunchHistory(log, program.global_granule)
    printed, prefetches = Printed(), Prefetches()
    state = LaunchState(program, log, traffic, history, code.tracked, checks, printed, prefetches, trace, elects_last)
    batches = Batches(state, code, Limits.of(_whole("step_limit", step_limit, 1), timeout_s))
    at_once = max(1, lanes // program.padded_threads // program.cluster) * program.cluster
    with np.errstate(all="ignore"):
        for first in range(first_cta, program.cta_count, at_once):
            batches.run(first, min(at_once, program.cta_count - first))
            if batches.stopped or batches.aborted:
                break
            if progress:
                progress(min(first + at_once, program.cta_count), program.cta_count)
    report = Report(entry, program.cta_count - first_cta, batches.completed, batches.stopped, log.findings(), batches.steps)
    report.traffic, report.printed = traffic.traffic(), printed.texts
    report.unused_prefetches = prefetches.unused(module.file)
    report.coverage = batches.branches.coverage(entry)
    batches.count_instructions(report)
    return report


def _dim(extents: int | tuple[int, ...]) -> Dim:
    try:
        values = tuple(index(extent) for extent in (extents if isinstance(extents, (tuple, list)) else (extents,)))
    except TypeError:  # no integers
        values = ()
    if not 1 <= len(values) <= 3 or any(v < 1 for v in values):
        raise EmulationError(f"a grid, block or cluster has one to three positive extents, not {extents!r}")
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _whole(name: str, value: int, least: int) -> int:
    """The argument `name` as an int; numpy's integers are ones too."""
    try:
        whole = index(value)
    except TypeError:
        whole = least - 1
    if whole < least:
        raise EmulationError(f"{name} is {value!r}; pass an integer of at least {least}")
    return whole
