"""Predicted times of kernels that nobody measured: the formula of `plan.cost` with coefficients from datasheets, from what
`mmagen tune` found on an H200, and from docs/results/h200-times.csv. They serve to compare candidates, and to see what limits a
kernel; `mmagen tune` measures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from mmagen.core.targets import capability
from mmagen.families import family_of, tunable
from mmagen.families.peak.rates import rate
from mmagen.families.wgmma import decisions
from mmagen.mma import catalogue
from mmagen.plan.cost import Call, KernelShape, predicted_us, schedule, terms, time_us
from mmagen.plan.devices import DEVICES, Device
from mmagen.plan.launch import Numbers
from mmagen.plan.plans import GemmPlan, ProjectPlan
from mmagen.plan.reach import Paths
from mmagen.spec.cost import Cost
from mmagen.spec.model import Problem

_GUESSED_FOR = DEVICES[-1]
# CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions": f32 multiply-adds of an SM of sm_80 in a cycle, two
# operations each. One kind of instruction is compared with itself, so that another rate would change no order.
_SCALAR_RATE = 128
# Of the rate of wgmma, what an older architecture's operations reach on an H200, by the type of A; other types the first
# (docs/results/h200-peaks.csv, pct_rate). The f64 operations that Hopper brought reach all of it.
_HOPPER = 90
_OF_WGMMA = {"bf16": 0.663, "f64": 0.499, "e4m3": 0.777, "e5m2": 0.777}
_SMEM_BYTES = 128  # an SM's shared memory delivers in a cycle
# Between two k tiles: the wait for cp.async, a barrier, addresses. An assumption; it makes short k tiles cost something.
_K_TILE_CYCLES = 100
# The clock of f64 kernels, which take less power, relative to that at which the peaks of the datasheet hold (h200-peaks.csv).
_F64_CLOCK = 1980 / 1830
# Loads of fragments delay tensor cores before they limit them: a p-norm of the two, by mma.sync kernels on an H200.
_JOINED = 1.5

# Of the datasheet's rate, what wgmma kernels reach at the clock of long runs, dense and sparse; and what threads add for each
# element of a tile and k tile where they add up partial sums, and where they multiply them by a scale of each column.
_REACHED, _REACHED_SPARSE = 0.88, 0.69
_PROMOTED_US, _SCALED_US = 2.5e-6, 2e-5
_METADATA = 0.125  # bytes for an element of a sparse A

# Of wgmma kernels, in microseconds, for what the formula does not know: operands that TMA cannot address, C, and stores of single
# elements. Fitted to the times of docs/performance.md, "What TMA cannot address", and of tests/families/recorded_h200.json.
_LAUNCH_US = 3.0
_BY_THREADS = 1.17e4  # elements of 2 bytes, or of 1, that the threads of an SM load, shift and store in a microsecond
_END_US = 0.035  # of the last k tile, a line, whose end is loaded element by element; half of it for lines outside the operand
_COPY_US = 4.0  # of the copies' kernel, besides what follows from their bytes
_COPIED = 3e6  # bytes in a microsecond
_COPY_PITCH = 128  # bytes, of which the rows of a copy are multiples
_SOURCE_US = 0.9  # until the first elements of C are there
_ELEMENTS_US = 3.0  # of a tile whose elements are stored one by one, or of the last ones of its rows


# Of what is not measured: of an H200, in the middle of what fits found.
_GUESS = Cost(
    ctas=1,
    launch_us=2.2,
    overlap_us=0.4,
    tile_us=0.4,
    store_pitch=0.3,
    k_tile_us=1.0,
    line_ns=1.1,
    dram_tbps=4.3,
    dram_spread=0.25,
    store_tbps=4.5,
    l2_tbps=12.0,
    l2_spread=0.3,
    l2_pitch=0.2,
    l2_odd_pitch=0.7,
    l2_ragged=0.05,
    fixup_us=2.0,
    fixup_tbps=4.0,
)
_LEAST_LINE_US = 0.0007  # of a k tile, for each byte of its rows: small tiles wait for loads
_STORED_PER_US = 3e4  # elements of a tile that an epilogue stores; pingpong hides it behind another tile's mainloop
_WARPS = 8  # of an SM, with which its tensor cores are busy
_JOIN_US = 2.0  # exchange of partial sums within a cluster


def guess(plan: GemmPlan, ctas: int) -> Cost:
    """Coefficients of a kernel that was not measured, of which `ctas` CTAs run at once."""
    kernel = KernelShape.of(plan)
    m, n, k = kernel.tile
    row = k * kernel.bytes[0]
    warps = plan.ctas_per_sm * plan.threads / 32
    # An SM has four tensor cores, and one warp at a time for each does not hide latencies.
    rate = tunable(plan).tile_rate * min(1.0, warps / _WARPS) ** 0.5
    exposed = 0.1 if plan.spec.schedule == "pingpong" else m * n / _STORED_PER_US
    return _GUESS.model_copy(
        update={
            "ctas": ctas,
            "k_tile_us": plan.ctas_per_sm * max(m * n * row / rate / 2, row * _LEAST_LINE_US),
            "tile_us": exposed + (_JOIN_US if kernel.split_k > 1 else 0),
        }
    )


def mean_us(plan: GemmPlan, device: Device, problems: Sequence[Problem]) -> float:
    """The geometric mean of its predicted times, in microseconds, of calls with the workspace that they ask for."""
    logs = [math.log(us) for us in predicted(plan, device, problems)]
    return math.exp(sum(logs) / len(logs))


def predicted(plan: GemmPlan, device: Device, problems: Sequence[Problem], workspace: bool = True) -> list[float]:
    """Of each problem, in microseconds. workspace: does the call have one?"""
    cost = _cost(plan, device)
    return [_us(plan, cost, problem, workspace) for problem in problems]


def with_times(plan: ProjectPlan, of: Numbers) -> Numbers:
    """The numbers of a kernel of the plan that has launches, with their predicted times."""
    kernel = cast("GemmPlan", plan.by_config[of.kernel])  # what has launches is a gemm
    times = predicted(kernel, of.device, [problem for problem, _ in of.launches])
    return replace(of, predicted=tuple(times), estimated=True)


def _us(plan: GemmPlan, cost: Cost, problem: Problem, workspace: bool) -> float:
    kernel, call = _kernel(plan), _call(plan, problem)
    aligned = _formula_us(kernel, cost, call, problem)
    if not plan.copies_operands:
        return aligned
    paths, epilogue = Paths.of(plan, tma=True), 0.0
    if problem.beta:
        epilogue += _SOURCE_US + float(call.m) * call.n * call.batch * kernel.bytes[2] / (cost.store_tbps * 1e6)
    if not paths.stores_vectors(problem):
        epilogue += _ELEMENTS_US * schedule(kernel, cost.ctas, call).waves
    elif (call.n if plan.majors[2] == "N" else call.m) * kernel.bytes[2] % 16:
        epilogue += _ELEMENTS_US
    if paths.is_aligned(problem):
        return aligned + epilogue
    ways = [_by_threads_us(kernel, cost, call)]
    if workspace:
        ways.append(_by_copies_us(kernel, cost, call))
    return min(ways) + epilogue


def _kernel(plan: GemmPlan) -> KernelShape:
    """With the bytes that are loaded for an element of a sparse A."""
    kernel, a = KernelShape.of(plan), plan.operand("A")
    if a.kept == a.group:
        return kernel
    return replace(kernel, bytes=(kernel.bytes[0] * a.kept / a.group + _METADATA, *kernel.bytes[1:]))


def _call(plan: GemmPlan, problem: Problem) -> Call:
    """Of groups, one matrix with the rows of all of their tiles."""
    call = Call.of(plan, problem)
    if not problem.groups:
        return call
    rows = plan.tile_of_d[0] * plan.cluster_of_d[0]
    return replace(call, m=max(rows, sum(-(-size // rows) * rows for size in problem.groups.sizes)), batch=1)


def _formula_us(kernel: KernelShape, cost: Cost, call: Call, problem: Problem) -> float:
    it = terms(kernel, cost.ctas, call)
    if problem.groups and problem.batch_stride_b != 0:
        others = sum(1 for size in problem.groups.sizes if size) - 1
        it = replace(it, read=it.read + max(0, others) * float(call.n) * call.k * kernel.bytes[1])
    return time_us(cost, it)


def _by_threads_us(kernel: KernelShape, cost: Cost, call: Call) -> float:
    tile_m, tile_n, tile_k = kernel.tile
    tiles = -(-call.m // tile_m) * -(-call.n // tile_n) * call.batch
    k_tile = (tile_m + tile_n) * tile_k * max(1.0, kernel.bytes[0] / 2) / _BY_THREADS
    lines = (tile_m + tile_n + min(tile_m, call.m) + min(tile_n, call.n)) / 2
    one = -(-call.k // tile_k) * k_tile + lines * _END_US
    return _LAUNCH_US + -(-tiles // max(1, cost.ctas)) * one


def _by_copies_us(kernel: KernelShape, cost: Cost, call: Call) -> float:
    copied = (float(call.m) * kernel.bytes[0] + float(call.n) * kernel.bytes[1]) * call.k * call.batch
    a, b = (-(-pitch // _COPY_PITCH) * _COPY_PITCH for pitch in call.pitches[:2])
    return _COPY_US + copied / _COPIED + predicted_us(kernel, cost, replace(call, pitches=(a, b, call.pitches[2])))


def _cost(plan: GemmPlan, device: Device) -> Cost:
    (numbers,) = family_of(plan).numbers(plan, device, {})
    resident = numbers.occupancy.ctas
    guessed = guess(plan, 1)
    memory = device.dram_gbps / _GUESSED_FOR.dram_gbps
    changed = {
        "dram_tbps": guessed.dram_tbps * memory,
        "store_tbps": guessed.store_tbps * memory,
        "l2_tbps": guessed.l2_tbps * device.sms * device.clock_mhz / (_GUESSED_FOR.sms * _GUESSED_FOR.clock_mhz),
        "ctas": max(
            plan.scheduler.cluster_ctas, device.sms * resident // plan.scheduler.cluster_ctas * plan.scheduler.cluster_ctas
        ),
    }
    if all(one.smem_copy for one in plan.operands):  # threads load fragments, which `guess` does not know
        # What one CTA waits for, another uses.
        changed["k_tile_us"] = _k_tile_us(plan, device) * resident + _K_TILE_CYCLES / device.clock_mhz
    else:
        changed["k_tile_us"] = _wgmma_k_tile_us(plan, device, resident)
    return guessed.model_copy(update=changed)


def _wgmma_k_tile_us(plan: GemmPlan, device: Device, resident: int) -> float:
    """Of `resident` CTAs that share an SM: of tensor cores, and of threads that add up what a k tile yields."""
    m, n, k = plan.tile
    operation = catalogue.known(plan.atom.name)
    per_cycle = float((rate(operation, f"sm_{device.capability}a") if operation else None) or _SCALAR_RATE)
    reached: float = _REACHED_SPARSE if operation and operation.sparse else _REACHED
    reached *= min(1.0, resident * plan.threads / 32 / _WARPS) ** 0.5
    scale = plan.spec.scale
    each = _SCALED_US if scale and scale.b == "1x128" else _PROMOTED_US if decisions.promoted(plan.spec) else 0.0
    mma = 2 * m * n * k / (per_cycle * reached * device.clock_mhz) + m * n * each
    return resident * max(mma, k * plan.operands[0].element.bytes * _LEAST_LINE_US)


def _k_tile_us(plan: GemmPlan, device: Device) -> float:
    """Of one CTA that has an SM for itself: as long as the tensor cores take, or shared memory to deliver the fragments."""
    m, n, k = plan.tile
    rows, columns, _ = plan.tiled_mma.atoms
    operation = catalogue.known(plan.atom.name)
    per_cycle = float((rate(operation, f"sm_{device.capability}") if operation else None) or _SCALAR_RATE)
    if operation and operation.tensor_core and capability(operation.arch) < device.capability == _HOPPER:
        per_cycle *= _OF_WGMMA.get(operation.type_a, _OF_WGMMA["bf16"])
    clock = device.clock_mhz * (_F64_CLOCK if device.capability == _HOPPER and plan.atom.type_a.word == "f64" else 1.0)
    a, b = plan.atom.type_a.bytes, plan.atom.type_b.bytes
    # A warp reads fragments; of scalar operands a line for each element of a thread, which others of its threads share.
    by_warps, by_threads = m * columns * a + n * rows * b, plan.threads * (m // rows * a + n // columns * b)
    read = k * (by_warps if plan.atom.threads > 1 else by_threads)
    mma, smem = 2 * m * n * k / per_cycle, read / _SMEM_BYTES
    cycles: float = (mma**_JOINED + smem**_JOINED) ** (1 / _JOINED)
    return cycles / clock
