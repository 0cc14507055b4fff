"""Bank conflicts of the epilogue that stages slices of D for TMA (sm90_epilogue_tma.cuh), counted from the plan."""

from __future__ import annotations

from collections.abc import Iterator

from mmagen.families.wgmma.decisions import EPILOGUE_ROWS
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.plan.bank_conflicts import Passes, passes
from mmagen.plan.operations import columns_of_element

_WARP = 32
_WARP_ROWS = 16  # of a wgmma that a warp holds
_MOST_LINE_BYTES = 128  # of a box with TMA's swizzle
_MATRIX = 8  # rows of 16 bytes that one address of stmatrix names each, and columns of a group of accumulators


def staging(plan: WgmmaGemmPlan) -> Passes:
    """The passes of the stores to shared memory of all warps of one CTA tile, in the units of `plan.bank_conflicts`."""
    m, n, _ = plan.tile
    slices = m * n // (EPILOGUE_ROWS * plan.epilogue.slice)  # of all warpgroups
    each = [one for warp in range(0, EPILOGUE_ROWS, _WARP_ROWS) for one in _slice(plan, warp)]
    return Passes(sum(one.taken for one in each) * slices, sum(one.ideal for one in each) * slices)


def _slice(plan: WgmmaGemmPlan, first: int) -> Iterator[Passes]:
    """The stores of the warp whose rows of a slice begin with `first`: stmatrix of 16-bit elements, else of pairs along D's
    contiguous mode; single elements where each is made of a pair of columns."""
    staged = plan.epilogue
    element = staged.out.bytes
    halved = columns_of_element(staged.operations)
    for column in range(0, staged.slice, _MATRIX):
        if halved == 2:
            for row in range(first, first + _WARP_ROWS, _MATRIX):
                yield passes([_offset(plan, row + lane // 4, column // 2 + lane % 4) for lane in range(_WARP)], element)
            continue
        if element == 2:
            for row in range(first, first + _WARP_ROWS, _MATRIX):
                if staged.row_major:
                    places = [(row + line, column) for line in range(_MATRIX)]
                else:
                    places = [(row, column + line) for line in range(_MATRIX)]
                yield passes([_offset(plan, *place) for place in places], 16)
            continue
        pair = 2 if staged.row_major else 1
        for i in range(0, 4, pair):
            lanes = range(_WARP)
            yield passes(
                [_offset(plan, first + lane // 4 + i // 2 * 8, column + lane % 4 * 2 + i % 2) for lane in lanes], pair * element
            )


def _offset(plan: WgmmaGemmPlan, row: int, column: int) -> int:
    """Byte of an element in a buffer, with TMA's swizzle: Swizzle<bits, 4, 3> of lines of `pitch` bytes, in boxes of at most 128
    bytes along D's contiguous mode."""
    staged = plan.epilogue
    columns = staged.slice // columns_of_element(staged.operations)
    rows = EPILOGUE_ROWS if staged.row_major else min(EPILOGUE_ROWS, _MOST_LINE_BYTES // staged.out.bytes)  # of a box
    box, in_box = divmod(row, rows)
    line, along = (in_box, column) if staged.row_major else (column, in_box)
    pitch = (columns if staged.row_major else rows) * staged.out.bytes
    bits = {128: 3, 64: 2, 32: 1}.get(pitch, 0)
    place = line * pitch + along * staged.out.bytes
    return box * rows * columns * staged.out.bytes + (place ^ ((place >> 7 & ((1 << bits) - 1)) << 4))
