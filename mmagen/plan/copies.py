"""Copies of operands that TMA cannot address: which calls make them, as templates/runtime/mmagen/operand_copies.cuh decides, the
call by whose pitches a library chooses its kernel, and what loads the operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from math import ceil, log2

from mmagen.plan.cost import Call, element_bytes
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem

_VECTOR_BYTES = 16
_PITCH_BYTES = 128  # of which the rows of a copy are multiples
_MOST_THREADS = 256
_MOST_PIECES = 0x7FFFFFFF // 32
_PIECE_BYTES = 128 * 16
# As in copies_pay(): bytes, or operations on elements of one byte, in a microsecond.
_SMS, _TILE_RATE, _COPY_RATE, _MEMORY_RATE, _MMA_RATE, _LAUNCH_US = 132, 1.4e4, 1.5e6, 3.5e6, 1.2e9, 3.0
# As in sm90_few_rows.cuh: takes_few_rows() and few_rows_pay().
_MOST_FEW, _MOST_FEW_K, _FEW_RATE, _FEW_ROWS, _FEW_LAUNCH_US = 16, 2**30, 2.5e6, 32, 2.5
_FEW_CTA_RATE, _FEW_CTA_RATE_OF_BYTES, _ROWS_OF_FEW_CTA = 2.2e4, 1.5e4, 8
# As in FewRowsGrid of that header.
_MOST_CTAS, _FEW_CTAS_OF_SM, _FEW_MEANWHILE = 0x7FFFFFFF, 2.0, 24 * 1024.0
_CACHED_COPY, _CACHED_COPY_RATE, _READ_COPY_RATE = 8e6, 3.3e6, 1.33e6


class Loads(Enum):
    """How the operands of a library's call are loaded."""

    TMA = "by TMA"
    COPIES = "by TMA, from copies"
    FEW_ROWS = "by the kernel for few rows"
    THREADS = "by threads"


def by_threads(plans: Sequence[GemmPlan]) -> int:
    """Which of a library's kernels lends tile and threads to the one that loads without TMA: with 256 threads if there is one,
    since threads limit the rate of loads, and the tile nearest to 128 x 128, which still makes enough CTAs of small problems."""

    def fitness(one: GemmPlan) -> tuple[int, float]:
        return min(one.tiled_mma.threads, _MOST_THREADS), -abs(log2(one.tile[0] * one.tile[1] / 128**2))

    return max(range(len(plans)), key=lambda i: (fitness(plans[i]), i))


def call_of(plan: GemmPlan, problem: Problem) -> Call:
    """The call that verify and bench make for a problem, with the workspace that it asks for, as the kernel with TMA sees it: with
    the pitches of copies where they are made."""
    call = Call.of(plan, problem)
    copied = _copied(plan, problem, call)
    extents = _along(plan, call)
    sizes = element_bytes(plan)
    a, b = (ceil(extents[i] * sizes[i] / _PITCH_BYTES) * _PITCH_BYTES if copied[i] else call.pitches[i] for i in range(2))
    return replace(call, pitches=(a, b, call.pitches[2]))


def loads(plan: GemmPlan, problem: Problem, room: bool = True) -> Loads:
    """Of a library that copies operands. room: has the call the workspace that it asks for? Without, nothing is copied."""
    call = Call.of(plan, problem)
    if all(_addressable(plan, problem, call, place) for place in range(2)):
        return Loads.TMA
    if room and any(_copied(plan, problem, call)):
        return Loads.COPIES
    return Loads.FEW_ROWS if takes_few_rows(plan, problem) else Loads.THREADS


def _copied(plan: GemmPlan, problem: Problem, call: Call) -> tuple[bool, bool]:
    """Whether A and B of a call with a workspace are copied."""
    if not plan.copies_operands:
        return False, False
    a, b = (not _addressable(plan, problem, call, place) for place in range(2))
    copied_bytes = _copied_bytes(plan, problem, call, (a, b))
    if copied_bytes is None or _few_rows_pay(plan, problem, call, copied_bytes):
        return False, False
    return a, b


def _along(plan: GemmPlan, call: Call) -> tuple[int, int]:
    """Elements of a line of A and of B."""
    return (call.k if plan.majors[0] == "K" else call.m, call.k if plan.majors[1] == "K" else call.n)


