"""What a launch of a GEMM does on a device: grid, waves, k tiles, occupancy, traffic, and the least time that it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmagen.plan import budgets, global_bytes
from mmagen.plan.cost import Call, KernelShape, schedule
from mmagen.plan.devices import Device
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem

_BYTES_OF_A_GROUP = 4  # its size, in device memory
_REGISTERS_ARE_GIVEN_IN = 8  # per thread: the unit in which they are allocated to warps


@dataclass(frozen=True)
class Occupancy:
    """CTAs per SM by each resource that limits them. by_count: that an SM holds, however small they are. registers: per thread
    that `by_registers` assumes."""

    by_smem: int
    by_threads: int
    by_registers: int
    by_count: int
    registers: int

    @property
    def ctas(self) -> int:
        """CTAs that run on an SM at once."""
        return min(self._limits.values())

    @property
    def limiter(self) -> str:
        """The resource that allows the fewest CTAs; of several, all."""
        return " and ".join(name for name, ctas in self._limits.items() if ctas == self.ctas)

    @property
    def _limits(self) -> dict[str, int]:
        return {
            "shared memory": self.by_smem,
            "threads": self.by_threads,
            "registers": self.by_registers,
            "their number": self.by_count,
        }


def occupancy(plan: GemmPlan, registers: int) -> Occupancy:
    """registers: per thread, those of ptxas or an estimate; not more than the launch bounds leave to a thread."""
    reserved = budgets.reserved_smem(plan.arch)
    each = budgets.REGISTERS_PER_SM // (plan.threads * plan.ctas_per_sm) // _REGISTERS_ARE_GIVEN_IN * _REGISTERS_ARE_GIVEN_IN
    given = min(-(-registers // _REGISTERS_ARE_GIVEN_IN) * _REGISTERS_ARE_GIVEN_IN, max(each, _REGISTERS_ARE_GIVEN_IN))
    return Occupancy(
        by_smem=(plan.smem_limit + reserved) // (plan.smem_bytes + reserved),
        by_threads=budgets.resident_threads(plan.arch) // plan.threads,
        by_registers=budgets.REGISTERS_PER_SM // (given * plan.threads),
        by_count=budgets.resident_ctas(plan.arch),
        registers=min(registers, each),
    )


@dataclass(frozen=True)
class Launch:
    """One problem on one device.

    tiles: along M, along N, and matrices; of groups of several widths, all of them along M. parts: of the K of a tile. ctas: of the
    grid. work: parts of tiles that are computed; the CTAs of a partial cluster compute nothing and count. at_once: CTAs that run
    at once. k_tiles: iterations of the mainloop of a CTA for one tile, of groups the longest. flop: of the problem, of real
    numbers. dram: bytes of A, B, D, if beta is not 0, C, and the call's further matrices, each once. l2: bytes of A and B that the
    CTAs load from L2, multicast counted once. shared: with a workspace, all CTAs share the last wave.
    """

    tiles: tuple[int, int, int]
    parts: int
    ctas: int
    work: int
    at_once: int
    k_tiles: int
    flop: int
    dram: int
    l2: int
    shared: bool = False

    @property
    def waves(self) -> int:
        """Times that the busiest CTA, or SM slot, computes a tile."""
        return -(-self.work // self.at_once)

    @property
    def tail(self) -> float:
        """The part of the CTAs that run at once that has work in the last wave."""
        return ((self.work - 1) % self.at_once + 1) / self.at_once

    @property
    def busy(self) -> float:
        """The part of all waves' places for CTAs that is used; if the last wave is shared, all."""
        return 1.0 if self.shared else self.work / (self.waves * self.at_once)

    @property
    def intensity(self) -> float:
        """Operations per byte of DRAM."""
        return self.flop / self.dram


