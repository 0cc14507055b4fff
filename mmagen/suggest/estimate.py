"""Predicted times of kernels that nobody measured: the formula of `plan.cost` with coefficients from datasheets and from what
`mmagen tune` found on an H200. They serve to compare candidates; `mmagen tune` measures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mmagen.core.targets import capability
from mmagen.families import family_of
from mmagen.families.peak.rates import rate
from mmagen.mma import catalogue
from mmagen.plan.cost import Call, KernelShape, predicted_us
from mmagen.plan.devices import DEVICES, Device
from mmagen.plan.plans import GemmPlan
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


def mean_us(plan: GemmPlan, device: Device, problems: Sequence[Problem]) -> float:
    """The geometric mean of its predicted times, in microseconds."""
    cost, kernel = _cost(plan, device), KernelShape.of(plan)
    logs = [math.log(predicted_us(kernel, cost, Call.of(plan, problem))) for problem in problems]
    return math.exp(sum(logs) / len(logs))


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