def _addressable(plan: GemmPlan, problem: Problem, call: Call, place: int) -> bool:
    """Do all lines of A (0) or B (1) begin at multiples of 16 bytes?"""
    size = element_bytes(plan)[place]
    stride = _stride(problem, place)
    return call.pitches[place] % _VECTOR_BYTES == 0 and all(
        count * size % _VECTOR_BYTES == 0 for count in (problem.offset, stride or 0)
    )


def _stride(problem: Problem, place: int) -> int | None:
    return (problem.batch_stride_a, problem.batch_stride_b)[place] if problem.batch > 1 else 0


def _copied_bytes(plan: GemmPlan, problem: Problem, call: Call, copied: Sequence[bool]) -> float | None:
    """Bytes of copies, if copies_pay() for the library's kernel without TMA, else None."""
    lender = plan.configs[by_threads(plan.kernels)].plan if plan.configs else plan
    # It loads whole tiles, whatever launches of its kernel compute.
    whole = replace(lender, scheduler=replace(lender.scheduler, tile_n=0))
    tile_m, tile_n, tile_k = whole.tile_of_d
    size = element_bytes(plan)[0]
    along = _along(plan, call)
    total, pieces = 0.0, 0.0
    for place in range(2):
        if copied[place]:
            lines = (call.m, call.n)[place] * call.k // along[place]
            lines *= 1 if _stride(problem, place) == 0 and problem.batch > 1 else call.batch
            total += -(-along[place] * size // _PITCH_BYTES) * _PITCH_BYTES * lines
            pieces += lines * -(-along[place] * size // _PIECE_BYTES)
    m, n, k, batch = (float(extent) for extent in (call.m, call.n, call.k, call.batch))
    waves = max(1.0, -(-call.m // tile_m) * -(-call.n // tile_n) * batch / _SMS)
    direct = _LAUNCH_US + waves * -(-call.k // tile_k) * (tile_m + tile_n) * tile_k * size / _TILE_RATE
    by_tma = max(2 * m * n * k * batch * size / _MMA_RATE, (m + n) * k * batch * size / _MEMORY_RATE)
    total += _PITCH_BYTES
    return total if pieces <= _MOST_PIECES and 2 * _LAUNCH_US + total / _COPY_RATE + by_tma < direct else None


def takes_few_rows(plan: GemmPlan, problem: Problem) -> bool:
    """takes_few_rows() for a library that has the kernel."""
    if not (plan.few_rows and min(problem.m, problem.n) <= _MOST_FEW and 0 < problem.k <= _MOST_FEW_K):
        return False
    return few_rows_ctas(problem, element_bytes(plan)[0]) <= _MOST_CTAS


def few_rows_ctas(problem: Problem, size: float) -> int:
    """CTAs of the kernel for few rows: FewRowsGrid. size: bytes of an element."""
    few, many = sorted((problem.m, problem.n))
    row_classes = int(_VECTOR_BYTES / size)
    classes = min(many, row_classes)
    rows = -(-many // row_classes)  # of a class
    blocks = -(-rows // _ROWS_OF_FEW_CTA)

    def rows_of_sm(taken: int) -> float:
        ctas = float(classes * -(-blocks // taken) * problem.batch)
        own = _ROWS_OF_FEW_CTA * taken + few + _FEW_MEANWHILE / (size * float(problem.k))
        return max(float(ceil(ctas / _SMS)), _FEW_CTAS_OF_SM) * own

    taken = 1
    for more in (2, 4):
        taken = more if rows_of_sm(more) < rows_of_sm(taken) else taken
    return classes * -(-blocks // taken) * problem.batch


def _few_rows_pay(plan: GemmPlan, problem: Problem, call: Call, copied_bytes: float) -> bool:
    """few_rows_pay()."""
    if not takes_few_rows(plan, problem):
        return False
    few, many = sorted((call.m, call.n))
    size = element_bytes(plan)[0]
    row, cta_rate = float(call.k) * size, _FEW_CTA_RATE_OF_BYTES if size == 1 else _FEW_CTA_RATE
    rows = row * call.batch
    direct = _FEW_LAUNCH_US + max(many * rows * (1 + few / _FEW_ROWS) / _FEW_RATE, (_ROWS_OF_FEW_CTA + few) * row / cta_rate)
    cached = min(copied_bytes, _CACHED_COPY)
    others = max(0.0, (few + many) * rows - copied_bytes)
    copies = cached / _CACHED_COPY_RATE + (copied_bytes - cached) / _READ_COPY_RATE + others / _MEMORY_RATE
    return direct <= 2 * _LAUNCH_US + copies
