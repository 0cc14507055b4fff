"""Captures the launch that a project's own host code makes for one call of its C interface, without a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from mmagen.core.targets import capability
from mmagen.emulate import STEP_LIMIT, Entry, GlobalMemory, Report, Trace, launch
from mmagen.host_runtime.arguments import argument_bytes, struct_of
from mmagen.host_runtime.entries import entries_of
from mmagen.host_runtime.library import CapturedLaunch, Device, HostError, Reply, call, text
from mmagen.plan.budgets import SMEM_PER_BLOCK
from mmagen.plan.plans import GemmPlan
from mmagen.plan.steps import step_limit
from mmagen.plan.trials import WAVE
from mmagen.verify.emulated.formats import encode
from mmagen.verify.emulated.matrix import Operands
from mmagen.verify.emulated.task import Task
from mmagen.verify.emulated.units import launched_unit

# More clusters than any problem has: a launch on such a device has one cluster for each of the problem's.
_ALL = 1 << 24
# A GPU runs as many clusters as fit. Emulated are so few that each does several tiles, and two of them side by side. Of those with
# parts of K in a workspace three: one has a neighbour on either side. Last waves with k tiles enough are shared by four: of a
# single tile one of them adds up the sums of three others. Where the number of parts follows from that of the clusters, a single
# tile has so many that the groups of threads that add them up (split_k_reduction.cuh) are as many as they can be, and unequal.
_MOST_RESIDENT = 2
_TILES_EACH = 3
STREAMING = 3
_PARTS = 19
_ENOUGH = 32  # k tiles of all tiles: eight for each of four clusters are enough for last waves to be shared
# Bytes. No better aligned than it must be, one in which bytes are left out in front of the first line, for which the kernel did not
# ask, is too short for the last.
WORKSPACE_ALIGNMENT = 16
_WORD = 8  # bytes, of numbers that each launch draws anew
_STREAM = 0x5000  # a handle that the launch must have
_SHORT_WORKSPACE = "returns status 74,"  # kShortWorkspace of status.cuh


@dataclass(frozen=True)
class Workspace:
    """Device memory that a call may use: address and bytes; none is 0 and 0."""

    address: int = 0
    size: int = 0


def multiply_arguments(task: Task, data: Operands, addresses: dict[str, int], workspace: Workspace) -> bytes:
    """<name>_args of NAME.h. addresses: of the first byte of the memory of each of its matrices; of alpha_device and
    beta_device, if the kernel is to read them there."""
    problem = task.problem
    members = task.product.arguments.members
    struct = struct_of(members)
    values: dict[str, int | float] = {"m": problem.m, "n": problem.n, "k": problem.k, "batch": problem.batch}
    for name, matrix in data.matrices.items():
        first = addresses[name] + matrix.offset * matrix.view.itemsize
        of_call = {
            f"ld_{name}" if name in data.further else f"ld{name}": matrix.ld,
            f"batch_stride_{name}": matrix.batch_stride,
        }
        values |= {name: first} | {member: value for member, value in of_call.items() if hasattr(struct, member)}
    for name in ("alpha", "beta"):
        device = addresses.get(f"{name}_device", 0)
        values |= {name: math.nan if device else float(getattr(problem, name)), f"{name}_device": device}
    values |= {**data.numbers, "workspace": workspace.address, "workspace_bytes": workspace.size}
    return argument_bytes(values, members)


def multiply_launches(
    task: Task, data: Operands, addresses: dict[str, int], workspace: Workspace
) -> tuple[CapturedLaunch, ...]:
    """The launches of a gemm or micro kernel, in order; see multiply_arguments and launches_of."""
    return launches_of_call(task, multiply_arguments(task, data, addresses, workspace))


def launches_of_call(task: Task, arguments: bytes) -> tuple[CapturedLaunch, ...]:
    """The launches of NAME_run with this struct on a device that holds few clusters."""
    most, resident = task.product.most_launches, sharing(task)
    if not task.product.sums_in_workspace:
        # Launches before the last copy operands.
        resident = WAVE if task.plan.selects_width else _few(launches_of(task, task.run_symbol, [arguments], most=most)[-1])
    return launches_of(task, task.run_symbol, [arguments], resident, most)


def uses_more(task: Task, arguments: bytes, more: bytes, count: int) -> bool:
    """Do the launches of NAME_run, `count` of them with `arguments`, differ when it is called with `more`?"""
    found = _repeated(task, arguments, more, arguments)
    return len(found) != 3 * count or are_other(found[:count], found[count : 2 * count], found[2 * count :])


def draws_anew(task: Task, arguments: bytes) -> bool:
    """Do the parameters of two calls with this struct differ? Of the calls after the first: what the padding of a parameter has is
    what the call before has left on the stack."""
    found = _repeated(task, arguments, arguments, arguments)
    count = len(found) // 3
    return [one.params for one in found[count : 2 * count]] != [one.params for one in found[2 * count :]]


def launches_alike(task: Task, arguments: bytes, others: bytes) -> bool:
    """Do calls with these structs launch the same kernels with the same grids?"""
    found = [(one.entry, one.grid) for one in _repeated(task, arguments, others)]
    return found[: len(found) // 2] == found[len(found) // 2 :]


def is_refused(task: Task, arguments: bytes) -> bool:
    """Is the call with this struct refused since its workspace is too short?"""
    try:
        return not _repeated(task, arguments)
    except HostError as error:
        return says_short_workspace(error)


def says_short_workspace(error: HostError) -> bool:
    """Was a call refused for that?"""
    return _SHORT_WORKSPACE in str(error)


def _repeated(task: Task, *structs: bytes) -> list[CapturedLaunch]:
    """The launches of a call of NAME_run with each of these structs."""
    calls = [word for struct in structs for word in call(task.run_symbol, struct, _STREAM)]
    return _ask(task, sharing(task), calls).launches


def are_other(first: Sequence[CapturedLaunch], other: Sequence[CapturedLaunch], again: Sequence[CapturedLaunch]) -> bool:
    """Do the launches of a call differ from those of two calls with the same struct, `first` and `again`? What differs between
    these two does not count: numbers that each launch draws, and the padding of parameters, which nothing sets."""
    return not len(first) == len(other) == len(again) or any(map(_is_other, first, other, again))


def _is_other(first: CapturedLaunch, other: CapturedLaunch, again: CapturedLaunch) -> bool:
    if replace(first, params=b"") != replace(other, params=b"") or len(first.params) != len(other.params):
        return True
    places = range(0, len(first.params), _WORD)
    words = ([one.params[at : at + _WORD] for one in (first, other, again)] for at in places)
    return any(one == of_again != of_other for one, of_other, of_again in words)


def scalars_in_memory(task: Task, memory: GlobalMemory) -> dict[str, int]:
    """Those of alpha and beta that the epilogue has in device memory, for the small integers of a kernel of any shape; elsewhere
    they come from the host. A beta of 0 stays there: with one in device memory there must be a C. So does an alpha of 1 beside
    another beta, which then lies in device memory alone."""
    epilogue = task.product.epilogue
    if task.distribution != "small_int" or not task.product.any_shape:
        return {}
    problem = task.problem
    values = {"alpha": problem.alpha} if problem.alpha != 1 or not problem.beta else {}
    values |= {"beta": problem.beta} if problem.beta else {}
    return {
        f"{name}_device": memory.allocate(
            f"{name}_device", encode(np.array([float(value)]), epilogue.scalar.word), writable=False
        )
        for name, value in values.items()
        if name in epilogue.scalars
    }


def _few(whole: CapturedLaunch) -> int:
    """Resident clusters of the emulated device, given a launch on a device that can hold all."""
    ctas = whole.cluster[0] * whole.cluster[1] * whole.cluster[2]
    clusters = whole.grid[0] * whole.grid[1] * whole.grid[2] // ctas
    return max(1, min(_MOST_RESIDENT, clusters // _TILES_EACH))


def sharing(task: Task) -> int:
    """Resident clusters of the emulated device, of a task's kernel with partial sums in a workspace."""
    if not task.product.sums_in_workspace:
        return STREAMING
    plan = cast(GemmPlan, task.plan)
    if plan.scheduler.workspace_splits == 0 and plan.tiles_of(task.problem) == 1:
        return _PARTS
    if not task.product.leaves_flags:
        return STREAMING
    return STREAMING + (plan.tiles_of(task.problem) * -(-task.problem.k // plan.tile[2]) >= _ENOUGH)


def workspace_bytes(task: Task, data: Operands) -> int:
    """The workspace size that the kernel can use for the task's problem on the emulated device."""
    return bytes_of_workspace(task, multiply_arguments(task, data, dict.fromkeys(data.matrices, 0), Workspace()))


def bytes_of_workspace(task: Task, arguments: bytes) -> int:
    """What NAME_workspace_bytes says of this struct."""
    reply = _ask(task, sharing(task), call(task.workspace_symbol, arguments, bytes(8)))
    return int.from_bytes(reply.outputs[-1], "little", signed=True)


def launch_of(task: Task, symbol: str, arguments: Sequence[bytes | int], resident: int = _ALL) -> CapturedLaunch:
    """The one launch that a call of `symbol` with these arguments and a stream makes; see launches_of."""
    return launches_of(task, symbol, arguments, resident)[0]


def launches_of(
    task: Task, symbol: str, arguments: Sequence[bytes | int], resident: int = _ALL, most: int = 1
) -> tuple[CapturedLaunch, ...]:
    """The launches, `most` of them, that a call of `symbol` with these arguments and a stream makes, in order.

    Raises HostError for anything else that it does: crash, refuse, launch nothing or more kernels, choose another
    config, leave an error behind, or forget the stream.
    """
    naming = text(task.symbol("config_name"), *arguments) if task.library else []
    reply = _ask(task, resident, [*naming, *call(symbol, *arguments, _STREAM)])
    if task.library and reply.texts[0] not in task.named:
        planned = " or ".join(sorted(task.named))
        raise HostError(f"{task.symbol('config_name')} says {reply.texts[0]}; by the spec's rules it is {planned}")
    if reply.left[-1]:
        raise HostError(f"{symbol} succeeds, but leaves CUDA error {reply.left[-1]} behind")
    if not 1 <= len(reply.launches) <= most:
        expected = "one is" if most == 1 else f"1 to {most} are"
        raise HostError(f"{symbol} succeeds and launches {len(reply.launches)} kernels; {expected} to be")
    if any(launch.stream != _STREAM for launch in reply.launches):
        raise HostError(f"{symbol} does not launch on the stream that it was given")
    return tuple(reply.launches)


def _ask(task: Task, resident: int, directives: list[str]) -> Reply:
    """The reply to directives of which the last is a call of a function that returns a status. HostError unless it is 0."""
    host = task.ptx.host
    assert host, "compiled without its host code"
    target = capability(task.ptx.arch)
    device = Device(target, SMEM_PER_BLOCK[target], resident)
    kernels = (entry for unit in task.ptx.units.values() for entry in entries_of(unit))
    reply = host.ask(device, kernels, [*directives, *text(task.symbol("error_text"))])
    if reply.values[-1]:
        why = f"; {reply.refusals[-1]}" if reply.refusals else ""
        raise HostError(f"the host code returns status {reply.values[-1]}, {reply.texts[-1]}{why}")
    return reply


def multiply_steps(task: Task, captured: CapturedLaunch) -> int:
    """The steps that a thread of a gemm or micro kernel may take in this launch."""
    copied = copies_by_threads(launched_unit(task, captured).module.entries[captured.entry])
    return limit_of(task, math.prod(captured.grid) // math.prod(captured.cluster), copied)


def copies_by_threads(entry: Entry) -> bool:
    """Do threads copy A and B? So they do in the kernel for unaligned operands, whose epilogue may load C by TMA."""
    by_tma = (i.base == "cp" and i.modifiers[1:2] == ("bulk",) and "shared::cluster" in i.modifiers for i in entry.instructions)
    return "sm90_unaligned_kernel" in entry.name or not any(by_tma)


def limit_of(task: Task, clusters: int, copied: bool) -> int:
    """step_limit of a launch; of a library the most of its kernels where threads copy A and B, which one kernel does for all."""
    plans = task.library.kernels if task.library and copied else (task.product,)
    return max(step_limit(plan, task.problem, clusters, copied) for plan in plans)


def emulate(
    task: Task,
    captured: CapturedLaunch,
    memory: GlobalMemory,
    steps: int = STEP_LIMIT,
    trace: Trace | None = None,
    first_cta: int = 0,
) -> Report:
    """Executes a captured launch; no thread may take more than `steps`. trace, first_cta: as `launch` has them. Raises
    EmulationError for what the emulator does not know."""
    unit = launched_unit(task, captured)
    report = launch(
        unit.module,
        captured.entry,
        grid=captured.grid,
        block=captured.block,
        dynamic_smem=captured.shared_bytes,
        params=captured.params,
        memory=memory,
        cluster=captured.cluster,
        overlaps=captured.programmatic,
        step_limit=steps,
        timeout_s=task.timeout_s,
        trace=trace,
        elects_last=True,  # a kernel may not take the elected lane for the first
        kept=unit.code,
        first_cta=first_cta,
    )
    if unit.code:
        unit.code.save()
    return report
