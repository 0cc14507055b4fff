"""Predicted times of kernels that were not measured. The coefficients come from datasheets, from measurements by the program of
`mmagen tune` (docs/results/h100-ranking.md), and from docs/results/h200-times.csv. They serve to compare candidates, and to see
what limits a kernel; `mmagen tune` measures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from mmagen.core.targets import capability
from mmagen.families import family_of, tunable
from mmagen.families.estimated_time import estimated_us
from mmagen.families.peak.rates import rate
from mmagen.families.wgmma import decisions
from mmagen.mma import catalogue
from mmagen.plan.cost import Call, KernelShape, schedule
from mmagen.plan.devices import DEVICES, Device
from mmagen.plan.launch import Numbers
from mmagen.plan.model import Operand
from mmagen.plan.plans import GemmPlan
from mmagen.plan.project import ProjectPlan
from mmagen.plan.reach import Paths
from mmagen.spec.cost import Cost
from mmagen.spec.model import Problem

_GUESSED_FOR = DEVICES[-1]
# CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions": f32 multiply-adds of an SM of sm_80 in a cycle, two
# operations each. One kind of instruction is compared with itself, so that another rate would change no order.
_SCALAR_RATE = 128
# Of the rate of wgmma, what an older architecture's operations reach on an H200, by the type of A; other types the first
# (docs/results/h200-peaks.csv, pct_rate). The f64 operations that Hopper brought reach all of it. c64: its instructions are f64's.
_HOPPER = 90
_OF_WGMMA = {"bf16": 0.663, "f64": 0.499, "c64": 0.499, "e4m3": 0.777, "e5m2": 0.777}
_SMEM_BYTES = 128  # an SM's shared memory delivers in a cycle
# What one warp waits for in a k tile, in cycles, however fast the tensor cores are: cp.async.wait_group, a barrier and the first
# fragments, and for each 32 bytes of a row, which a k block of mma.sync has, fragments and products of the one before. It joins
# what is limited by rates in squares. Fitted, with _EDGE_CYCLES, _JOINED of bf16, _STAGED and _WARPS_SYNC, to the mma.sync problems
# marked "fitted to" in docs/results/h100-ranking.md; kernels of other types had no part in it.
_K_TILE_CYCLES, _K_BLOCK_CYCLES, _K_BLOCK_BYTES = 216, 44.4, 32
# A CTA whose tile extends beyond A or B copies with a predicate for each vector: cycles of one vector, joined with the time of the
# tensor cores.
_EDGE_CYCLES = 38.7
# The clock of f64 kernels, which take less power, relative to that at which the peaks of the datasheet hold (h200-peaks.csv).
_F64_CLOCK = 1980 / 1830
# Loads of fragments delay tensor cores before they limit them: a p-norm of the two. Of bf16, and of f16 alike, with sums in f32;
# and of all others, as fitted to earlier measurements of an H200.
_JOINED, _JOINED_OTHERS = 1.31, 1.73

# Of the datasheet's rate, what wgmma kernels reach before the power limit lowers the clock, by the type of A, other types the
# first; and those of a sparse A. And what threads add for each element of a tile and k tile where they add up partial sums, and
# where they multiply them by a scale of each column.
_REACHED = {"bf16": 0.888, "f16": 0.898, "tf32": 0.946, "e4m3": 0.922, "e5m2": 0.922, "s8": 0.912, "u8": 0.912}
_REACHED_SPARSE = 0.69
# Of the cycles in which shared memory delivers A and B to wgmma, which delay it before they limit it: warpgroups share reads of B.
_READS_OF_A, _READS_OF_B = 1.9, 0.277
_PROMOTED_US, _SCALED_US = 2.5e-6, 2e-5
# What a warpgroup takes to convert a weight of 4 or 8 bits in registers, by sm90_gemm_u4_f16 on an H200 and sm90_gemm_s4_bf16 on an
# H100 with 16 rows.
_CONVERTED_US = 5.5e-5
_METADATA = 0.125  # bytes for an element of a sparse A

# Of wgmma kernels, in microseconds, for what the formula does not know: operands that TMA cannot address, C, and stores of single
# elements. Fitted to the times of docs/performance.md ("Operands that do not meet ...") and of tests/families/recorded_h200.json.
_LAUNCH_US = 3.0
_BY_THREADS = 1.17e4  # elements of 2 bytes, or of 1, that the threads of an SM load, shift and store in a microsecond
_END_US = 0.035  # of the last k tile, a line, whose end is loaded element by element; half of it for lines outside the operand
_COPY_US = 4.0  # of the copies' kernel, besides what follows from their bytes
_COPIED = 3e6  # bytes in a microsecond
_COPY_PITCH = 128  # bytes, of which the rows of a copy are multiples
_SOURCE_US = 0.9  # until the first elements of C are there
_VECTOR_BYTES = 16
_ELEMENTS_US = 3.0  # of a tile whose elements are stored one by one, or of the last ones of its rows


# Coefficients of an H200; `_cost` scales them to other devices. These and those below were fitted to H100 times, scaled likewise:
# of the wgmma problems marked "fitted to" in docs/results/h100-ranking.md, with 55 candidates.
_GUESS = Cost(
    ctas=1,
    launch_us=1.92,
    overlap_us=0.296,
    tile_us=0.4,
    store_pitch=0.184,
    k_tile_us=1.0,
    throttle=0.184,
    line_ns=0.987,
    dram_tbps=4.36,
    dram_spread=0.0257,
    store_tbps=3.07,
    l2_tbps=12.6,
    l2_spread=0.382,
    l2_pitch=0.39,
    l2_odd_pitch=1.17,
    l2_ragged=0.0585,
    fixup_us=2.0,
    fixup_tbps=5.13,
    part_us=0.0126,
)
_LEAST_US, _LEAST_LINE_US = 0.0597, 0.000429  # of a k tile, and for each byte of its rows: small tiles wait for loads
# Of an epilogue: for each element of a tile that a warpgroup stores, and for each byte of these; pingpong hides it behind another
# tile's mainloop, up to the bytes of the tile. Rows of D that are not whole lines of 32 elements are stored in narrow boxes.
# Kernels with swapped operands transpose what they store.
_ELEMENT_US, _BYTE_US, _HIDDEN_BYTE_US = 4.83e-5, 2.59e-5, 2.42e-5
_NARROW, _LINE = 1.59, 32
_SWAPPED = 1.448
_STAGED = 1.6  # of this, what the epilogue of kernels without wgmma takes: barriers between its two copies
_FIXUP_US, _FIXUP_ELEMENT_US = 0.959, 4.49e-5  # of a tile whose partial sums are added: itself, and for each element
_PREFETCHED_US = 0.145  # less, with stages that are in L2 when the kernel begins
_WARPS = 8  # of an SM, with which its tensor cores are busy
_WARPS_SYNC = 0.2  # power of their part that mma.sync reaches with fewer
_JOIN_US = 3.1  # exchange of partial sums within a cluster
# More, where launches decide how many columns of a tile they compute: 316x1136x328 takes 3.7 instead of 3.4 (docs/performance.md).
_WIDTHS_US = 0.3


def guess(plan: GemmPlan, ctas: int) -> Cost:
    """Coefficients of a kernel that was not measured, of which `ctas` CTAs run at once."""
    kernel = KernelShape.of(plan)
    m, n, k = kernel.tile
    row = k * kernel.bytes[0]
    warps = plan.ctas_per_sm * plan.threads / 32
    # An SM has four tensor cores, and one warp at a time for each does not hide latencies.
    rate = tunable(plan).tile_rate * min(1.0, warps / _WARPS) ** 0.5
    prefetched = _PREFETCHED_US if plan.spec.prefetch else 0.0
    return _GUESS.model_copy(
        update={
            "ctas": ctas,
            "launch_us": _GUESS.launch_us - prefetched + (_WIDTHS_US if plan.scheduler.several_widths else 0.0),
            "k_tile_us": plan.ctas_per_sm * max(m * n * row / rate / 2, _LEAST_US + row * _LEAST_LINE_US),
            "tile_us": _epilogue_us(plan) + (_JOIN_US if kernel.split_k > 1 else 0),
            "fixup_us": _FIXUP_US + _FIXUP_ELEMENT_US * m * n,
        }
    )


def _epilogue_us(plan: GemmPlan) -> float:
    """What a tile's epilogue adds to its mainloop."""
    m, n = plan.tile[0], plan.scheduler.tile_n or plan.tile[1]
    size = plan.epilogue.out.bytes
    swapped = _SWAPPED if plan.spec.operands == "swapped" else 1.0
    if plan.spec.schedule == "pingpong":
        return m * n * size * _HIDDEN_BYTE_US * swapped
    by_warpgroup = m * n / max(1.0, _storing(plan) / 128)
    narrow = _NARROW if n % _LINE and _storing(plan) != plan.threads else 1.0
    return by_warpgroup * (_ELEMENT_US + size * _BYTE_US) * narrow * swapped


