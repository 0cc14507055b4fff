"""Packs matrices into images of registers and shared memory by given layouts, and unpacks D.

A matrix is uint64 codes [instance, row, column, part]; a register image is bytes [thread, byte].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.core.layout_text import LayoutText
from mmagen.mma.forms import SWIZZLES

# Integers of any width: codes, places and entries of tables.
_Ints = npt.NDArray[Any]

_SWIZZLE_CODES = {line: code for code, line in enumerate(SWIZZLES)}


def _offsets(layout: LayoutText) -> _Ints:
    """Offsets of all coordinates, the first mode fastest."""
    if isinstance(layout.shape, int):
        return np.arange(layout.shape) * layout.stride
    offsets = np.zeros(1, np.int64)
    for mode in layout.modes:
        offsets = (offsets[None, :] + _offsets(mode)[:, None]).ravel()
    return offsets


@cache
def owners(text: str) -> _Ints:
    """[thread, value]: the element row + rows * column that a thread-value layout gives it."""
    threads, values = LayoutText.parse(text).modes
    table: _Ints = _offsets(threads)[:, None] + _offsets(values)[None, :]
    return table


@cache
def compressed(text: str, rows: int, logical: int, stored: int) -> _Ints:
    """As `owners`, where each `logical` neighbours along K are kept as `stored` elements: [thread, stored value].

    Nonzeros of a sparse matrix (4 as 2), bytes of metadata (8 as 1) and scale factors (32 as 1) all lie so. Raises
    ValueError for a layout whose values do not come in such neighbours.
    """
    table = owners(text)
    groups = table.reshape(table.shape[0], -1, logical)
    row, column = groups % rows, groups // rows
    if (
        (row != row[:, :, :1]).any()
        or (column != column[:, :, :1] + np.arange(logical)).any()
        or (column[:, :, 0] % logical).any()
    ):
        raise ValueError(f"{text}: values are not groups of {logical} neighbours along K")
    first = column[:, :, 0] // logical * stored
    return (row[:, :, :1] + rows * (first[:, :, None] + np.arange(stored))).reshape(table.shape[0], -1)


def lanes(thr_id: str, threads: int, launched: int) -> _Ints:
    """[instance, logical thread]: the thread of the launch. Quad pairs and single threads work beside each other."""
    own = _offsets(LayoutText.parse(thr_id))
    step = 4 if threads == 8 else threads
    starts = np.arange(launched // threads) * (step if threads in (8, 1) else launched)
    table: _Ints = starts[:, None] + own[None, :]
    return table


def pack(codes: _Ints, table: _Ints, width: int, threads: _Ints, size: int) -> _Ints:
    """uint8[thread, size]: codes in registers, `width` bits each, the first value in the lowest bits.

    codes: [instance, row, column, part]; table: [logical thread, value]; threads: from `lanes`.
    """
    flat = codes.transpose(0, 2, 1, 3).reshape(codes.shape[0], -1, codes.shape[3])
    mine = flat[:, table].reshape(codes.shape[0], table.shape[0], -1)  # [instance, thread, code]
    if width < 8:
        per_byte = 8 // width
        shifts = np.arange(per_byte, dtype=np.uint64) * np.uint64(width)
        spread = mine.reshape(*mine.shape[:2], -1, per_byte) << shifts
        data = np.bitwise_or.reduce(spread, axis=-1).astype(np.uint8)
    else:
        data = np.ascontiguousarray(mine.astype(f"<u{width // 8}")).view(np.uint8).reshape(*mine.shape[:2], -1)
    if data.shape[2] > size:
        raise ValueError(f"{data.shape[2]} bytes of values do not fit {size} bytes of registers")
    image = np.zeros((threads.size, size), np.uint8)
    image[threads.ravel(), : data.shape[2]] = data.reshape(threads.size, -1)
    return image


def unpack(image: _Ints, table: _Ints, width: int, threads: _Ints, rows: int, columns: int, parts: int = 1) -> _Ints:
    """The codes [instance, row, column, part] that `pack` with that table would have packed; width is 16 or more."""
    count = table.shape[1] * parts
    mine = image[threads.ravel(), : count * width // 8]
    values = np.ascontiguousarray(mine).view(f"<u{width // 8}").astype(np.uint64)
    values = values.reshape(threads.shape[0], table.shape[0], table.shape[1], parts)
    codes = np.zeros((threads.shape[0], rows * columns, parts), np.uint64)
    codes[:, table] = values
    return codes.reshape(threads.shape[0], columns, rows, parts).transpose(0, 2, 1, 3)


@dataclass(frozen=True)
class SharedImage:
    """An operand in shared memory, for all steps. descriptor: without the address; step: bytes to the next step's."""

    data: _Ints
    descriptor: int
    step: int


