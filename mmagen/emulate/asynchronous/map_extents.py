"""Tensor maps that extend over more than the matrix that they are made for.

TMA fills with zeros what lies outside of the map, so a map that is too large brings elements of other rows or of the padding
into the last tiles. Where the memory behind the matrix belongs to the kernel too, no access to it is out of bounds.
"""

from __future__ import annotations

from mmagen.emulate.memory.global_memory import GlobalMemory
from mmagen.emulate.memory.rows import Rows
from mmagen.emulate.memory.tensor_map import TensorMap


def excess(tensor: TensorMap, memory: GlobalMemory) -> str:
    """What a map covers that its matrix does not have; "" where it covers no more, or is not made of the matrix's rows, or where
    memory has parts of matrices alone."""
    if memory.holds_parts:
        return ""
    place = next((one for one in memory.allocations.values() if one.contains(tensor.address)), None)
    if place is None or not place.rows.counts:
        return ""
    rows = place.rows
    column, at = _position(rows, tensor.address - place.address - rows.start)
    of_rows = False
    for extent, stride in zip(tensor.extents[1:], tensor.strides, strict=True):
        modes = [mode for mode, step in enumerate(rows.strides) if step == stride]
        of_rows |= 0 in modes
        if extent > 1 and modes and all(extent > rows.counts[mode] - at[mode] for mode in modes):
            mode = modes[0]
            what = ("rows", "matrices")[min(mode, 1)]
            return f"a tensor map of {extent} {what}, {stride} bytes apart; {place.name} has {rows.counts[mode] - at[mode]}"
    line = tensor.extents[0] * tensor.element
    if of_rows and line > rows.width - column:
        return f"a tensor map with rows of {line} bytes; those of {place.name} have {rows.width - column}"
    return ""


def _position(rows: Rows, offset: int) -> tuple[int, list[int]]:
    """(byte within its row, index in each mode) of a byte `offset` bytes after the first row's begin."""
    at = [0] * len(rows.counts)
    for mode in sorted(range(len(rows.counts)), key=lambda n: -rows.strides[n]):
        if rows.strides[mode]:
            at[mode] = min(max(offset // rows.strides[mode], 0), rows.counts[mode] - 1)
            offset -= at[mode] * rows.strides[mode]
    return offset, at
