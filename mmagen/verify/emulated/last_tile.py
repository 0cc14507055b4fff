"""The last tile of a product of more than 2^16 rows, 2^16 columns and 2^27 tiles, of which only the last cluster is executed.

Coordinates of 16 bits, and divisions of a tile's index that are exact for small ones alone, give right results on all problems that
are small enough to be emulated whole. The sum of aligned operands is so long that each stage is filled and read again after three
rounds. Memory holds what the last tile needs: pointers are those of matrices whose other rows and columns lie where nothing may be
accessed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

from mmagen.families import family_of
from mmagen.plan.arguments import Tensor
from mmagen.plan.copies import by_threads
from mmagen.plan.countable import MOST
from mmagen.plan.operations import as_applied
from mmagen.plan.plans import GemmPlan, ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.compare import compare
from mmagen.verify.emulated.findings import with_findings
from mmagen.verify.emulated.matrices import operands, shapes_of
from mmagen.verify.emulated.matrix import Matrix, Operands
from mmagen.verify.emulated.product import allocated, results
from mmagen.verify.emulated.task import Task

_FAR = 1 << 16  # rows and columns before the tile, at least
_TILES = 1 << 28  # of clusters, at most
_BLOCK = 128  # rows or columns
_INSIDE = 16  # rows and columns of the tile that are inside of D
_ROUNDS = 4  # of the stages
_UNALIGNED = 2  # k tiles of operands that are not aligned, which take long to load
_LEAST_BYTES = 16  # of a workspace
_STRIDE = 64  # elements between the matrices of D: all but the last are never accessed


@dataclass(frozen=True)
class LastTile:
    """problem: the whole. part: the product of its last rows and columns, with lines as far apart."""

    problem: Problem
    part: Problem


def last_tile(plan: GemmPlan, offset: int) -> LastTile:
    """Of a batch with as many matrices as make about _TILES tiles of clusters, or of clusters of 16 CTAs about as many tiles as a
    call may have. offset: of the first elements, as a problem has it."""
    of_cluster = [extent * count for extent, count in zip(plan.tile_of_d, plan.cluster_of_d, strict=False)]
    before = [_tiles_before(extent) for extent in of_cluster]
    m_start, n_start = (count * extent for count, extent in zip(before, of_cluster, strict=True))
    m, n = (min(_INSIDE, extent) for extent in plan.tile_of_d[:2])
    k = plan.tile[2] * plan.scheduler.split_k * (_UNALIGNED if offset else _ROUNDS * plan.most_stages)
    pad = -(-max(m_start, n_start) // _INSIDE) * _INSIDE
    of_matrix = math.prod(count + 1 for count in before)
    batch = min(_TILES // of_matrix, MOST // (of_matrix * plan.scheduler.cluster_ctas))
    (part,) = as_applied(plan.spec, (Problem(shape=(m, n, k), ld_pad=pad, offset=offset, beta=1.0),))
    problem = part.model_copy(update={"shape": (m_start + m, n_start + n, k), "batch": batch})
    return LastTile(problem, part)


def _tiles_before(extent: int) -> int:
    """How many tiles of so many rows there are before the last one: whole blocks of scales, of metadata and of raster bands, and
    some more, so that the last band has fewer rows and no number of tiles is a power of two."""
    step = math.lcm(extent, _BLOCK) // extent
    return -(-_FAR // (extent * step)) * step + 2 * step


def check(task: Task) -> dict[str, object]:
    """The outcome of such calls, of operands that are aligned and, along K, of others; {} where it is as it must be, for groups,
    where operands are prepared by another kernel, and of a library for all but its first one. Raises EmulationError and HostError.
    """
    plan = cast(GemmPlan, task.plan)
    if task.library and plan is not task.library.kernels[0]:
        return {}
    if plan.needs_workspace or plan.scheduler.grouped or not all(map(_has_part, plan.arguments.tensors)):
        return {}
    # Vectors of unaligned lines along M or N begin with elements before the part.
    # A library loads them in the tile of one of its kernels.
    loader = task.library.kernels[by_threads(task.library.kernels)] if task.library else plan
    along_k = plan.majors[:2] == ("K", "K") and loader.tile_of_d == plan.tile_of_d
    offsets = (0, 1) if along_k else (0,)
    tiles = [last_tile(plan, offset) for offset in offsets]
    known = [one for one in tiles if not any(family_of(plan).problem_faults(plan, (one.part,)))]
    outcomes = (_outcome(task, one) for one in known)
    return next((one for one in outcomes if one.get("disposition", "passed") != "passed"), {})


def _has_part(tensor: Tensor) -> bool:
    """Do the lines of a tensor's part lie as those of the whole?"""
    return tensor.pitched or tensor.lines.of == "1" or tensor.line.of in ("k", "1")


def _outcome(task: Task, last: LastTile) -> dict[str, object]:
    of_part = replace(task, problem=last.part, distribution="small_int")
    whole = replace(of_part, problem=last.problem)
    data = operands(of_part.product, last.part, of_part.distribution, of_part.seed)
    # A library chooses by whether it is given a workspace.
    contents = bytes(_LEAST_BYTES) if task.library and task.library.takes_workspace else b""
    memory, workspace, addresses = allocated(of_part, data, contents)
    memory.holds_parts = True
    starts = _starts(of_part.product, last)
    written = {"d", *(one.name for one in of_part.product.arguments.tensors if one.written and one.batched)}
    strided = {name: _strided(matrix, name in written) for name, matrix in data.matrices.items()}
    for name, matrix in strided.items():
        addresses[name] -= _bytes_before(matrix, starts[name], last.problem.batch)
    call = Operands(strided.pop("a"), strided.pop("b"), strided.pop("c", None), strided.pop("d"), strided, data.numbers)
    arguments = host.multiply_arguments(whole, call, addresses, workspace)
    most = whole.product.most_launches
    launch = host.launches_of(whole, whole.run_symbol, [arguments], resident=_TILES, most=most)[-1]
    first = math.prod(launch.grid) - math.prod(launch.cluster)
    report = host.emulate(whole, launch, memory, host.multiply_steps(whole, launch), first_cta=first)
    stored = results(of_part, data, memory)[1]
    found = compare(of_part.product, last.part, data, stored, of_part.distribution)
    return with_findings(found.reason, [report])


def _starts(plan: ProductPlan, last: LastTile) -> dict[str, tuple[int, int]]:
    """The row and the column of each whole matrix where its part begins."""
    whole, part = ({**shapes_of(plan, of), **_further_shapes(plan, of)} for of in (last.problem, last.part))
    return {name: (rows - part[name][0], columns - part[name][1]) for name, (rows, columns) in whole.items()}


def _further_shapes(plan: ProductPlan, problem: Problem) -> dict[str, tuple[int, int]]:
    extents = dict(zip("mnk", problem.shape, strict=True)) | {"batch": 1}
    return {one.name: (one.rows.value(extents), one.columns.value(extents)) for one in plan.arguments.tensors}


def _strided(matrix: Matrix, is_written: bool) -> Matrix:
    """With the batch stride of the call: all matrices of the batch share what is read."""
    return replace(matrix, batch_stride=_STRIDE if is_written else 0)


def _bytes_before(matrix: Matrix, start: tuple[int, int], batch: int) -> int:
    """From the first element of a batch of whole matrices to that of the last one's part."""
    line, within = start if matrix.columns_contiguous else reversed(start)
    return (line * matrix.ld + within + matrix.batch_stride * (batch - 1)) * matrix.view.itemsize