def swizzles(rows: int, step_bytes: int, k_major: bool) -> list[int]:
    """Widths of lines (16: no swizzle) that a wgmma operand may have: whole lines of it, and one line holds a step."""
    return [w for w in SWIZZLES if w == 16 or (w >= step_bytes if k_major else rows * 2 % w == 0)]


def shared(steps: _Ints, width: int, k_major: bool, line: int) -> SharedImage:
    """Codes [step, row, column] as wgmma's canonical layout of that line; 1024-byte aligned when swizzled.

    PTX ISA, "Asynchronous warpgroup level matrix shared memory layout": 8 x 16-byte core matrices, alone or side by side
    in lines of 32, 64 or 128 bytes, whose 16-byte chunks are then permuted by the number of the line.
    """
    count, rows, columns = steps.shape
    size = width // 8
    step, row, column = np.meshgrid(np.arange(count), np.arange(rows), np.arange(columns), indexing="ij")
    if k_major:
        place, leading, stride, pitch = _k_major(step, row, column * size, rows, columns * size, line)
    else:
        place, leading, stride, pitch = _mn_major(step, row * size, column, rows * size, columns, line)
    place ^= (place >> 7 & (line // 16 - 1)) << 4
    data = np.zeros(-(-(int(place.max()) + size) // 1024) * 1024, np.uint8)
    raw = np.ascontiguousarray(steps.astype(f"<u{size}")).view(np.uint8).reshape(*steps.shape, size)
    for byte in range(size):
        data[place + byte] = raw[..., byte]
    descriptor = (leading >> 4) << 16 | (stride >> 4) << 32 | _SWIZZLE_CODES[line] << 62
    return SharedImage(data, descriptor, pitch)


def _k_major(step: _Ints, row: _Ints, byte: _Ints, rows: int, step_bytes: int, line: int) -> tuple[_Ints, int, int, int]:
    """(places in bytes, leading and stride byte offset, bytes between steps); `byte` counts along K."""
    if line == 16:
        leading, stride = 128, 128 * (step_bytes // 16)
        pitch = rows // 8 * stride
        return step * pitch + byte // 16 * leading + row // 8 * stride + row % 8 * 16 + byte % 16, leading, stride, pitch
    along = step * step_bytes + byte
    place = along // line * (rows * line) + row * line + along % line
    return place, 16, 8 * line, step_bytes if line > step_bytes else rows * line


def _mn_major(step: _Ints, byte: _Ints, column: _Ints, row_bytes: int, columns: int, line: int) -> tuple[_Ints, int, int, int]:
    """As `_k_major`; `byte` counts along M or N."""
    if line == 16:
        leading = 128
        stride = leading * (columns // 8)
        pitch = row_bytes // 16 * stride
        return (
            step * pitch + byte // 16 * stride + column // 8 * leading + column % 8 * 16 + byte % 16,
            leading,
            stride,
            pitch,
        )
    stride = 8 * line
    leading = stride * (columns // 8)
    pitch = -(-row_bytes // line * leading // 1024) * 1024
    return (
        step * pitch + byte // line * leading + column // 8 * stride + column % 8 * line + byte % line,
        leading,
        stride,
        pitch,
    )
