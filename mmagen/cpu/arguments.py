"""A kernel launch as the project's host code would make it (gemm_launch.cuh, micro_launch.cuh, ownership_kernel.cuh)."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass

from mmagen.cpu.matrices import Matrix, Operands
from mmagen.plan.model import Plan
from mmagen.spec import Problem

_SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "s32": ctypes.c_int32}


@dataclass(frozen=True)
class Launch:
    """entry: pattern of the mangled kernel name. grid: CTAs. params: the kernel's parameter bytes."""

    entry: re.Pattern[str]
    grid: int
    params: bytes


def of(plan: Plan, problem: Problem, data: Operands, addresses: dict[str, int]) -> Launch:
    """The launch of a gemm or micro kernel; addresses: of the first byte of a, b, c, d in memory."""
    return gemm(plan, problem, data, addresses) if plan.kernel == "gemm" else micro(data, addresses)


def gemm(plan: Plan, problem: Problem, data: Operands, addresses: dict[str, int]) -> Launch:
    """GemmParams and the choice between wide and narrow copies; addresses: of the first byte of a, b, c, d in memory."""
    tiles_m, tiles_n = -(-problem.m // plan.tile[0]), -(-problem.n // plan.tile[1])
    c = data.c or data.d
    place = {name: _pointer(matrix, addresses[name])
             for name, matrix in (("a", data.a), ("b", data.b), ("c", c), ("d", data.d))}
    wide = _aligned(data.a, place["a"]) and _aligned(data.b, place["b"])
    wide_d = _aligned(data.d, place["d"]) and _aligned(c, place["c"])
    scalar = _SCALARS[plan.epilogue.scalar.word]
    number = int if plan.epilogue.scalar.word == "s32" else float
    fields = [("m", ctypes.c_int), ("n", ctypes.c_int), ("k", ctypes.c_int), ("tiles_m", ctypes.c_uint),
              ("tiles_n", ctypes.c_uint)]
    for name in "abcd":
        fields += [(name, ctypes.c_uint64), (f"ld{name}", ctypes.c_int64), (f"stride_{name}", ctypes.c_int64)]
    fields += [("alpha", scalar), ("beta", scalar), ("wide_d", ctypes.c_bool)]
    strides = {f"ld{n}": x.ld for n, x in (("a", data.a), ("b", data.b), ("c", c), ("d", data.d))}
    strides |= {f"stride_{n}": x.batch_stride for n, x in (("a", data.a), ("b", data.b), ("c", c), ("d", data.d))}
    params = type("GemmParams", (ctypes.Structure,), {"_fields_": fields})(
        m=problem.m, n=problem.n, k=problem.k, tiles_m=tiles_m, tiles_n=tiles_n, **place, **strides,
        alpha=number(problem.alpha), beta=number(problem.beta), wide_d=wide_d)
    return Launch(re.compile(rf"gemm_kernel.*Lb{int(wide)}E"), tiles_m * tiles_n * problem.batch, bytes(params))


def micro(data: Operands, addresses: dict[str, int]) -> Launch:
    """Pointers and leading dimensions of A, B and D."""
    words = []
    for name, matrix in (("a", data.a), ("b", data.b), ("d", data.d)):
        words += [_pointer(matrix, addresses[name]), matrix.ld]
    return Launch(re.compile("micro_kernel"), 1, _words(words))


def ownership(addresses: dict[str, int]) -> Launch:
    """Pointers to the three stacks of planes."""
    return Launch(re.compile("ownership_kernel"), 1, _words([addresses[name] for name in "abc"]))


def _words(values: list[int]) -> bytes:
    return b"".join(value.to_bytes(8, "little") for value in values)


def _pointer(matrix: Matrix, address: int) -> int:
    return address + matrix.offset * _bytes(matrix)


def _aligned(matrix: Matrix, pointer: int) -> bool:
    batch_step = matrix.batch_stride if matrix.batch > 1 else 0  # as is_aligned in gemm_launch.cuh has it
    return (pointer | matrix.ld * _bytes(matrix) | batch_step * _bytes(matrix)) % 16 == 0


def _bytes(matrix: Matrix) -> int:
    return matrix.view.itemsize
