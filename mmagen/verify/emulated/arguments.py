"""A kernel launch as the project's host code would make it (gemm_launch.cuh, micro_launch.cuh, ownership_kernel.cuh)."""

from __future__ import annotations

import ctypes
import re

from mmagen.plan.plans import GemmPlan as Plan
from mmagen.spec.model import Problem
from mmagen.verify.emulated import hopper_arguments
from mmagen.verify.emulated.launches import Launch, bytes_of, matrix_fields, pointer_of, scalar_of, structure
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
    fields = [
        ("m", ctypes.c_int),
        ("n", ctypes.c_int),
        ("k", ctypes.c_int),
        ("tiles_m", ctypes.c_uint),
        ("tiles_n", ctypes.c_uint),
        *fields,
        ("alpha", scalar),
        ("beta", scalar),
        ("wide_d", ctypes.c_bool),
    ]
    params = structure("GemmParams", fields)(
        m=problem.m,
        n=problem.n,
        k=problem.k,
        tiles_m=tiles_m,
        tiles_n=tiles_n,
        **values,
        alpha=number(problem.alpha),
        beta=number(problem.beta),
        wide_d=wide_d,
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
    batch_step = matrix.batch_stride if matrix.batch > 1 else 0  # as is_aligned in gemm_launch.cuh has it
    return (pointer | matrix.ld * bytes_of(matrix) | batch_step * bytes_of(matrix)) % 16 == 0
