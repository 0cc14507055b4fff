"""Partial sums that lie as far apart in the workspace as those of a large D: offsets of 32 bits wrap around.

A D whose partial sums take 2^31 elements is too large to be emulated. A small call is launched instead, whose kernels are told that
the lines of the sums, and with them matrices and parts of K, are farther apart.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from mmagen.emulate import Rows
from mmagen.families import family_of
from mmagen.host_runtime.library import CapturedLaunch, HostError
from mmagen.plan.operations import as_applied
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.compare import compare
from mmagen.verify.emulated.findings import with_findings
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import Operands
from mmagen.verify.emulated.product import allocated, emulated, results
from mmagen.verify.emulated.task import Task

_ELEMENT = 4  # bytes of a sum
_VECTOR = 8  # elements, of which lines of sums are multiples
_PITCH = 1 << 29  # elements from line to line
_EXTENT, _BATCH = 16, 2
_MOST_TILES = 64  # of K, until a kernel that decides for itself splits it
# PartialSums of split_k_reduction.cuh: data; then along and across; pitch, matrix_stride and split_stride; splits.
_POINTER, _MEMBERS = struct.Struct("<Q"), struct.Struct("<iiqqqi")


@dataclass(frozen=True)
class _Sums:
    """Of a call: extents and strides in elements."""

    along: int
    across: int
    pitch: int
    batch: int
    splits: int

    def members(self, pitch: int) -> bytes:
        """As a kernel has them, with lines so far apart."""
        of_matrix = self.across * pitch
        return _MEMBERS.pack(self.along, self.across, pitch, of_matrix, of_matrix * self.batch, self.splits)

    @property
    def lines(self) -> int:
        """Of all matrices and parts of K."""
        return self.across * self.batch * self.splits


def check(task: Task) -> dict[str, object]:
    """The outcome of such a call; {} for a kernel without parts of K in a workspace, for a library, and where the workspace holds
    more. Raises HostError where the kernels do not have the sums where their extents say."""
    plan = cast(GemmPlan, task.plan)
    if task.library or plan.scheduler.workspace_splits is None or plan.needs_workspace or plan.scheduler.grouped:
        return {}
    k_tiles = max(2, plan.scheduler.workspace_splits)
    while k_tiles <= _MOST_TILES:
        shape = (_EXTENT, _EXTENT, k_tiles * plan.tile[2])
        (problem,) = as_applied(plan.spec, (Problem(shape=shape, batch=_BATCH, beta=2.0),))
        one = replace(task, problem=problem, distribution="small_int")
        data = operands(plan, problem, one.distribution, one.seed)
        if not any(family_of(plan).problem_faults(plan, (problem,))) and (sums := _sums(one, data)):
            return _outcome(one, data, sums)
        k_tiles *= 2
    return {}


def _sums(task: Task, data: Operands) -> _Sums | None:
    """Of the call, if K has several parts."""
    plan, problem = cast(GemmPlan, task.plan), task.problem
    along, across = (problem.n, problem.m) if plan.majors[2] == "N" else (problem.m, problem.n)
    pitch = -(-along // _VECTOR) * _VECTOR
    splits = host.workspace_bytes(task, data) // (across * pitch * problem.batch * _ELEMENT)
    return _Sums(along, across, pitch, problem.batch, splits) if splits > 1 else None


def _outcome(task: Task, data: Operands, sums: _Sums) -> dict[str, object]:
    memory, _, addresses = allocated(task, data, b"")
    rows = Rows(0, sums.along * _ELEMENT, (sums.lines,), (_PITCH * _ELEMENT,))
    address = memory.allocate("workspace", size=sums.lines * _PITCH * _ELEMENT, rows=rows)
    given = sums.lines * sums.pitch * _ELEMENT
    launches = host.multiply_launches(task, data, addresses, Workspace(address, given))
    reports = emulated(task, _told(launches, address, sums), memory)
    stored = results(task, data, memory)[1]
    return with_findings(compare(task.product, task.problem, data, stored, task.distribution).reason, reports)


def _told(launches: Sequence[CapturedLaunch], address: int, sums: _Sums) -> list[CapturedLaunch]:
    """The launches with lines of sums that are farther apart."""
    pointer = _POINTER.pack(address)
    has, gets = (pointer + sums.members(pitch) for pitch in (sums.pitch, _PITCH))
    for one in launches:
        if one.params.count(has) != 1:
            raise HostError(
                f"the parameters of {one.entry} do not have the partial sums of a D of {sums.across} x {sums.along}"
            )
    return [replace(one, params=one.params.replace(has, gets)) for one in launches]
