"""A gemm as it runs: who loads the k tiles and who multiplies them, in what order, and which tile each CTA computes when.

For pictures. Times are in units of the multiplication of one k tile; latencies of loads and epilogues are assumed, so that only the
order and the waits are the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mmagen.plan.model import Operand, TileScheduler
from mmagen.plan.plans import GemmPlan

ISSUE, LATENCY, _EPILOGUE, _STORE = 0.25, 1.5, 2.0, 0.5


@dataclass(frozen=True)
class Pipeline:
    """producer: who issues loads. consumers: who multiplies; turns: each of them has tiles of its own, one after the other.
    ahead: k tiles that are loaded before the first is multiplied. through_registers: a k tile waits in registers until the one
    before is multiplied. late: a stage is free once the k tile after it has arrived. own_producer: loads wait for nothing but their
    stage. full, empty: what is waited for. transposed: rows of tiles are those of D's N.
    """

    operands: tuple[Operand, ...]
    stages: int
    scheduler: TileScheduler
    tile_of_d: tuple[int, int, int]
    producer: str
    consumers: tuple[str, ...]
    full: str
    empty: str
    ahead: int
    turns: bool = False
    through_registers: bool = False
    late: bool = False
    own_producer: bool = False
    transposed: bool = False

    @property
    def tiles(self) -> int:
        """Work tiles of a CTA that a timeline covers."""
        return max(2, len(self.consumers)) if self.scheduler.persistent else 1


def by_all_warps(plan: GemmPlan, through_registers: bool) -> Pipeline:
    """The mainloops whose warps all load and multiply. through_registers: without cp.async."""
    waits = "the registers that hold it, __syncthreads" if through_registers else "cp.async.wait_group, __syncthreads"
    return Pipeline(
        operands=plan.operands,
        stages=plan.stages,
        scheduler=plan.scheduler,
        tile_of_d=plan.tile_of_d,
        producer="all warps: loads",
        consumers=("all warps: mma",),
        full=waits,
        empty="__syncthreads",
        ahead=1 if through_registers else plan.stages - 1,
        through_registers=through_registers,
    )


@dataclass(frozen=True)
class Step:
    """One k tile: when its load is issued and arrives, when it is multiplied, and when its stage is free again. number: of all
    k tiles of the CTA; consumer: an index of Pipeline.consumers."""

    number: int
    tile: int
    k_tile: int
    stage: int
    phase: int
    consumer: int
    issued: float
    arrived: float
    begins: float
    ends: float
    free: float


@dataclass(frozen=True)
class Epilogue:
    """Of a work tile."""

    tile: int
    consumer: int
    begins: float
    ends: float


@dataclass(frozen=True)
class Timeline:
    """k_tiles: of each work tile."""

    steps: tuple[Step, ...]
    epilogues: tuple[Epilogue, ...]
    k_tiles: int

    @property
    def ends(self) -> float:
        """The last event."""
        return max([step.ends for step in self.steps] + [one.ends for one in self.epilogues])


def timeline(pipeline: Pipeline, k_tiles: int) -> Timeline:
    """The first work tiles of a CTA. k_tiles: of each, at least 1."""
    steps: list[Step] = []
    epilogues: list[Epilogue] = []
    ready = [0.0] * len(pipeline.consumers)
    turn = 0.0  # when the last wgmma of the preceding tile is done
    for number in range(pipeline.tiles * k_tiles):
        tile, k_tile = divmod(number, k_tiles)
        consumer = tile % len(pipeline.consumers)
        issued = _issued(pipeline, steps, number)
        arrived = issued + ISSUE + LATENCY
        if pipeline.through_registers and steps:
            arrived = max(arrived, steps[-1].ends) + _STORE
        begins = max(arrived, ready[consumer], turn)
        ends = ready[consumer] = turn = begins + 1
        if pipeline.late and k_tile > 0:  # the wait for the k tile before comes after this one's wgmma is issued
            steps[-1] = replace(steps[-1], free=max(steps[-1].ends, arrived))
        steps.append(
            Step(
                number,
                tile,
                k_tile,
                number % pipeline.stages,
                number // pipeline.stages % 2,
                consumer,
                issued,
                arrived,
                begins,
                ends,
                ends,
            )
        )
        if k_tile == k_tiles - 1:
            epilogues.append(Epilogue(tile, consumer, ends, ends + _EPILOGUE))
            ready[consumer] = ends + _EPILOGUE
            turn = ends if pipeline.turns else ready[consumer]
    return Timeline(tuple(steps), tuple(epilogues), k_tiles)


def _issued(pipeline: Pipeline, steps: list[Step], number: int) -> float:
    """When the load of a k tile begins: after the load before, and once its stage may be overwritten."""
    after = steps[-1].issued + ISSUE if steps else 0.0
    if number < pipeline.ahead:
        return after
    if pipeline.own_producer or pipeline.ahead == pipeline.stages:
        return max(after, steps[number - pipeline.stages].free)
    # All warps issue it when they begin to multiply, after the barrier that ends the k tile before.
    return max(after, steps[number - pipeline.ahead].begins)


@dataclass(frozen=True)
class WorkTile:
    """A tile of the kernel's D, in tiles. order: of its cluster in raster order; rank: of its CTA in the cluster, along M and N."""

    m: int
    n: int
    order: int
    rank: tuple[int, int]


def raster_order(tiles_m: int, tiles_n: int, group: int) -> Callable[[int, int], int]:
    """The number of each position, as tile_raster.cuh has it: bands of `group` rows, column by column within a band."""
    group = min(group, tiles_m)

    def number(m: int, n: int) -> int:
        first = m // group * group
        return first * tiles_n + n * min(group, tiles_m - first) + m - first

    return number


def work_tiles(scheduler: TileScheduler, tiles_m: int, tiles_n: int, most: int) -> list[WorkTile]:
    """The tiles of one matrix of the first `most` rows and columns of tiles, in order. A matrix may have billions."""
    rows, columns = scheduler.cluster
    m, n = min(tiles_m, most), min(tiles_n, most)
    order = raster_order(-(-tiles_m // rows), -(-tiles_n // columns), scheduler.raster_group)
    found = [WorkTile(i, j, order(i // rows, j // columns), (i % rows, j % columns)) for i in range(m) for j in range(n)]
    return sorted(found, key=lambda one: (one.order, one.rank))