def launch(plan: GemmPlan, problem: Problem, device: Device, ctas_per_sm: int) -> Launch:
    """What a call for `problem` launches. ctas_per_sm: by `occupancy`."""
    group = plan.scheduler.cluster_ctas
    at_once = device.at_once(group, ctas_per_sm)
    plan = _decided(plan, problem, at_once)
    scheduler = plan.scheduler
    m, n, k = (-(-extent // of_tile) for extent, of_tile in zip(problem.shape, plan.tile_of_d, strict=True))
    rows, columns = plan.cluster_of_d
    spread = schedule(KernelShape.of(plan), at_once, Call.of(plan, problem))
    parts = scheduler.split_k * spread.splits
    # A grid consists of whole clusters.
    placed = plan.tiles_of(problem) * rows * columns * parts
    if problem.groups:
        return _of_groups(plan, problem, placed, at_once)
    pieces = plan.bytes_of_pieces
    given = [global_bytes.of_operand(plan, letter, rows, problem.k) for letter, rows in (("A", problem.m), ("B", problem.n))]
    a, b = (rows * problem.k * pieces for rows in problem.shape[:2]) if pieces else given
    # Elements that are split are read, and their pieces written, before.
    split_a, split_b = (given[0] + a, given[1] + b) if pieces else (0, 0)
    d = global_bytes.of_d(plan, problem.m, problem.n)
    matrices = [1 if stride == 0 else problem.batch for stride in problem.batch_strides]  # a batch may share one
    c_and_d = d * (problem.batch + (matrices[2] if problem.beta else 0))
    return Launch(
        tiles=(m, n, problem.batch),
        parts=parts,
        ctas=min(placed, at_once) if scheduler.persistent else placed,
        work=placed,
        at_once=at_once,
        k_tiles=-(-k // parts),
        flop=2 * problem.m * problem.n * problem.k * problem.batch * plan.atom.real_products,
        dram=(a + split_a) * matrices[0] + (b + split_b) * matrices[1] + c_and_d + global_bytes.of_others(plan, problem),
        l2=(a * -(-n // columns) + b * -(-m // rows)) * problem.batch,
        shared=spread.joined > 0,
    )


def _decided(plan: GemmPlan, problem: Problem, at_once: int) -> GemmPlan:
    """The plan with the width of a tile that a call selects."""
    if not plan.scheduler.widths:
        return plan
    kernel = KernelShape.of(plan).of_call(at_once, Call.of(plan, problem))
    width = kernel.tile[kernel.along]
    return replace(plan, scheduler=replace(plan.scheduler, tile_n=width % plan.tile[1], widths=()))


def _of_groups(plan: GemmPlan, problem: Problem, work: int, at_once: int) -> Launch:
    """What a call computes for these groups, whose sizes the host does not know: A, D and C of their rows, B of each that has
    rows."""
    assert problem.groups
    tile_m, tile_n, tile_k = plan.tile_of_d
    rows, columns = plan.cluster_of_d
    shapes = [one for one in problem.groups.shapes(problem.n, problem.k) if one[0] and one[1]]
    tiles = [(-(-m // tile_m), -(-n // tile_n)) for m, n, _ in shapes]
    a = [global_bytes.of_operand(plan, "A", m, k) for m, _, k in shapes]
    b = [global_bytes.of_operand(plan, "B", n, k) for _, n, k in shapes]
    d = sum(global_bytes.of_d(plan, m, n) for m, n, _ in shapes)
    others = sum(global_bytes.of_others_of_group(plan, one) for one in shapes) + _BYTES_OF_A_GROUP * problem.batch
    one_width = len({along for _, along in tiles}) == 1
    return Launch(
        tiles=(sum(m for m, _ in tiles), tiles[0][1], 1) if one_width else (sum(m * n for m, n in tiles), 1, 1),
        parts=1,
        ctas=min(max(work, rows * columns), at_once),
        work=max(work, 1),
        at_once=at_once,
        k_tiles=-(-max((k for _, _, k in shapes), default=0) // tile_k),
        flop=2 * sum(m * n * k for m, n, k in shapes),
        dram=sum(a) + (b[0] if b and problem.batch_stride_b == 0 else sum(b)) + d * (2 if problem.beta else 1) + others,
        l2=sum(
            of_a * -(-along // columns) + of_b * -(-across // rows)
            for of_a, of_b, (across, along) in zip(a, b, tiles, strict=True)
        ),
    )


@dataclass(frozen=True)
class Numbers:
    """One kernel on one device. kernel: its name in a library, or "". measured: are the registers of `occupancy` those of ptxas?
    per_cycle: operations of an SM per cycle by the datasheet, None if it states none; unit: that executes them. predicted:
    microseconds of each launch by the kernel's `cost`, which holds for the device that it was fitted on, or estimated; () for none.
    elsewhere: are they of another device, which has other numbers of CTAs at once?"""

    kernel: str
    device: Device
    occupancy: Occupancy
    measured: bool
    per_cycle: int | None
    unit: str
    launches: tuple[tuple[Problem, Launch], ...]
    predicted: tuple[float, ...] = ()
    estimated: bool = False
    elsewhere: bool = False


@dataclass(frozen=True)
class Roofline:
    """The least times of a launch in microseconds. compute: None if the datasheet states no rate of the instruction; unit: that
    executes it."""

    compute: float | None
    dram: float
    unit: str

    @property
    def bound(self) -> str:
        """What limits it."""
        return "DRAM" if self.compute is None or self.dram > self.compute else self.unit

    @property
    def least(self) -> float:
        """Microseconds."""
        return max(self.compute or 0.0, self.dram)


def roofline(it: Launch, device: Device, per_cycle: int | None, unit: str = "tensor cores") -> Roofline:
    """per_cycle: operations of an SM per cycle by the datasheet, unit: that executes them."""
    compute = it.flop / (per_cycle * device.sms * device.clock_mhz) if per_cycle else None
    return Roofline(compute, it.dram / (device.dram_gbps * 1e3), unit)