def _storing(plan: GemmPlan) -> int:
    """Threads that multiply, and store."""
    return plan.tiled_mma.threads


def mean_us(plan: GemmPlan, device: Device, problems: Sequence[Problem]) -> float:
    """The geometric mean of its predicted times, in microseconds, of calls with the workspace that they ask for."""
    logs = [math.log(us) for us in predicted(plan, device, problems)]
    return math.exp(sum(logs) / len(logs))


def predicted(plan: GemmPlan, device: Device, problems: Sequence[Problem], workspace: bool = True) -> list[float]:
    """Of each problem, in microseconds. workspace: does the call have one?"""
    (numbers,) = family_of(plan).numbers(plan, device, {})
    costs: dict[int, Cost] = {}
    found = []
    for problem in problems:
        ctas = min(numbers.occupancy.ctas, _ctas_of_an_sm(plan, device, problem))
        if ctas not in costs:
            costs[ctas] = _cost(plan, device, ctas)
        found.append(_us(plan, costs[ctas], problem, workspace, _edge_us(plan, device, problem)))
    return found


def times_of_calls(plan: GemmPlan, cost: Cost, calls: Sequence[Call]) -> list[float]:
    """Microseconds of each call by coefficients of `guess`, for operands that TMA or copies of vectors can load."""
    kernel = _kernel(plan)
    return [estimated_us(plan, kernel, cost, call) for call in calls]


