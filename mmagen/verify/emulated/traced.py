"""The trace of a gemm on a small problem: some work tiles for each CTA, and a few more k tiles than stages in each."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import cast

from mmagen.build.ptx import compile_ptx
from mmagen.core.errors import BuildError, UsageError
from mmagen.emulate import EmulationError, Event
from mmagen.families import pipelines
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.host_runtime.library import HostError
from mmagen.plan.plans import GemmPlan
from mmagen.plan.project import ProjectPlan
from mmagen.spec.model import Problem
from mmagen.toolchain.identity import open_cache
from mmagen.toolchain.model import Toolchain
from mmagen.verify.emulated.product import traced
from mmagen.verify.emulated.session import only_on_a_gpu
from mmagen.verify.emulated.task import Task

_MORE = 2  # k tiles than stages
_TILES = 3  # of a cluster, along N: the emulated device runs one cluster at a time where there are so few


def trace(plan: ProjectPlan, toolchain: Toolchain) -> list[Event]:
    """Compiles the kernel and emulates it. Raises UsageError for what is no gemm, for a library and for what is not
    emulated, BuildError if it does not compile, and EmulationError."""
    if not pipelines(plan):
        raise UsageError(f"{plan.name} is kernel: {plan.kernel}, which has no pipeline to trace: leave out --traced")
    plan = cast(GemmPlan, plan)
    if plan.configs:
        raise UsageError(f"{plan.name} is a library: a trace is of one kernel; make a spec of one of its configs")
    if reason := only_on_a_gpu(plan):
        raise UsageError(f"{plan.name} has no trace: {reason}")
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / plan.name
        write(render(plan, with_figures=False), project)
        ptx = compile_ptx(project, toolchain, cache=open_cache(toolchain, os.environ))
    if ptx.error:
        raise BuildError(f"{plan.name}: it does not compile: {ptx.error.splitlines()[0]}")
    try:
        return traced(Task(plan, ptx, problem(plan), "uniform", seed=1))
    except HostError as error:
        raise EmulationError(str(error)) from None


def problem(plan: GemmPlan) -> Problem:
    """The problem that is traced."""
    (m, n, k), (rows, columns) = plan.tile_of_d, plan.cluster_of_d
    return Problem(shape=(m * rows, n * columns * _TILES, k * (plan.stages + _MORE)))
