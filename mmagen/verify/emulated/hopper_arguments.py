"""A wgmma kernel's launch as the project's host code would make it (sm90_launch.cuh, sm90_unaligned.cuh)."""

from __future__ import annotations

import ctypes
import re

from mmagen.emulate import TensorMap
from mmagen.emulate.memory.tensor_map import BYTES
from mmagen.plan.plans import GemmPlan as Plan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.launches import (
    FastDivmod,
    Launch,
    TileRaster,
    TileSchedulerParams,
    bytes_of,
    fast_divmod,
    matrix_fields,
    pointer_of,
    scalar_of,
    structure,
    tile_raster,
)
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
    cluster, ctas = plan.scheduler.cluster, plan.scheduler.cluster_ctas
    clusters_m = -(-problem.m // (plan.tile[0] * cluster[0]))
    clusters_n = -(-problem.n // (plan.tile[1] * cluster[1]))
    scheduler = _StreamK() if plan.scheduler.stream_k else TileSchedulerParams()
    scheduler.raster = tile_raster(clusters_m, clusters_n, plan.scheduler.raster_group)
    scheduler.tiles = clusters = clusters_m * clusters_n * problem.batch
    scheduler.k_tiles = -(-problem.k // plan.tile[2])
    resident = max(1, min(_MOST_RESIDENT, clusters // _TILES_EACH)) if plan.scheduler.persistent else clusters
    if isinstance(scheduler, _StreamK):
        _share_last_wave(scheduler, addresses)
        resident = _STREAMING if scheduler.shared_tiles else min(_STREAMING, clusters)
    parts = (_mainloop_params(maps, data), _epilogue_params(plan, problem, maps[0][2], data, addresses), bytes(scheduler))
    return Launch(
        re.compile("sm90_kernel"),
        resident * ctas,
        b"".join(part.ljust(-(-len(part) // BYTES) * BYTES, b"\0") for part in parts),
        threads=plan.threads,
        cluster=ctas,
    )


def _mainloop_params(maps: tuple[tuple[TensorMap, ...], int], data: Operands) -> bytes:
    """Sm90TmaLoad::Params in sm90_tma_load.cuh."""
    fields = [("stage_bytes", ctypes.c_uint32), ("batch_step_a", ctypes.c_int), ("batch_step_b", ctypes.c_int)]
    rest = structure("Sm90TmaLoadParams", fields)(maps[1], int(data.a.batch_stride != 0), int(data.b.batch_stride != 0))
    return b"".join(map_.encode() for map_ in maps[0][:2]) + bytes(rest)


def _epilogue_params(plan: Plan, problem: Problem, map_d: TensorMap, data: Operands, addresses: dict[str, int]) -> bytes:
    """Sm90EpilogueTma::Params in sm90_epilogue_tma.cuh."""
    scalar, number = scalar_of(plan)
    c = data.c or data.d
    fields = [
        ("m", ctypes.c_int),
        ("n", ctypes.c_int),
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
    rest = structure("Sm90EpilogueTmaParams", fields)(
        m=problem.m,
        n=problem.n,
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
    return map_d.encode() + bytes(rest)


def _tensor_maps(plan: Plan, data: Operands, addresses: dict[str, int]) -> tuple[tuple[TensorMap, ...], int]:
    """(maps of A, B and D, the bytes that TMA writes to a stage): make_params() in sm90_tma_load.cuh, sm90_epilogue_tma.cuh."""
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
    """UnalignedParams in sm90_unaligned.cuh."""
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
    functor = structure("LinearCombinationArguments", [("alpha", scalar), ("beta", scalar)])
    whole = structure("UnalignedParams", [("args", type(arguments)), ("functor", functor), ("raster", TileRaster)])
    params = bytes(
        whole(
            args=arguments,
            functor=functor(number(problem.alpha), number(problem.beta)),
            raster=tile_raster(tiles_m, tiles_n, 8),
        )
    )
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


def _share_last_wave(scheduler: _StreamK, addresses: dict[str, int]) -> None:
    """share_last_wave() in sm90_tile_scheduler_stream_k.cuh."""
    scheduler.divide_by_k_tiles = fast_divmod(scheduler.k_tiles)
    waves, rest = divmod(scheduler.tiles, _STREAMING)
    worthwhile = rest > 0 and 3 * rest < 2 * _STREAMING
    tiles = 0 if not worthwhile else rest + _STREAMING if waves else scheduler.tiles
    total = tiles * scheduler.k_tiles
    if "flags" in addresses and total >= _FEWEST_K_TILES * _STREAMING:
        scheduler.shared_tiles = tiles
        scheduler.k_tiles_each, scheduler.extra = divmod(total, _STREAMING)
        scheduler.ready, scheduler.partials = addresses["flags"], addresses["partials"]


class _StreamK(TileSchedulerParams):
    """StreamKTileScheduler::Params."""

    _fields_ = [(name, ctypes.c_uint) for name in ("shared_tiles", "k_tiles_each", "extra")]
    _fields_ += [("divide_by_k_tiles", FastDivmod), ("partials", ctypes.c_uint64), ("ready", ctypes.c_uint64)]
