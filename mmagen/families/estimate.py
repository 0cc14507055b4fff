"""Predicted times of kernels that nobody measured: the formula of `plan.cost` with coefficients from datasheets and from what
`mmagen tune` found on an H200. They serve to compare candidates; `mmagen tune` measures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mmagen.core.targets import capability
from mmagen.families import family_of
from mmagen.families.peak.rates import rate
from mmagen.mma import catalogue
from mmagen.plan.cost import Call, KernelShape, predicted_us, schedule
from mmagen.plan.devices import DEVICES, Device
from mmagen.plan.plans import GemmPlan
from mmagen.plan.reach import Paths
from mmagen.spec.cost import Cost
from mmagen.spec.model import Problem
from mmagen.tuning.candidates import guess
from mmagen.tuning.measure import Machine

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

# Of wgmma kernels, in microseconds, for what the formula does not know: operands that TMA cannot address, C, and stores of single
# elements. Fitted to the times of docs/performance.md, "What TMA cannot address", and of tests/suggest/recorded_h200.json.
_LAUNCH_US = 3.0
_BY_THREADS = 1.17e4  # elements of 2 bytes, or of 1, that the threads of an SM load, shift and store in a microsecond
_END_US = 0.035  # of the last k tile, a line, whose end is loaded element by element; half of it for lines outside the operand
_COPY_US = 4.0  # of the copies' kernel, besides what follows from their bytes
_COPIED = 3e6  # bytes in a microsecond
_COPY_PITCH = 128  # bytes, of which the rows of a copy are multiples
_SOURCE_US = 0.9  # until the first elements of C are there
_ELEMENTS_US = 3.0  # of a tile whose elements are stored one by one, or of the last ones of its rows


def mean_us(plan: GemmPlan, device: Device, problems: Sequence[Problem]) -> float:
    """The geometric mean of its predicted times, in microseconds, of calls with the workspace that they ask for."""
    logs = [math.log(us) for us in predicted(plan, device, problems)]
    return math.exp(sum(logs) / len(logs))


def predicted(plan: GemmPlan, device: Device, problems: Sequence[Problem], workspace: bool = True) -> list[float]:
    """Of each problem, in microseconds. workspace: does the call have one?"""
    cost = _cost(plan, device)
    return [_us(plan, cost, problem, workspace) for problem in problems]


def _us(plan: GemmPlan, cost: Cost, problem: Problem, workspace: bool) -> float:
    kernel, call = KernelShape.of(plan), Call.of(plan, problem)
    if not plan.copies_operands:
        return predicted_us(kernel, cost, call)
    paths, epilogue = Paths.of(plan, tma=True), 0.0
    if problem.beta:
        epilogue += _SOURCE_US + float(call.m) * call.n * call.batch * kernel.bytes[2] / (cost.store_tbps * 1e6)
    if not paths.stores_vectors(problem):
        epilogue += _ELEMENTS_US * schedule(kernel, cost.ctas, call).waves
    elif (call.n if plan.majors[2] == "N" else call.m) * kernel.bytes[2] % 16:
        epilogue += _ELEMENTS_US
    if paths.is_aligned(problem):
        return predicted_us(kernel, cost, call) + epilogue
    ways = [_by_threads_us(kernel, cost, call)]
    if workspace:
        ways.append(_by_copies_us(kernel, cost, call))
    return min(ways) + epilogue


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
    guessed = guess(plan, Machine(device.sms, {}))
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
    return guessed.model_copy(update=changed)


def _k_tile_us(plan: GemmPlan, device: Device) -> float:
    """Of one CTA that has an SM for itself: as long as the tensor cores take, or shared memory to deliver the fragments."""
    m, n, k = plan.tile
    rows, columns, _ = plan.tiled_mma.atoms
    operation = catalogue.known(plan.atom.name)
    per_cycle = float((rate(operation, f"sm_{device.capability}") if operation else None) or _SCALAR_RATE)
    if operation and operation.tensor_core and capability(operation.arch) < device.capability == _HOPPER:
        per_cycle *= _OF_WGMMA.get(operation.type_a, _OF_WGMMA["bf16"])
    a, b = plan.atom.type_a.bytes, plan.atom.type_b.bytes
    # A warp reads fragments; of scalar operands a line for each element of a thread, which others of its threads share.
    by_warps, by_threads = m * columns * a + n * rows * b, plan.threads * (m // rows * a + n // columns * b)
    read = k * (by_warps if plan.atom.threads > 1 else by_threads)
    return max(2 * m * n * k / per_cycle, read / _SMEM_BYTES) / device.clock_mhz
