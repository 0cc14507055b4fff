"""A wgmma kernel's launch as the project's host code would make it (sm90_launch.cuh, sm90_unaligned.cuh)."""

from __future__ import annotations

import ctypes
import re

from mmagen.emulate import TensorMap
from mmagen.plan.plans import GemmPlan as Plan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.launches import Launch, bytes_of, matrix_fields, pointer_of, scalar_of, structure
from mmagen.verify.emulated.matrices import Matrix, Operands

# A GPU runs as many clusters as fit; here so few that each walks over several tiles, and two of them side by side. Of
# those that share the tiles of a last wave, three: one has a neighbour on either side.
_MOST_RESIDENT = 2
_TILES_EACH = 3
_STREAMING = 3
_D_ROWS = 16
_SPLIT_LINES = 8
_FEWEST_K_TILES = 8


def gemm(plan: Plan, problem: Problem, data: Operands, addresses: dict[str, int]) -> Launch:
    """Sm90Params where TMA can address all matrices, else the kernel that copies element by element."""
    maps = _tensor_maps(plan, data, addresses)
    if any(map_.fault() for map_ in maps[0]):
        return _unaligned(plan, problem, data, addresses)
    hopper = plan.scheduler

    ctas = hopper.cluster[0] * hopper.cluster[1] * hopper.split_k
    clusters_m = -(-problem.m // (plan.tile[0] * hopper.cluster[0]))
    clusters_n = -(-problem.n // (plan.tile[1] * hopper.cluster[1]))
    clusters = clusters_m * clusters_n * problem.batch
    scalar, number = scalar_of(plan)
    c = data.c or data.d
    fields = [
        ("m", ctypes.c_int),
        ("n", ctypes.c_int),
        ("k", ctypes.c_int),
        ("raster", _Raster),
        ("clusters", ctypes.c_uint),
        ("stage_bytes", ctypes.c_uint32),
        ("batch_step_a", ctypes.c_int),
        ("batch_step_b", ctypes.c_int),
        ("c", ctypes.c_uint64),
        ("ldc", ctypes.c_int64),
        ("batch_stride_c", ctypes.c_int64),
        ("d", ctypes.c_uint64),
        ("ldd", ctypes.c_int64),
        ("batch_stride_d", ctypes.c_int64),
        ("ragged_d", ctypes.c_bool),
        ("alpha", scalar),
        ("beta", scalar),
    ]
    if hopper.stream_k:
        fields.append(("streamed", _Streamed))
    rest = structure("Sm90Params", fields)(
        m=problem.m,
        n=problem.n,
        k=problem.k,
        raster=_raster(clusters_m, clusters_n, plan.scheduler.raster_group),
        clusters=clusters,
        stage_bytes=maps[1],
        batch_step_a=int(data.a.batch_stride != 0),
        batch_step_b=int(data.b.batch_stride != 0),
        c=pointer_of(c, addresses["c"]),
        ldc=c.ld,
        batch_stride_c=c.batch_stride,
        d=pointer_of(data.d, addresses["d"]),
        ldd=data.d.ld,
        batch_stride_d=data.d.batch_stride,
        ragged_d=_ragged(data.d),
        alpha=number(problem.alpha),
        beta=number(problem.beta),
    )
    resident = max(1, min(_MOST_RESIDENT, clusters // _TILES_EACH)) if hopper.persistent else clusters
    if hopper.stream_k:
        rest.streamed = _streamed(clusters, -(-problem.k // plan.tile[2]), addresses)
        resident = _STREAMING if rest.streamed.tiles else min(_STREAMING, clusters)
    params = b"".join(map_.encode() for map_ in maps[0]) + bytes(rest)
    return Launch(
        re.compile("sm90_kernel"),
        resident * ctas,
        params.ljust(-(-len(params) // TensorMap.BYTES) * TensorMap.BYTES, b"\0"),
        threads=plan.threads,
        cluster=ctas,
    )


def _tensor_maps(plan: Plan, data: Operands, addresses: dict[str, int]) -> tuple[tuple[TensorMap, ...], int]:
    """(maps of A, B and D, the bytes that TMA brings to a stage): describe() in sm90_launch.cuh."""
    a, b = plan.operands
    maps, stage_bytes = [], 0
    for operand, matrix, share in ((a, data.a, plan.scheduler.cluster[1]), (b, data.b, plan.scheduler.cluster[0])):
        tma = operand.tma
        assert tma
        across = matrix.rows if operand.contiguous_k else matrix.columns
        whole = not operand.contiguous_k or tma.boxes * share > 1 or across >= tma.box_across
        lines = tma.box_across if whole else -(-across // _SPLIT_LINES) * _SPLIT_LINES
        stage_bytes += share * tma.boxes * tma.panels * lines * operand.line * bytes_of(matrix)
        maps.append(_tensor_map(matrix, addresses[operand.letter.lower()], operand.line, lines, tma.swizzle_bytes))
    columns = plan.epilogue.slice
    along, across = (columns, _D_ROWS) if plan.epilogue.row_major else (_D_ROWS, columns)
    maps.append(_tensor_map(data.d, addresses["d"], along, across, along * bytes_of(data.d)))
    return tuple(maps), stage_bytes


def _ragged(matrix: Matrix) -> bool:
    """Are the contiguous runs of a matrix no whole number of 16 bytes?"""
    along = matrix.columns if matrix.columns_contiguous else matrix.rows
    return along * bytes_of(matrix) % 16 != 0


def _tensor_map(matrix: Matrix, address: int, along: int, across: int, swizzle: int) -> TensorMap:
    """encode_tensor_map() in sm90_tensor_map.cuh."""
    size = bytes_of(matrix)
    inner, outer = (matrix.columns, matrix.rows) if matrix.columns_contiguous else (matrix.rows, matrix.columns)
    # A matrix that every batch shares, or that is alone, has one element in its last mode.
    batch = matrix.batch if matrix.batch_stride else 1
    batch_stride = 16 if batch == 1 else matrix.batch_stride * size
    return TensorMap(
        pointer_of(matrix, address),
        size,
        (inner, outer, batch),
        (matrix.ld * size, batch_stride),
        (along, across, 1),
        swizzle if swizzle in (32, 64, 128) else 16,
    )


def _unaligned(plan: Plan, problem: Problem, data: Operands, addresses: dict[str, int]) -> Launch:
    """UnalignedParams: GemmArguments and the tiles."""
    scalar, number = scalar_of(plan)
    fields, values = matrix_fields(data, addresses)
    fields = [*((name, ctypes.c_int64) for name in ("m", "n", "k", "batch")), *fields, ("alpha", scalar), ("beta", scalar)]
    arguments = structure("GemmArguments", fields)(
        m=problem.m,
        n=problem.n,
        k=problem.k,
        batch=problem.batch,
        **values,
        alpha=number(problem.alpha),
        beta=number(problem.beta),
    )
    tiles_m, tiles_n = -(-problem.m // plan.tile[0]), -(-problem.n // plan.tile[1])
    whole = structure("UnalignedParams", [("args", type(arguments)), ("tiles_m", ctypes.c_uint), ("tiles_n", ctypes.c_uint)])
    params = bytes(whole(args=arguments, tiles_m=tiles_m, tiles_n=tiles_n))
    return Launch(
        re.compile("sm90_unaligned_kernel"),
        tiles_m * tiles_n * problem.batch,
        params,
        threads=plan.tiled_mma.threads,
        unaligned=True,
    )


def workspace(plan: Plan) -> tuple[int, int]:
    """(bytes of flags, bytes of partial sums) that the kernel shares tiles with; nothing where it does not."""
    hopper = plan.scheduler
    if not hopper.stream_k:
        return 0, 0
    ctas = _STREAMING * hopper.cluster[0] * hopper.cluster[1] * hopper.split_k
    return -(-ctas * 4 // 1024) * 1024, ctas * plan.tile[0] * plan.tile[1] * 4


def _streamed(clusters: int, k_tiles: int, addresses: dict[str, int]) -> _Streamed:
    """stream_last_wave() in sm90_launch.cuh."""
    streamed = _Streamed(k_tiles=_divisor(k_tiles))
    waves, rest = divmod(clusters, _STREAMING)
    worth = rest > 0 and 3 * rest < 2 * _STREAMING
    tiles = 0 if not worth else rest + _STREAMING if waves else clusters
    total = tiles * k_tiles
    if "flags" in addresses and total >= _FEWEST_K_TILES * _STREAMING:
        streamed.tiles, streamed.share, streamed.extra = tiles, total // _STREAMING, total % _STREAMING
        streamed.arrived, streamed.partials = addresses["flags"], addresses["partials"]
    return streamed


class _Divisor(ctypes.Structure):
    """Divisor in raster.cuh."""

    _fields_ = [("value", ctypes.c_uint), ("multiplier", ctypes.c_uint), ("shift", ctypes.c_uint)]


class _Raster(ctypes.Structure):
    """Raster in raster.cuh."""

    _fields_ = [(name, _Divisor) for name in ("per_batch", "band", "rows", "rows_of_last")]
    _fields_ += [("group", ctypes.c_uint), ("tiles_m", ctypes.c_uint)]


class _Streamed(ctypes.Structure):
    """StreamedTiles in sm90_params.cuh."""

    _fields_ = [(name, ctypes.c_uint) for name in ("tiles", "share", "extra")]
    _fields_ += [("k_tiles", _Divisor), ("partials", ctypes.c_uint64), ("arrived", ctypes.c_uint64)]


def _divisor(value: int) -> _Divisor:
    shift = (value - 1).bit_length()
    return _Divisor(value, -(-(1 << (31 + shift)) // value) & 0xFFFFFFFF, shift)


def _raster(tiles_m: int, tiles_n: int, most: int) -> _Raster:
    group = min(most, tiles_m)
    return _Raster(
        _divisor(tiles_m * tiles_n),
        _divisor(group * tiles_n),
        _divisor(group),
        _divisor(tiles_m % group or group),
        group,
        tiles_m,
    )
