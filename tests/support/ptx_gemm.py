"""Runs a generated GEMM on arrays, launched as its own host code launches it."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from mmagen.build.ptx import Ptx
from mmagen.emulate import GlobalMemory, Module, Report, launch
from mmagen.families import plan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.task import Task

_VECTOR = 8  # elements of 16 bytes, of 16 bits each


def run_gemm(
    ptx: Ptx,
    spec: bytes,
    module: Module,
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    alpha: float = 1.0,
    beta: float = 0.0,
    c: npt.NDArray[Any] | None = None,
    wide: bool = True,
    **options: Any,
) -> tuple[npt.NDArray[Any], Report]:
    """D = alpha * A * B^T + beta * C with A (M,K) and B (N,K), both K contiguous and of 16 bits, as (D, report).

    ptx: the project's, with its host code; spec: the project's; module: its kernels, edited or not. wide: rows begin at
    multiples of 16 bytes. options: of mmagen.emulate.launch.
    """
    (m, k), n = a.shape, len(b)
    pad = -k % _VECTOR + (0 if wide else 1)
    problem = Problem(shape=(m, n, k), ld_pad=pad, alpha=alpha, beta=beta)
    task = Task(plan(load(spec, ptx.name).spec), ptx, problem, "zeros", 1)
    data = operands(task.product, problem, task.distribution, task.seed)
    memory, addresses = GlobalMemory(), {}
    for name, matrix, values in (("a", data.a, a), ("b", data.b, b), ("c", data.c, c)):
        if matrix:
            matrix.view[0] = values
            addresses[name] = memory.allocate(name, matrix.memory, writable=False)
    addresses["d"] = memory.allocate("d", size=len(data.d.memory))
    captured = host.multiply_launch(task, data, addresses, Workspace())
    report = launch(
        module,
        captured.entry,
        grid=captured.grid,
        block=captured.block,
        dynamic_smem=captured.shared_bytes,
        params=captured.params,
        memory=memory,
        **options,
    )
    data.d.memory[:] = memory.read("d")
    return data.d.view[0], report
