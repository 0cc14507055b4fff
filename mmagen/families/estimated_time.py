"""The time of a call by coefficients that nobody measured for its kernel.

Coefficients that `mmagen tune` fits for `plan.cost` are those of one kernel in one layout. A guess must hold for all layouts,
and for short and long K, so that the formula has more terms: epilogues overlap with the loads of other CTAs; boxes of an MN-major
operand read other lines than those of a K-major one; and CTAs that load the same lines wait for one another. The coefficients
here are fitted to three sets of candidates on an H100 (docs/results/h100-ranking.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.plan.cost import Call, KernelShape, Terms, beside_us, epilogue_us, joined_us, tensor_us
from mmagen.plan.plans import GemmPlan
from mmagen.spec.cost import Cost

_LINE_BYTES, _SECTOR_BYTES = 128, 32  # of L2
# Rows of a box, at most a line long, that begin within a line read parts of two: what L2 reads for the parts that no row needs.
# DRAM reads them for the rows of all CTAs of a cluster at once.
_BESIDE_L2, _BESIDE_DRAM = 1.07, 0.484
_ROW_NS = 0.845  # of TMA, for such a row that does not begin at a sector
_SAME_LINE_NS = 0.303  # of L2, each time that a CTA, or a cluster that multicasts, reads the same line
_STORED = 1.89  # bytes that L2 could read while it takes one of D


@dataclass(frozen=True)
class _Loads:
    """Of A or B. once: bytes of the whole matrix; loaded: bytes of all loads, less what clusters share. by_l2, by_dram: the
    factors by which these take longer. lines, rows: that a k tile loads and that begin beside a sector, of K-major operands and of
    others. same: how often a line is asked for while a k tile is loaded."""

    once: float
    loaded: float
    by_l2: float
    by_dram: float
    lines: float
    rows: float
    same: float


def estimated_us(plan: GemmPlan, kernel: KernelShape, cost: Cost, call: Call, it: Terms, copied_us: float = 0.0) -> float:
    """Microseconds of a call. it: its terms; copied_us: what the threads of the busiest CTA take besides for their copies."""
    a, b = (_loads(plan, kernel, cost, call, it, side) for side in range(2))
    sm = tensor_us(cost, it) + max(0.0, it.waves - 1) * epilogue_us(cost, it) + copied_us
    lines = it.path * ((a.lines + b.lines) * cost.line_ns + (a.rows + b.rows) * _ROW_NS) * 1e-3
    read = it.read * (a.once * a.by_dram + b.once * b.by_dram) / (a.once + b.once)
    dram = read / (cost.dram_tbps * 1e6) * it.used**-cost.dram_spread + it.stored / (cost.store_tbps * 1e6)
    loaded = a.loaded * a.by_l2 + b.loaded * b.by_l2 + it.stored * _STORED
    l2 = loaded / (cost.l2_tbps * 1e6) * (1 + it.ragged * cost.l2_ragged) * it.used**-cost.l2_spread
    same = it.path * max(a.same, b.same) * _SAME_LINE_NS * 1e-3
    return beside_us(cost, it, waves=1) + joined_us(sm, lines, dram, l2, same)


def _loads(plan: GemmPlan, kernel: KernelShape, cost: Cost, call: Call, it: Terms, side: int) -> _Loads:
    other = 1 - side
    extents, tile, cluster, pitch = (call.m, call.n), kernel.tile, kernel.cluster, call.pitches[side]
    tiles = [-(-extents[i] // tile[i]) for i in range(2)]
    once = float(extents[side]) * call.k * kernel.bytes[side] * call.batch
    loaded = once * -(-extents[other] // (tile[other] * cluster[other]))
    at_once = cost.ctas if it.joined else min(tiles[0] * tiles[1] * call.batch, cost.ctas)
    readers = max(1.0, at_once / (tiles[side] * call.batch)) / cluster[other]
    aligned = float(min(_LINE_BYTES, pitch & -pitch))
    beside = aligned < _SECTOR_BYTES
    if plan.majors[side] == "K":
        by_l2 = 1 + (cost.l2_odd_pitch if beside else cost.l2_pitch if aligned < _LINE_BYTES else 0.0)
        lines = min(extents[side], tile[side]) * tile[2] * kernel.bytes[side] / _LINE_BYTES if beside else 0.0
        return _Loads(once, loaded, by_l2, 1.0, lines, 0.0, readers)
    width = tile[side] * kernel.bytes[side]
    boxes = -(-width // _LINE_BYTES)
    by_l2 = 1 + _BESIDE_L2 * (_LINE_BYTES - aligned) / min(width, _LINE_BYTES)
    by_dram = 1 + _BESIDE_DRAM * (_LINE_BYTES - aligned) / (width * cluster[side])
    # Of few rows of D, several rows of a box lie in one line.
    real = min(width, extents[side] * kernel.bytes[side])
    touched = (min(real, _LINE_BYTES) + _LINE_BYTES - aligned) / _LINE_BYTES
    lines_of_row = touched * -(-real // _LINE_BYTES)
    same = max(1.0, lines_of_row / max(min(pitch / _LINE_BYTES, lines_of_row), 1 / tile[2]))
    return _Loads(once, loaded, by_l2, by_dram, 0.0, tile[2] * boxes if beside else 0.0, readers * same)