def _edge_us(plan: GemmPlan, device: Device, problem: Problem) -> float:
    """What the predicates of the last tiles add, in kernels whose threads copy to shared memory."""
    (m, n, k), call = plan.tile, _call(plan, problem)
    if not all(one.smem_copy for one in plan.operands) or call.m % m == call.n % n == 0:
        return 0.0
    a, b = plan.operands
    vectors = (
        (m * a.element.bytes * a.kept / a.group + n * b.element.bytes * b.kept / b.group) * k / _VECTOR_BYTES / plan.threads
    )
    return -(-call.k // k) * vectors * _EDGE_CYCLES / device.clock_mhz


def _ctas_of_an_sm(plan: GemmPlan, device: Device, problem: Problem) -> int:
    """How many of the problem's tiles an SM has at once, if there were room for all. What K is split into are no tiles here."""
    if plan.scheduler.workspace_splits is not None or problem.groups:
        return plan.ctas_per_sm
    return max(1, -(-plan.tiles_of(problem) * plan.scheduler.cluster_ctas // device.sms))


def with_times(plan: ProjectPlan, of: Numbers) -> Numbers:
    """The numbers of a kernel of the plan that has launches, with their predicted times."""
    kernel = cast("GemmPlan", plan.by_config[of.kernel])  # what has launches is a gemm
    times = predicted(kernel, of.device, [problem for problem, _ in of.launches])
    return replace(of, predicted=tuple(times), estimated=True)


def _us(plan: GemmPlan, cost: Cost, problem: Problem, workspace: bool, edge: float) -> float:
    kernel, call = _kernel(plan), _call(plan, problem)
    aligned = _aligned_us(plan, kernel, cost, call, problem, edge)
    if pieces := plan.bytes_of_pieces:
        split = float(call.m * kernel.bytes[0] + call.n * kernel.bytes[1] + (call.m + call.n) * pieces) * call.k * call.batch
        return aligned + _COPY_US + split / _COPIED
    if not plan.copies_operands:
        return aligned
    paths, epilogue = Paths.of(plan, tma=True), 0.0
    of_d = replace(paths, vector=_VECTOR_BYTES // plan.epilogue.out.bytes)
    if problem.beta:
        epilogue += _SOURCE_US + float(call.m) * call.n * call.batch * kernel.bytes[2] / (cost.store_tbps * 1e6)
    if not of_d.stores_vectors(problem):
        epilogue += _ELEMENTS_US * schedule(kernel, cost.ctas, call).waves
    elif (call.n if plan.majors[2] == "N" else call.m) * kernel.bytes[2] % 16:
        epilogue += _ELEMENTS_US
    if paths.is_aligned(problem):
        return aligned + epilogue
    ways = [_by_threads_us(kernel, cost, call)]
    if workspace:
        ways.append(_by_copies_us(plan, kernel, cost, call))
    return min(ways) + epilogue


def _kernel(plan: GemmPlan) -> KernelShape:
    """With the bytes that are loaded for an element: of a sparse A with its metadata, of packed operands their part of a byte."""
    kernel, operands = KernelShape.of(plan), (plan.operand("A"), plan.operand("B"))
    a, b = (size * one.kept / one.group for size, one in zip(kernel.bytes[:2], operands, strict=True))
    return replace(kernel, bytes=(a + (_METADATA if operands[0].sparse else 0.0), b, kernel.bytes[2]))


def _call(plan: GemmPlan, problem: Problem) -> Call:
    """With the leading dimensions of what is kept of A and B. Of groups, one matrix with as many tiles as all of theirs, and the
    mean of their k tiles."""
    call = Call.of(plan, problem)
    kept = [(one.kept, one.group) if one.major == "K" else (1, 1) for one in (plan.operand("A"), plan.operand("B"))]
    a, b = (max(1, pitch * some // of) for pitch, (some, of) in zip(call.pitches[:2], kept, strict=True))
    call = replace(call, pitches=(a, b, call.pitches[2]))
    if not problem.groups:
        return call
    across, along = (tile * ctas for tile, ctas in zip(plan.tile_of_d[:2], plan.cluster_of_d, strict=True))
    shapes = problem.groups.shapes(call.n, call.k)
    tiles = [-(-m // across) * -(-n // along) for m, n, _ in shapes]
    rows, all_of_them = -(-sum(tiles) // -(-call.n // along)), sum(tiles)
    k = sum(count * shape[2] for count, shape in zip(tiles, shapes, strict=True)) // max(all_of_them, 1)
    return replace(call, m=max(rows, 1) * across, k=max(k, 1), batch=1)


def _aligned_us(plan: GemmPlan, kernel: KernelShape, cost: Cost, call: Call, problem: Problem, edge: float) -> float:
    """Of a call whose operands TMA, or copies of vectors, can load. Each group has its own B, unless all share one."""
    others = 0
    if problem.groups and problem.batch_stride_b != 0:
        others = max(0, sum(1 for size in problem.groups.sizes if size) - 1)
    read = others * float(call.n) * call.k * kernel.bytes[1]
    return estimated_us(plan, kernel, cost, call, further_read=read, copied_us=edge)


def _by_threads_us(kernel: KernelShape, cost: Cost, call: Call) -> float:
    tile_m, tile_n, tile_k = kernel.tile
    tiles = -(-call.m // tile_m) * -(-call.n // tile_n) * call.batch
    k_tile = (tile_m + tile_n) * tile_k * max(1.0, kernel.bytes[0] / 2) / _BY_THREADS
    lines = (tile_m + tile_n + min(tile_m, call.m) + min(tile_n, call.n)) / 2
    one = -(-call.k // tile_k) * k_tile + lines * _END_US
    return _LAUNCH_US + -(-tiles // max(1, cost.ctas)) * one


def _by_copies_us(plan: GemmPlan, kernel: KernelShape, cost: Cost, call: Call) -> float:
    copied = (float(call.m) * kernel.bytes[0] + float(call.n) * kernel.bytes[1]) * call.k * call.batch
    a, b = (-(-pitch // _COPY_PITCH) * _COPY_PITCH for pitch in call.pitches[:2])
    of_copies = replace(call, pitches=(a, b, call.pitches[2]))
    return _COPY_US + copied / _COPIED + estimated_us(plan, kernel, cost, of_copies)


def _cost(plan: GemmPlan, device: Device, resident: int) -> Cost:
    """resident: CTAs that share an SM."""
    guessed = guess(plan, 1)
    memory = device.dram_gbps / _GUESSED_FOR.dram_gbps
    changed = {
        "dram_tbps": guessed.dram_tbps * memory,
        "store_tbps": guessed.store_tbps * memory,
        "l2_tbps": guessed.l2_tbps * device.sms * device.clock_mhz / (_GUESSED_FOR.sms * _GUESSED_FOR.clock_mhz),
        "ctas": device.at_once(plan.scheduler.cluster_ctas, resident),
    }
    if plan.bytes_of_pieces or all(one.smem_copy for one in plan.operands) or plan.operand("A").sparse:
        changed["throttle"] = 0.0  # of lower rates, which the power limit allows
    if all(one.smem_copy for one in plan.operands):  # threads load fragments, which `guess` does not know
        # What one CTA waits for, another uses.
        warps = _WARPS if plan.operand("A").sparse else resident * plan.threads / 32
        few = min(1.0, warps / _WARPS) ** _WARPS_SYNC
        waits = _K_TILE_CYCLES + _K_BLOCK_CYCLES * plan.tile[2] * _element_bytes(plan.operands[0]) / _K_BLOCK_BYTES
        changed["k_tile_us"] = math.hypot(_k_tile_us(plan, device) * resident / few, waits / device.clock_mhz)
        changed["tile_us"] = guessed.tile_us + (_STAGED - 1) * _epilogue_us(plan)
    else:
        changed["k_tile_us"] = _wgmma_k_tile_us(plan, device, resident)
    return guessed.model_copy(update=changed)


def _wgmma_k_tile_us(plan: GemmPlan, device: Device, resident: int) -> float:
    """Of `resident` CTAs that share an SM: of tensor cores, and of threads that add up what a k tile yields."""
    m, n, k = plan.tile
    operation = catalogue.known(plan.atom.name)
    per_cycle = float((rate(operation, f"sm_{device.capability}a") if operation else None) or _SCALAR_RATE)
    sparse = operation is not None and operation.sparse
    reached = _REACHED_SPARSE if sparse else _REACHED.get(plan.atom.type_a.word, _REACHED["bf16"])
    reached *= min(1.0, resident * plan.threads / 32 / _WARPS) ** 0.5
    scale = plan.spec.scale
    each = _SCALED_US if scale and scale.b == "1x128" else _PROMOTED_US if decisions.promoted(plan.spec) else 0.0
    # Pieces of f32 are loaded once for all of their products.
    multiplied = 2 * m * n * k * plan.accumulation.products / (per_cycle * reached)
    read = _stage_bytes(plan) / _SMEM_BYTES
    mma: float = (multiplied**4 + read**4) ** 0.25 / device.clock_mhz + m * n * each
    if plan.spec.weights:  # they are A of wgmma; all warpgroups but the producer convert
        mma += m * k * _CONVERTED_US / max(1.0, plan.threads / 128 - 1)
    return resident * max(mma, _LEAST_US + k * plan.operands[0].element.bytes * _LEAST_LINE_US)


def _stage_bytes(plan: GemmPlan) -> float:
    """What the wgmmas of a k tile read of a stage, in bytes weighted by how they delay: A for each atom along N, B for each along
    M."""
    m, n, k = plan.tile
    a, b = plan.operands
    of_a = 0.0 if plan.atom.a_in_registers else m * (n / plan.atom.n) * a.element.bytes * a.kept / a.group
    return k * (_READS_OF_A * of_a + _READS_OF_B * n * (m / plan.atom.m) * b.element.bytes)


def _element_bytes(operand: Operand) -> float:
    """Of an element that is multiplied."""
    return operand.element.bytes / operand.packed


def _k_tile_us(plan: GemmPlan, device: Device) -> float:
    """Of one CTA that has an SM for itself: as long as the tensor cores take, or shared memory to deliver the fragments."""
    m, n, k = plan.tile
    rows, columns, _ = plan.tiled_mma.atoms
    operation = catalogue.known(plan.atom.name)
    per_cycle = float((rate(operation, f"sm_{device.capability}") if operation else None) or _SCALAR_RATE)
    if operation and operation.tensor_core and capability(operation.arch) < device.capability == _HOPPER:
        per_cycle *= _OF_WGMMA.get(operation.type_a, _OF_WGMMA["bf16"])
    clock = device.clock_mhz * (_F64_CLOCK if device.capability == _HOPPER and plan.atom.type_a.word in ("f64", "c64") else 1.0)
    a, b = map(_element_bytes, plan.operands)
    # A warp reads fragments; of scalar operands a line for each element of a thread, which others of its threads share.
    by_warps, by_threads = m * columns * a + n * rows * b, plan.threads * (m // rows * a + n // columns * b)
    read = k * (by_warps if plan.atom.threads > 1 else by_threads)
    products = plan.atom.real_products * plan.accumulation.products
    mma, smem = 2 * m * n * k * products / per_cycle, read / _SMEM_BYTES
    norm = _JOINED if plan.atom.type_a.word in ("bf16", "f16") and plan.atom.type_c.word == "f32" else _JOINED_OTHERS
    cycles: float = (mma**norm + smem**norm) ** (1 / norm)
    return cycles / clock
