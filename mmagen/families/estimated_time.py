"""The time of a call of a kernel that was not measured.

Coefficients that `mmagen tune` fits for `plan.cost` hold for one kernel in one layout. A guess must hold for all layouts, and for
short and long K, so this formula has more terms: epilogues overlap with the loads of other CTAs; TMA boxes of an MN-major operand
read parts of lines; and CTAs that load the same lines wait for one another. The constants here are fitted to candidates of wgmma
kernels on an H100 (docs/results/h100-ranking.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.plan.cost import Call, KernelShape, Terms, epilogue_us, mainloop_us, outside_us, tensor_us, terms
from mmagen.plan.plans import GemmPlan
from mmagen.spec.cost import Cost

_LINE_BYTES, _SECTOR_BYTES = 128, 32  # of L2
# A row of a box is at most one line long. If it does not begin at a line it may touch two: weights of the bytes that L2 and DRAM
# read beyond the row. For DRAM, the rows of a cluster's CTAs count as one.
_BEYOND_L2, _BEYOND_DRAM = 1.07, 0.484
_ROW_NS = 0.845  # TMA's time for a row of a box that does not begin at a multiple of 32 bytes
_SAME_LINE_NS = 0.303  # L2's time for each read of the same line, by a CTA or by a cluster that multicasts
_STORED = 1.89  # storing a byte of D takes L2 as long as reading so many


@dataclass(frozen=True)
class _Loads:
    """Of A or B. once: bytes of the matrix; loaded: bytes that CTAs load, those of a multicast once. by_l2, by_dram: factors of
    their times. lines, rows: of a k tile, the lines of a K-major operand, or the rows of boxes of an MN-major one, that do not
    begin at a multiple of 32 bytes. same: how often one line is read while a k tile is loaded, if all CTAs have neighbouring
    tiles."""

    once: float
    loaded: float
    by_l2: float = 1.0
    by_dram: float = 1.0
    lines: float = 0.0
    rows: float = 0.0
    same: float = 1.0


def estimated_us(
    plan: GemmPlan, kernel: KernelShape, cost: Cost, call: Call, *, further_read: float = 0.0, copied_us: float = 0.0
) -> float:
    """Microseconds of a call. further_read: bytes of B that are read besides, by other groups; copied_us: time of the predicates
    with which the threads of a CTA copy one tile."""
    kernel = kernel.of_call(cost.ctas, call)
    it = terms(kernel, cost.ctas, call)
    a, b = (_loads(plan, kernel, cost, call, side) for side in range(2))
    sm = tensor_us(cost, it) + max(0.0, it.waves - 1) * epilogue_us(cost, it) + copied_us
    lines = it.path * ((a.lines + b.lines) * cost.line_ns + (a.rows + b.rows) * _ROW_NS) * 1e-3
    read = a.once * a.by_dram + (b.once + further_read) * b.by_dram
    dram = read / (cost.dram_tbps * 1e6) * it.used**-cost.dram_spread + it.stored / (cost.store_tbps * 1e6)
    same = it.path * max(a.same, b.same) * _SAME_LINE_NS * 1e-3
    return outside_us(cost, it, waves=1) + mainloop_us(sm, lines, dram, _l2_us(cost, it, (a, b)), same)


def _l2_us(cost: Cost, it: Terms, loads: tuple[_Loads, _Loads]) -> float:
    loaded = sum(one.loaded * one.by_l2 for one in loads) + it.stored * _STORED
    us: float = loaded / (cost.l2_tbps * 1e6) * (1 + it.ragged * cost.l2_ragged) * it.used**-cost.l2_spread
    return us


def _loads(plan: GemmPlan, kernel: KernelShape, cost: Cost, call: Call, side: int) -> _Loads:
    other = 1 - side
    extents, tile, cluster = (call.m, call.n), kernel.tile, kernel.cluster
    tiles = [-(-extents[i] // tile[i]) for i in range(2)]
    once = float(extents[side]) * call.k * kernel.bytes[side] * call.batch
    loaded = once * -(-extents[other] // (tile[other] * cluster[other]))
    at_once = min(tiles[0] * tiles[1] * call.batch, cost.ctas)
    readers = max(1.0, at_once / (tiles[side] * call.batch * cluster[other]))
    aligned = min(_LINE_BYTES, call.pitches[side] & -call.pitches[side])
    operand = plan.operand("AB"[side])
    if plan.bytes_of_pieces:  # K-major and aligned, whatever the layout of the call is
        return _Loads(once, loaded, same=readers)
    misaligned = aligned < _SECTOR_BYTES
    if plan.majors[side] == "K" or operand.tma is None:  # threads that copy rows of MN-major operands read whole lines together
        by_l2 = 1 + (cost.l2_odd_pitch if misaligned else cost.l2_pitch if aligned < _LINE_BYTES else 0.0)
        lines = min(extents[side], tile[side]) * tile[2] * kernel.bytes[side] / _LINE_BYTES if misaligned else 0.0
        return _Loads(once, loaded, by_l2, lines=lines, same=readers)
    width, box = tile[side] * kernel.bytes[side], operand.tma.swizzle_bytes
    beyond = _LINE_BYTES - aligned
    is_whole = extents[side] <= tile[side] * cluster[side]  # what is beyond a row belongs to the next, of the same CTAs
    return _Loads(
        once,
        loaded,
        by_l2=1 + _BEYOND_L2 * beyond / box,
        by_dram=1.0 if is_whole else 1 + _BEYOND_DRAM * beyond / (width * cluster[side]),
        rows=tile[2] * width / box if misaligned else 0.0,
        same=readers * _rows_of_line(min(width, extents[side] * kernel.bytes[side]), box, beyond, call.pitches[side], tile[2]),
    )


def _rows_of_line(row: float, box: int, beyond: int, pitch: int, rows: int) -> float:
    """How many rows of boxes read the same line, of so many rows of `row` bytes each, which begin up to `beyond` bytes behind the
    begin of a line: several if a line has more than one."""
    touched = max(1.0, (min(row, box) + beyond) / _LINE_BYTES) * max(1.0, row / box)
    return max(1.0, touched / max(min(pitch / _LINE_BYTES, touched), 1 / rows))
