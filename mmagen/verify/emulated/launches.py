"""What the host code of a project hands to a launch, and what it needs for that of a matrix."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass

from mmagen.plan.plans import GemmPlan as Plan
from mmagen.verify.emulated.matrices import Matrix, Operands

_SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "s32": ctypes.c_int32}


@dataclass(frozen=True)
class Launch:
    """entry: pattern of the mangled kernel name. grid: CTAs. params: the kernel's parameter bytes. threads: of a CTA, 0
    for as many as the plan says. cluster: CTAs of a cluster. unaligned: the kernel of the second translation unit."""

    entry: re.Pattern[str]
    grid: int
    params: bytes
    threads: int = 0
    cluster: int = 1
    unaligned: bool = False


def pointer_of(matrix: Matrix, address: int) -> int:
    """Of the first element, where the memory begins at `address`."""
    return address + matrix.offset * bytes_of(matrix)


def bytes_of(matrix: Matrix) -> int:
    """Of one element."""
    return matrix.view.itemsize


def structure(name: str, fields: list) -> type[ctypes.Structure]:
    """A C struct of (name, type) each."""
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def matrix_fields(data: Operands, addresses: dict[str, int]) -> tuple[list, dict[str, int]]:
    """(fields, values) of pointers, leading dimensions and batch strides of A, B, C and D; without a C, D stands for it."""
    fields, values = [], {}
    for name, matrix in (("a", data.a), ("b", data.b), ("c", data.c or data.d), ("d", data.d)):
        fields += [(name, ctypes.c_uint64), (f"ld{name}", ctypes.c_int64), (f"stride_{name}", ctypes.c_int64)]
        values |= {name: pointer_of(matrix, addresses[name]), f"ld{name}": matrix.ld, f"stride_{name}": matrix.batch_stride}
    return fields, values


def scalar_of(plan: Plan) -> tuple[type, type]:
    """(C type, Python type) of alpha and beta."""
    word = plan.epilogue.scalar.word
    return _SCALARS[word], int if word == "s32" else float


class FastDivmod(ctypes.Structure):
    """FastDivmod in tile_raster.cuh."""

    _fields_ = [("divisor", ctypes.c_uint), ("multiplier", ctypes.c_uint), ("shift", ctypes.c_uint)]


class TileRaster(ctypes.Structure):
    """TileRaster in tile_raster.cuh."""

    _fields_ = [(name, FastDivmod) for name in ("per_batch", "band", "rows", "rows_of_last")]
    _fields_ += [("group", ctypes.c_uint), ("tiles_m", ctypes.c_uint)]


class TileSchedulerParams(ctypes.Structure):
    """TileSchedulerParams in tile_scheduler.cuh."""

    _fields_ = [("raster", TileRaster), ("tiles", ctypes.c_uint), ("k_tiles", ctypes.c_int)]


def fast_divmod(divisor: int) -> FastDivmod:
    """The multiplier and the shift for a divisor."""
    shift = (divisor - 1).bit_length()
    return FastDivmod(divisor, -(-(1 << (31 + shift)) // divisor) & 0xFFFFFFFF, shift)


def tile_raster(tiles_m: int, tiles_n: int, max_group: int) -> TileRaster:
    """tiles_m x tiles_n tiles in bands of at most max_group rows."""
    group = min(max_group, tiles_m)
    return TileRaster(
        fast_divmod(tiles_m * tiles_n),
        fast_divmod(group * tiles_n),
        fast_divmod(group),
        fast_divmod(tiles_m % group or group),
        group,
        tiles_m,
    )
