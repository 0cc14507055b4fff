"""A kernel launch as the project's host code would make it (gemm_launch.cuh, micro_launch.cuh, ownership_kernel.cuh)."""

from __future__ import annotations

import ctypes
import re

from mmagen.plan.plans import GemmPlan as Plan
from mmagen.spec.model import Problem
from mmagen.verify.emulated import hopper_arguments
from mmagen.verify.emulated.launches import (
    Launch,
    TileSchedulerParams,
    bytes_of,
    matrix_fields,
    pointer_of,
    scalar_of,
    structure,
    tile_raster,
)
from mmagen.verify.emulated.matrices import Matrix, Operands


def of(plan: Plan, problem: Problem, data: Operands, addresses: dict[str, int]) -> Launch:
    """The launch of a gemm or micro kernel; addresses: of the first byte of a, b, c, d in memory."""
    if plan.kernel != "gemm":
        return micro(data, addresses)
    return (hopper_arguments.gemm if plan.operands[0].tma else gemm)(plan, problem, data, addresses)


def gemm(plan: Plan, problem: Problem, data: Operands, addresses: dict[str, int]) -> Launch:
    """GemmParams and the choice between wide and narrow copies; addresses: of the first byte of a, b, c, d in memory."""
    tiles_m, tiles_n = -(-problem.m // plan.tile[0]), -(-problem.n // plan.tile[1])
    fields, values = matrix_fields(data, addresses)
    wide = _aligned(data.a, values["a"]) and _aligned(data.b, values["b"])
    wide_d = _aligned(data.d, values["d"]) and _aligned(data.c or data.d, values["c"])
    scalar, number = scalar_of(plan)
    extents = [("m", ctypes.c_int), ("n", ctypes.c_int)]
    mainloop = structure("MainloopParams", [*extents, ("k", ctypes.c_int), *fields[:6]])
    epilogue = structure(
        "EpilogueParams", [*extents, *fields[6:], ("alpha", scalar), ("beta", scalar), ("wide", ctypes.c_bool)]
    )
    whole = structure("GemmParams", [("mainloop", mainloop), ("epilogue", epilogue), ("scheduler", TileSchedulerParams)])
    names = [name for name, _ in fields]
    params = whole(
        mainloop(m=problem.m, n=problem.n, k=problem.k, **{name: values[name] for name in names[:6]}),
        epilogue(
            m=problem.m,
            n=problem.n,
            **{name: values[name] for name in names[6:]},
            alpha=number(problem.alpha),
            beta=number(problem.beta),
            wide=wide_d,
        ),
        TileSchedulerParams(
            tile_raster(tiles_m, tiles_n, plan.scheduler.raster_group),
            tiles_m * tiles_n * problem.batch,
            -(-problem.k // plan.tile[2]),
        ),
    )
    return Launch(re.compile(rf"gemm_kernel.*Lb{int(wide)}E"), tiles_m * tiles_n * problem.batch, bytes(params))


def micro(data: Operands, addresses: dict[str, int]) -> Launch:
    """Pointers and leading dimensions of A, B and D."""
    words = []
    for name, matrix in (("a", data.a), ("b", data.b), ("d", data.d)):
        words += [pointer_of(matrix, addresses[name]), matrix.ld]
    return Launch(re.compile("micro_kernel"), 1, _words(words))


def ownership(addresses: dict[str, int]) -> Launch:
    """Pointers to the three stacks of planes."""
    return Launch(re.compile("ownership_kernel"), 1, _words([addresses[name] for name in "abc"]))


def _words(values: list[int]) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def _aligned(matrix: Matrix, pointer: int) -> bool:
    batch_step = matrix.batch_stride if matrix.batch > 1 else 0  # as rows_are_aligned in gemm_arguments.cuh
    return (pointer | matrix.ld * bytes_of(matrix) | batch_step * bytes_of(matrix)) % 16 == 0
