"""Which matrix element each thread's fragment element is, by the PTX ISA's formulas.

The functions below are the formulas of PTX ISA 9.7.14.5.1 to 9.7.14.5.13 ("Matrix Fragments for mma..."), with their
two names: group is `groupID` (%laneid >> 2), thread is `threadID_in_group` (%laneid % 4). Element i counts from the low
bits of the first register on. They are written down here on their own, not taken from CuTe or tensor-layouts, so that
either can check the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from mmagen.emulate.arrays import Indices
from mmagen.emulate.errors import EmulationError

Formula = Callable[[Indices, Indices], tuple[Indices, Indices]]


@dataclass(frozen=True)
class Fragment:
    """The layout of one operand of a matrix instruction in registers.

    bits: of an element. count: elements per thread. registers: per thread; of 64 bits for 64-bit elements, else of 32.
    row, column: int[32, count], place of lane l's element i in the operand's matrix (A: M by K, B: K by N, C: M by N).
    matrix: int[32], which of the independent products the lane works on (0 but for Volta's four quad pairs).
    """

    bits: int
    count: int
    row: Indices
    column: Indices
    matrix: Indices

    @property
    def registers(self) -> int:
        return self.count * self.bits // max(32, self.bits)


def _fragment(count: int, bits: int, formula: Formula, matrix: Indices | None = None) -> Fragment:
    """A Fragment from its formula (lane[32, 1], i[1, count]) -> (row, column)."""
    lane, i = np.arange(32)[:, None], np.arange(count)[None, :]
    row, column = (np.broadcast_to(values, (32, count)) for values in formula(lane, i))
    return Fragment(bits, count, row, column, np.zeros(32, int) if matrix is None else matrix)


def fragment_a(m: int, k: int, bits: int) -> Fragment:
    """A's fragment of the warp-wide shapes, row-major (9.7.14.5.2 to 9.7.14.5.13).

    m: 8 or 16. bits: 1, 4, 8, 16, 32 (tf32) or 64. The manual's formulas are one with `run` elements to a register: odd
    registers hold the rows from 8 on, every second one starts the next 4 * run columns. (m16n8k16 with f16: row group
    for a0 a1 a4 a5, else group + 8; column 2*thread + (i & 1), + 8 from a4 on.)
    """
    run = max(1, 32 // bits)

    def place(lane: Indices, i: Indices) -> tuple[Indices, Indices]:
        group, thread, register = lane >> 2, lane % 4, i // run
        return group + 8 * (register % 2), thread * run + i % run + 4 * run * (register // 2)

    return _fragment(m * k // 32, bits, place)


def fragment_b(n: int, k: int, bits: int) -> Fragment:
    """B's fragment of the warp-wide shapes, column-major: column group, runs of 32 bits of K per register."""
    run = max(1, 32 // bits)

    def place(lane: Indices, i: Indices) -> tuple[Indices, Indices]:
        return lane % 4 * run + i % run + 4 * run * (i // run), lane >> 2

    return _fragment(n * k // 32, bits, place)


def fragment_c(m: int, n: int, bits: int) -> Fragment:
    """C's and D's fragment of the warp-wide shapes: row group, + 8 from c2 on; column 2*thread + (i & 1)."""
    return _fragment(m * n // 32, bits, lambda lane, i: ((lane >> 2) + 8 * (i // 2), lane % 4 * 2 + (i & 1)))


QUAD_PAIR = np.arange(32) % 16 // 4
"""int[32]: which of Volta's four products a lane works on (table in 9.7.14.5.1): lanes 0-3, 16-19 on the first."""


def volta_a(row_major: bool) -> Fragment:
    """A of mma.m8n8k4 with .f16 (9.7.14.5.1): four elements a thread, 8 by 4 for each quad pair."""

    def place(lane: Indices, i: Indices) -> tuple[Indices, Indices]:
        high = 4 * (lane >= 16)
        return (lane % 4 + high, i) if row_major else (i % 4 + high, lane % 4)

    return _fragment(4, 16, place, QUAD_PAIR)


def volta_b(row_major: bool) -> Fragment:
    """B of mma.m8n8k4 with .f16 (9.7.14.5.1): four elements a thread, 4 by 8 for each quad pair."""

    def place(lane: Indices, i: Indices) -> tuple[Indices, Indices]:
        high = 4 * (lane >= 16)
        return (lane % 4, i + high) if row_major else (i, lane % 4 + high)

    return _fragment(4, 16, place, QUAD_PAIR)


def volta_c(bits: int) -> Fragment:
    """C and D of mma.m8n8k4 with .f16 (9.7.14.5.1): eight elements a thread; the places differ for f16 and f32."""

    def place16(lane: Indices, i: Indices) -> tuple[Indices, Indices]:
        return lane % 4 + 4 * (lane >= 16), i

    def place32(lane: Indices, i: Indices) -> tuple[Indices, Indices]:
        row = (lane & 0b1) + (i & 0b10) + 4 * (lane >= 16)
        return row, (i & 0b100) + (lane & 0b10) + (i & 0b1)

    return _fragment(8, bits, place16 if bits == 16 else place32, QUAD_PAIR)


@cache
def gather_index(kind: str, *shape: int) -> Indices:
    """Where each matrix element lies among a warp's elements, for reading a fragment as a matrix.

    kind and shape: a function of this module by its name, and its arguments. Returns int[matrices * rows * columns],
    positions in the elements of the registers one after the other, lanes within a register, low bits first.
    Raises EmulationError if the fragment does not fill its matrix exactly once.
    """
    fragment = fragment_of(kind, *shape)
    rows, columns = int(fragment.row.max()) + 1, int(fragment.column.max()) + 1
    matrices = int(fragment.matrix.max()) + 1
    cells = (fragment.matrix[:, None] * rows + fragment.row) * columns + fragment.column
    index = np.full(matrices * rows * columns, -1, np.intp)
    index[cells.ravel()] = positions(fragment).ravel()
    if fragment.row.size != index.size or (index < 0).any():
        raise EmulationError(f"the fragment {kind}{shape} does not hold each element of its matrix once")
    return index


@cache
def scatter_index(kind: str, *shape: int) -> Indices:
    """The inverse of gather_index: int[elements of a warp], the matrix element that each position holds."""
    index = gather_index(kind, *shape)
    inverse = np.empty_like(index)
    inverse[index] = np.arange(index.size)
    return inverse


def positions(fragment: Fragment) -> Indices:
    """int[32, count]: where lane l's element i lies when registers follow each other, each with its 32 lanes."""
    per_register = max(1, 32 // fragment.bits)
    lane, i = np.arange(32)[:, None], np.arange(fragment.count)[None, :]
    return (i // per_register * 32 + lane) * per_register + i % per_register


@cache
def fragment_of(kind: str, *shape: int) -> Fragment:
    """The fragment that the function `kind` of this module makes for `shape`; computed once."""
    makers: dict[str, Callable[..., Fragment]] = {
        "fragment_a": fragment_a,
        "fragment_b": fragment_b,
        "fragment_c": fragment_c,
        "volta_a": volta_a,
        "volta_b": volta_b,
        "volta_c": volta_c,
    }
    return makers[kind](*shape)
