"""Emulated calls of kernels that multiply, as a task asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from mmagen.emulate import EmulationError, Event, GlobalMemory, Report, Trace
from mmagen.host_runtime.library import CapturedLaunch
from mmagen.verify.emulated import host
from mmagen.verify.emulated.findings import OutcomeError, findings_of
from mmagen.verify.emulated.host import WORKSPACE_ALIGNMENT, Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import Operands
from mmagen.verify.emulated.task import Task

_ARBITRARY = b"\xff"  # what a workspace holds before a call, at every byte: NaNs
_LEAST_BYTES = 16  # of a workspace of which the kernel needs nothing
_NOWHERE, _PLENTY = 1 << 46, 1 << 40  # a workspace that no kernel is run with: address and bytes


def multiply(task: Task, data: Operands) -> tuple[npt.NDArray[Any], list[Report]]:
    """Emulate a gemm or micro kernel on `data`, whose D it fills, and the other tensors that are written. Returns which bytes
    of D's elements were written, and what was seen in each launch. Raises EmulationError and HostError."""
    contents = _workspace(task, data) if task.workspace else b""
    memory, workspace, addresses = allocated(task, data, contents)
    launches = host.multiply_launches(task, data, addresses, workspace)
    if task.takes_workspace and task.workspace:
        _check_size(task, data, addresses, workspace, len(launches))
    reports = emulated(task, launches, memory)
    lines, written = results(task, data, memory)
    if len(contents) > _LEAST_BYTES and task.relaunches and task.product.leaves_flags and not findings_of(reports):
        # As in a graph that is launched twice, the parameters are the same, and the workspace is as the first call has left it.
        memory, _, _ = allocated(task, data, memory.read("workspace").tobytes())
        reports = emulated(task, launches, memory)
        if not findings_of(reports) and (memory.read_rows("d")[0] != lines).any():
            wrong = {"disposition": "incorrect", "reason": "it gives another D"}
            raise OutcomeError("a second call with the workspace as the first has left it", wrong)
    return written, reports


def in_place(data: Operands) -> Operands | None:
    """The same with a C that lies in memory as D does, for a call with D in its place; None where there is none of D's shape."""
    if data.c is None or data.c.view.shape != data.d.view.shape:
        return None
    of_d = replace(data.d, memory=data.d.memory.copy())
    of_d.view[...] = data.c.view
    return replace(data, c=of_d)


def multiply_in(
    task: Task, data: Operands, size: int | None = None, *, c_is_d: bool = False
) -> tuple[npt.NDArray[Any], list[Report]]:
    """The same as multiply() with a workspace of so many bytes, None for as many as the kernel can use. c_is_d: with D in the place
    of C; see in_place."""
    contents = _workspace(task, data) if size is None else _ARBITRARY * size
    memory, workspace, addresses = allocated(task, data, contents, c_is_d=c_is_d)
    reports = emulated(task, host.multiply_launches(task, data, addresses, workspace), memory)
    return results(task, data, memory)[1], reports


def results(task: Task, data: Operands, memory: GlobalMemory) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Fills D and the other tensors that are written with what memory holds. Returns D's bytes, and which were written."""
    lines, written = memory.read_rows("d")
    data.d.lines[...] = lines.view(data.d.view.dtype).reshape(data.d.lines.shape)
    for one in task.product.arguments.tensors:
        if one.written and one.name in data.further:  # it may be optional
            matrix, (found, stored) = data.further[one.name], memory.read_rows(one.name)
            data.results[one.name] = found.view(matrix.view.dtype).reshape(matrix.lines.shape), stored
    return lines, written


def traced(task: Task) -> list[Event]:
    """What the first CTA of the kernel does with its mbarriers, of the launch that does most. Raises EmulationError and
    HostError."""
    data = operands(task.product, task.problem, task.distribution, task.seed)
    memory, workspace, addresses = allocated(task, data, _workspace(task, data))
    found: list[Event] = []
    for one in host.multiply_launches(task, data, addresses, workspace):
        trace = Trace()
        host.emulate(task, one, memory, host.multiply_steps(task, one), trace)
        found = max(found, trace.events, key=len)
    return found


def _workspace(task: Task, data: Operands) -> bytes:
    """What the workspace of a call holds. A library chooses by whether it is given one, so that each of its calls is given one,
    also where the kernel needs no bytes of it."""
    size = host.workspace_bytes(task, data) if task.takes_workspace else 0
    chooses = task.library is not None and task.library.takes_workspace
    return _ARBITRARY * max(size, _LEAST_BYTES if chooses else 0)


def _check_size(task: Task, data: Operands, addresses: dict[str, int], workspace: Workspace, count: int) -> None:
    """Raises EmulationError where the call, of `count` launches, does other work with a workspace larger than what
    NAME_workspace_bytes says."""
    address = workspace.address or _NOWHERE
    sizes = workspace.size, _PLENTY
    given, more = (host.multiply_arguments(task, data, addresses, Workspace(address, size)) for size in sizes)
    said = f"{task.symbol('workspace_bytes')} says {workspace.size} bytes"
    if host.uses_more(task, given, more, count):
        raise EmulationError(f"{said}, but with a larger workspace the call launches other work")
    if workspace.size <= _LEAST_BYTES or task.library:
        return
    short = host.multiply_arguments(task, data, addresses, Workspace(address, _LEAST_BYTES))
    none = host.multiply_arguments(task, data, addresses, Workspace())
    if task.product.needs_workspace:
        if not host.is_refused(task, short):
            raise EmulationError(f"{said}, but a call with a workspace of {_LEAST_BYTES} bytes is not refused")
    elif not host.launches_alike(task, none, short):
        raise EmulationError(f"{said}, but with {_LEAST_BYTES} bytes the call launches other work than without a workspace")
    if task.product.leaves_flags and task.relaunches and not host.draws_anew(task, given):
        raise EmulationError(
            "two calls with a workspace have the same parameters: the flags that one leaves count for the other"
        )


def emulated(task: Task, launches: Sequence[CapturedLaunch], memory: GlobalMemory) -> list[Report]:
    """What was seen in the launches of one call, up to the first that does not end."""
    reports: list[Report] = []
    for one in launches:
        reports.append(host.emulate(task, one, memory, host.multiply_steps(task, one)))
        if not reports[-1].completed:
            break
    return reports


def allocated(
    task: Task, data: Operands, contents: bytes, *, c_is_d: bool = False
) -> tuple[GlobalMemory, Workspace, dict[str, int]]:
    """Device memory with a workspace of these contents, the operands and the scalars, and where they begin there. They begin at
    the same addresses in every such memory. c_is_d: D holds C, and C is there."""
    memory = GlobalMemory()
    access = {"d": "write"} | {one.name: one.access for one in task.product.arguments.tensors}
    addresses: dict[str, int] = {}
    for name, matrix in data.matrices.items():
        if c_is_d and data.c and name in "cd":
            if name == "d":
                addresses |= dict.fromkeys("cd", memory.allocate("d", data.c.memory, rows=matrix.rows_of_memory))
            continue
        if access.get(name) == "write":
            addresses[name] = memory.allocate(name, size=len(matrix.memory), rows=matrix.rows_of_memory)
            continue
        writable = access.get(name) == "update"
        addresses[name] = memory.allocate(name, matrix.memory, writable=writable, rows=matrix.rows_of_memory)
    addresses |= host.scalars_in_memory(task, memory)
    if not contents:
        return memory, Workspace(), addresses
    workspace = Workspace(memory.allocate("workspace", contents, misalign=WORKSPACE_ALIGNMENT), len(contents))
    return memory, workspace, addresses
