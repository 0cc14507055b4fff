"""A call with less workspace than the kernel can use: it may use no byte behind it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import cast

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
from mmagen.verify.emulated.product import in_place, multiply_in
from mmagen.verify.emulated.task import Task

# Bytes that are missing: more than a workspace is longer for the sake of its alignment, and less than partial sums take.
_MISSING = 144
_ADDRESS = 1 << 20
_WHOLE = 16  # bytes, and elements: lines of so many begin at multiples of 16 bytes, whatever their type


def check(task: Task) -> dict[str, object]:
    """The outcome of such a call, with the smallest of the kernel's problems that it has a workspace for, and with a C that is D;
    then of one whose operands are copied to the workspace in front of parts of K. {} where there is none. Raises HostError where
    it is refused although the kernel can do without."""
    if task.library or not task.product.kernels_take_workspace:
        return {}
    cases = family_of(task.plan).trials(task.plan).cases
    aligned = {problem for problem, distribution in cases if distribution == "small_int" and _is_aligned(problem)}
    plan = cast(GemmPlan, task.plan)
    # Sums in a workspace are added up by a kernel of their own, pieces made by one.
    least = 1 + (plan.scheduler.workspace_splits is not None) + bool(plan.needs_workspace)
    outcome = _of_first(task, aligned, least)
    copies = plan.copies_operands and plan.scheduler.workspace_splits is not None
    if not copies or outcome.get("disposition", "passed") != "passed":
        return outcome
    return _of_first(task, {one.model_copy(update={"ld_pad": 1}) for one in aligned}, least + 1) or outcome


def _of_first(task: Task, problems: Collection[Problem], least: int) -> dict[str, object]:
    """The outcome with the smallest of the problems whose call launches so many kernels with a workspace, one for each part of
    the work; {} if there is none."""
    plan = cast(GemmPlan, task.plan)
    for chosen in sorted(problems, key=lambda one: one.m * one.n * one.k * one.batch):
        (problem,) = as_applied(plan.spec, (chosen.model_copy(update={"beta": 2.0}),))
        one = replace(task, problem=problem, distribution="small_int")
        data = operands(one.product, problem, one.distribution, one.seed)
        same = in_place(data)
        data = same or data
        size = host.workspace_bytes(one, data)
        if size <= _MISSING or len(_launches(one, data, size)) < least:
            continue
        # Of stream-K the last cluster leaves no sums: its part of the workspace is never accessed.
        short = size // 2 // _WHOLE * _WHOLE if one.product.leaves_flags else size - _MISSING
        try:
            written, reports = multiply_in(one, data, short, c_is_d=same is not None)
        except HostError as error:
            if one.product.needs_workspace and host.says_short_workspace(error):
                return {}
            raise
        return with_findings(compare(one.product, problem, data, written, one.distribution).reason, reports)
    return {}


def _launches(task: Task, data: Operands, size: int) -> tuple[CapturedLaunch, ...]:
    """Those of the call with so large a workspace, wherever its matrices lie."""
    somewhere = dict.fromkeys(data.matrices, _ADDRESS)
    return host.multiply_launches(task, data, somewhere, Workspace(_ADDRESS, size))


def _is_aligned(problem: Problem) -> bool:
    """Can TMA address all operands, and are lines as short as they can be?"""
    strides = (getattr(problem, f"batch_stride_{letter}") for letter in "abcd")
    return (
        not problem.offset and not problem.ld_pad and not any(extent % _WHOLE for extent in problem.shape) and not any(strides)
    )
