"""The predicted time of a kernel for a problem, and the choice by it. templates/runtime/mmagen/predicted_time.cuh has the same
formula; a test compares the two.

The mainloop is as slow as the slowest of four: the tensor core (k tiles of the busiest CTA), lines of A and B that begin beside
a multiple of 32 bytes (TMA takes longer for each), DRAM (A, B and D once) and L2 (A for each column of tiles, B for each row,
less what a cluster shares). The four are joined by a p-norm, since near a limit each slows the others. In calls of many hundred
microseconds the tensor core is slower, since power limits the clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmagen.plan.plans import GemmPlan
from mmagen.spec.cost import Cost
from mmagen.spec.model import Problem

STREAM_K = ("never", "last_wave", "always")
MOST_RAGGED_WAVES = 3  # with more waves a partial tile does not matter
MOST_NARROWED_WAVES = 16  # with more, tiles could be narrower by at most 1/16
THROTTLED_US = 250.0  # of the tensor core alone: half of the way to its lowest rate


def element_bytes(plan: GemmPlan) -> tuple[int, int, int]:
    """Of A, B and D."""
    return plan.operand("A").element.bytes, plan.operand("B").element.bytes, plan.epilogue.out.bytes


@dataclass(frozen=True)
class KernelShape:
    """What the time depends on besides coefficients: tile and cluster along M and N of D; bytes: of an element of A, B and D.

    split_k: CTAs of a cluster that share the K of a tile. workspace_splits: parts of K that go through a workspace, 0: as many
    as the kernel decides, -1: none. stream_k: which partial last waves are shared, an index of STREAM_K. widths, along: narrower
    extents of the tile along M (along = 0) or N (1), from which of_call() selects; by_waves: does it limit waves, or tiles? part:
    the fraction of the tile that is computed.
    """

    tile: tuple[int, int, int]
    cluster: tuple[int, int]
    split_k: int
    workspace_splits: int
    stream_k: int
    bytes: tuple[float, float, float]
    widths: tuple[int, ...] = ()
    along: int = 1
    by_waves: bool = True
    part: float = 1.0

    @staticmethod
    def of(plan: GemmPlan) -> KernelShape:
        """That of a planned kernel."""
        scheduler = plan.scheduler
        return KernelShape(
            tile=plan.tile_of_d,
            cluster=plan.cluster_of_d,
            split_k=scheduler.split_k,
            workspace_splits=-1 if scheduler.workspace_splits is None else scheduler.workspace_splits,
            stream_k=STREAM_K.index(scheduler.stream_k),
            bytes=element_bytes(plan),
            widths=scheduler.widths,
            by_waves=not scheduler.takes_workspace,
            along=0 if plan.spec.operands == "swapped" else 1,
        )

    @property
    def without_workspace(self) -> KernelShape:
        """How the kernel computes a call that has no workspace: no two clusters share the K of a tile."""
        return replace(self, workspace_splits=-1, stream_k=0)

    @property
    def group(self) -> int:
        """CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.split_k

    def of_call(self, ctas: int, call: Call) -> KernelShape:
        """With the tile that a call selects: the narrowest that needs no more waves of clusters than whole tiles, or no more tiles
        if clusters may share their K. ctas: that run at once."""
        if not self.widths:
            return self
        whole, extent = self.tile[self.along], (call.m, call.n)[self.along]
        tiles = list(_tiles(self, call))
        across, most = tiles[1 - self.along] * call.batch, tiles[self.along]
        if self.by_waves:
            most = most_tiles_along(across, most, max(1, ctas // self.group))
        width = next((one for one in self.widths if one * self.cluster[self.along] * most >= extent), whole)
        tile = (width, *self.tile[1:]) if self.along == 0 else (self.tile[0], width, self.tile[2])
        return replace(self, tile=tile, widths=(), part=width / whole)


@dataclass(frozen=True)
class Call:
    """Extents in elements, and the leading dimensions of A, B and D in bytes."""

    m: int
    n: int
    k: int
    batch: int
    pitches: tuple[int, int, int]

    @staticmethod
    def of(plan: GemmPlan, problem: Problem) -> Call:
        """The call that verify and bench make for a problem."""
        m, n, k = problem.shape
        majors = plan.majors
        contiguous = (k if majors[0] == "K" else m, k if majors[1] == "K" else n, n if majors[2] == "N" else m)
        sizes = element_bytes(plan)
        a, b, d = ((extent + problem.ld_pad) * size for extent, size in zip(contiguous, sizes, strict=True))
        return Call(m, n, k, problem.batch, (a, b, d))


@dataclass(frozen=True)
class Schedule:
    """How the work of a call is spread over CTAs.

    waves, path: work tiles of the busiest CTA, and their k tiles. used: the part of all CTAs that is busy on average. active:
    CTAs that are busy at first. splits: parts of K that go through a workspace. joined: partial sums that a CTA adds, one after
    the other.
    """

    waves: float
    path: float
    used: float
    active: float
    splits: int
    joined: int


def most_tiles_along(across: int, along: int, resident: int) -> int:
    """The most narrower tiles along their mode that need no more waves than `across` x `along` whole ones; `along` if these are
    more than MOST_NARROWED_WAVES. resident: tiles that are computed at once."""
    waves = -(-across * along // resident)
    return along if waves > MOST_NARROWED_WAVES else waves * resident // across


def schedule(kernel: KernelShape, ctas: int, call: Call) -> Schedule:
    """ctas: that run at once."""
    kernel = kernel.of_call(ctas, call)
    tiles = _tiles(kernel, call)[0] * _tiles(kernel, call)[1] * call.batch
    k_tiles = -(-call.k // kernel.tile[2])
    resident = max(1, ctas // kernel.group)
    splits = min(kernel.workspace_splits, k_tiles)
    if kernel.workspace_splits <= 0:
        splits = 1 if kernel.workspace_splits < 0 else _splits_decided(kernel, call, tiles, k_tiles, resident)
    work = tiles * splits
    waves = -(-work // resident)
    path = waves * -(-k_tiles // (kernel.split_k * splits))
    if kernel.stream_k:
        rest = tiles % resident
        shared = tiles if tiles < resident else rest + resident
        always = STREAM_K[kernel.stream_k] == "always"
        if rest > 0 and (always or 3 * rest < 2 * resident) and shared * k_tiles >= (4 if always else 8) * resident:
            joined = -(-k_tiles // -(-shared * k_tiles // resident))
            return Schedule(waves, -(-tiles * k_tiles // resident), 1.0, resident * kernel.group, splits, joined)
    return Schedule(waves, path, work / (waves * resident), min(work, resident) * kernel.group, splits, 0)


def _tiles(kernel: KernelShape, call: Call) -> tuple[int, int]:
    """Of clusters, along M and N."""
    return (
        -(-call.m // (kernel.tile[0] * kernel.cluster[0])),
        -(-call.n // (kernel.tile[1] * kernel.cluster[1])),
    )


def _splits_decided(kernel: KernelShape, call: Call, tiles: int, k_tiles: int, resident: int) -> int:
    """The number of splits that SplitKWorkspaceTileScheduler<Config, 0> decides for."""
    tile_m, tile_n, tile_k = kernel.tile
    bytes_a, bytes_b, _ = kernel.bytes
    mma = tile_m * tile_n * tile_k * bytes_a / 4096
    rows = min(tile_m, call.m) * bytes_a / kernel.cluster[1] + min(tile_n, call.n) * bytes_b / kernel.cluster[0]
    k_tile = max(mma, rows * tile_k / 56)
    operands = float(call.m * bytes_a + call.n * bytes_b) * call.k * call.batch / 2200
    sums = 8.0 * call.m * call.n * call.batch / 3200

    def cycles(splits: int) -> float:
        work = -(-tiles * splits // resident) * (1500 + -(-k_tiles // splits) * k_tile)
        return max(work, operands) + (0.0 if splits == 1 else 8000 + splits * sums)

    best, least = 1, cycles(1)
    for waves in range(1, 9):
        splits = min(k_tiles, waves * resident // tiles)
        if splits > best and (predicted := cycles(splits)) < least:
            best, least = splits, predicted
    return best


@dataclass(frozen=True)
class Terms:
    """What a call asks of a kernel, without coefficients; numbers, or arrays of them over many calls.

    waves, path, used, joined: as Schedule has them. lines: lines of 128 bytes beside a multiple of 32 that the busiest CTA
    loads. read, stored: bytes of A and B, and of D. loaded: bytes of all loads from L2; loaded_pitch, loaded_odd: of those,
    from pitches that are multiples of 32 but not of 128 bytes, and that are no multiples of 32. sums: bytes of partial sums in
    a workspace; summed: parts of K there, 0 without. empty_rows, empty_columns: the parts of all tiles' rows and columns that lie
    beyond D. The rest is 0 or 1. reduced: there is a second kernel. ragged: the last tile of M is partial. odd_stores: the pitch
    of D is no multiple of 32 bytes. thread_stores: it is no multiple of 16, and threads store D in place of TMA. crowded: the
    next launch finds too few free SMs. part: the fraction of the kernel's tile that is computed.
    """

    waves: float
    path: float
    used: float
    joined: float
    lines: float
    read: float
    stored: float
    loaded: float
    loaded_pitch: float
    loaded_odd: float
    sums: float
    summed: float
    empty_rows: float
    empty_columns: float
    reduced: float
    ragged: float
    odd_stores: float
    thread_stores: float
    crowded: float
    part: float


def terms(kernel: KernelShape, ctas: int, call: Call) -> Terms:
    """Those of a call whose extents are at least 1. ctas: that run at once."""
    kernel = kernel.of_call(ctas, call)
    tiles_m, tiles_n = _tiles(kernel, call)
    spread = schedule(kernel, ctas, call)
    sizes, pitches, extents = kernel.bytes, call.pitches, (call.m, call.n)
    once = [float(extents[i]) * call.k * sizes[i] * call.batch for i in range(2)]
    loads = [once[0] * tiles_n, once[1] * tiles_m]
    per_tile = [min(extents[i], kernel.tile[i]) * kernel.tile[2] * sizes[i] / 128 for i in range(2)]
    odd = [pitches[i] % 32 != 0 for i in range(2)]
    uneven = [pitches[i] % 128 != 0 and not odd[i] for i in range(2)]
    split = spread.splits > 1
    return Terms(
        waves=spread.waves,
        path=spread.path,
        used=spread.used,
        joined=spread.joined,
        lines=spread.path * sum(per_tile[i] for i in range(2) if odd[i]),
        read=sum(once),
        stored=float(call.m) * call.n * sizes[2] * call.batch,
        loaded=sum(loads),
        loaded_pitch=sum(loads[i] for i in range(2) if uneven[i]),
        loaded_odd=sum(loads[i] for i in range(2) if odd[i]),
        sums=8.0 * spread.splits * call.m * call.n * call.batch if split else 0.0,  # f32, written and read
        summed=float(spread.splits) if split else 0.0,
        empty_rows=1 - call.m / (tiles_m * kernel.tile[0] * kernel.cluster[0]),
        empty_columns=1 - call.n / (tiles_n * kernel.tile[1] * kernel.cluster[1]),
        reduced=float(split),
        ragged=float(call.m > kernel.tile[0] and call.m % kernel.tile[0] != 0 and spread.waves <= MOST_RAGGED_WAVES),
        odd_stores=float(pitches[2] % 32 != 0),
        thread_stores=float(pitches[2] % 16 != 0 and not split),  # the second kernel of split K stores D itself
        crowded=float(2 * spread.active > ctas),
        part=kernel.part,
    )


def time_us(cost: Cost, it: Terms) -> float:
    """Microseconds of one call among others of its kind, one behind the other on a stream."""
    lines = it.lines * (cost.line_ns * 1e-3)
    empty = 1 + it.empty_rows * cost.dram_rows + it.empty_columns * cost.dram_columns
    dram = it.read / (cost.dram_tbps * 1e6) * it.used**-cost.dram_spread * empty + it.stored / (cost.store_tbps * 1e6)
    loaded = it.loaded + it.loaded_pitch * cost.l2_pitch + it.loaded_odd * cost.l2_odd_pitch
    l2 = loaded / (cost.l2_tbps * 1e6) * (1 + it.ragged * cost.l2_ragged) * it.used**-cost.l2_spread
    return outside_us(cost, it, it.waves) + mainloop_us(tensor_us(cost, it), lines, dram, l2)


def tensor_us(cost: Cost, it: Terms) -> float:
    """Time of the tensor cores for the busiest CTA."""
    cool = it.path * cost.k_tile_us * shrunk(cost, it)
    return cool * (1 + cost.throttle * cool / (cool + THROTTLED_US))


def mainloop_us(*limits: float) -> float:
    """Time of a mainloop with these limits: a 4-norm, since near a limit the others slow it too."""
    joined: float = sum(limit**4 for limit in limits) ** 0.25
    return joined


def outside_us(cost: Cost, it: Terms, waves: float) -> float:
    """Time outside the mainloop: the launch, the epilogues of `waves` work tiles, and partial sums."""
    fixup = (it.joined + it.reduced) * cost.fixup_us + it.summed * cost.part_us + it.sums / (cost.fixup_tbps * 1e6)
    return cost.launch_us + it.crowded * cost.overlap_us + waves * epilogue_us(cost, it) + fixup


def epilogue_us(cost: Cost, it: Terms) -> float:
    """Of a work tile."""
    return (cost.tile_us * (1 + it.odd_stores * cost.store_pitch) + it.thread_stores * cost.odd_store_us) * shrunk(cost, it)


def shrunk(cost: Cost, it: Terms) -> float:
    """The time of a narrower tile over that of a whole one."""
    return cost.fixed_part + (1 - cost.fixed_part) * it.part


def predicted_us(kernel: KernelShape, cost: Cost, call: Call) -> float:
    """Microseconds of one call whose extents are at least 1."""
    return time_us(cost, terms(kernel, cost.ctas, call))


def predict(plan: GemmPlan, cost: Cost, problem: Problem) -> float:
    """Seconds that a planned kernel takes for a problem."""
    return predicted_us(KernelShape.of(plan), cost, Call.of(plan, problem)) * 1e-6
