"""The matrices of one problem, as bytes in memory and as numpy views of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.emulate import POISON, Rows, sparse_zeros
from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.formats import EXACT_INTEGERS, decode, encode, is_integer, storage

_BATCH_GAP = 16  # elements: 16 bytes at least, which keep the alignment of rows
_MOST_POISONED = 1 << 28  # bytes


@dataclass(frozen=True)
class Matrix:
    """`batch` matrices of rows x columns elements of type `word`.

    memory: uint8, the whole allocation; the first element lies `offset` elements into it, and all that is no element is
    poison, or zeros where that is too much to fill. ld, batch_stride: in elements; a batch_stride of 0: one for all.
    columns_contiguous: the second mode is the contiguous one.
    """

    word: str
    rows: int
    columns: int
    batch: int
    columns_contiguous: bool
    ld: int
    batch_stride: int
    offset: int
    memory: npt.NDArray[Any]

    @property
    def view(self) -> npt.NDArray[Any]:
        """(batch, rows, columns) onto the elements, without the padding."""
        kind = storage(self.word)
        strides = (self.batch_stride, self.ld, 1) if self.columns_contiguous else (self.batch_stride, 1, self.ld)
        return np.ndarray(
            (self.batch, self.rows, self.columns),
            kind,
            self.memory,
            self.offset * kind.itemsize,
            tuple(step * kind.itemsize for step in strides),
        )

    @property
    def lines(self) -> npt.NDArray[Any]:
        """(batch, lines, elements of a line) onto the elements, the contiguous mode last."""
        return self.view if self.columns_contiguous else self.view.swapaxes(1, 2)

    @property
    def rows_of_memory(self) -> Rows:
        """The bytes of the memory that belong to an element; the others are padding."""
        size = storage(self.word).itemsize
        inner, outer = (self.columns, self.rows) if self.columns_contiguous else (self.rows, self.columns)
        strides = (self.ld * size, self.batch_stride * size)
        return Rows(self.offset * size, inner * size, (outer, self.batch), strides)


def empty(
    word: str,
    rows: int,
    columns: int,
    batch: int,
    columns_contiguous: bool,
    pad: int,
    offset: int,
    batch_stride: int | None = None,
) -> Matrix:
    """Memory for a batch of matrices whose lines are `pad` elements longer than they need to be. batch_stride: in elements;
    by default there is a gap between the matrices, so that nobody can take the next one's rows for more of his own."""
    inner, outer = (columns, rows) if columns_contiguous else (rows, columns)
    ld = inner + pad
    stride = outer * ld + _BATCH_GAP if batch_stride is None else batch_stride
    elements = offset + (batch - 1) * stride + outer * ld
    memory = sparse_zeros(-(-elements * storage(word).itemsize // 16) * 16, np.uint8)
    if len(memory) <= _MOST_POISONED:
        memory[:] = POISON
    return Matrix(word, rows, columns, batch, columns_contiguous, ld, stride, offset, memory)


@dataclass(frozen=True)
class Operands:
    """A (M,K), B (N,K), D (M,N) and, where beta is not 0, C (M,N)."""

    a: Matrix
    b: Matrix
    c: Matrix | None
    d: Matrix


def operands(plan: ProductPlan, problem: Problem, distribution: str, seed: int) -> Operands:
    """Seeded inputs; `small_int` keeps every sum exact in the accumulators, `uniform` is within [-1, 1]."""
    rng = np.random.default_rng(seed)
    out, row_major = plan.epilogue.out.word, plan.epilogue.row_major
    a_word, b_word = plan.operand("A").element.word, plan.operand("B").element.word

    def shaped(name: str, word: str, rows: int, columns: int, columns_contiguous: bool, pad: int) -> Matrix:
        stride = getattr(problem, f"batch_stride_{name}")
        return empty(word, rows, columns, problem.batch, columns_contiguous, pad, problem.offset, stride)

    a = shaped("a", a_word, problem.m, problem.k, plan.operand("A").contiguous_k, problem.ld_pad)
    b = shaped("b", b_word, problem.n, problem.k, plan.operand("B").contiguous_k, problem.ld_pad)
    # C's lines are longer than D's: who takes one's leading dimension for the other's is found out.
    c = shaped("c", out, problem.m, problem.n, row_major, problem.ld_pad + 16) if problem.beta else None
    d = shaped("d", out, problem.m, problem.n, row_major, problem.ld_pad)
    reach = _reach(plan, problem)
    for matrix in (a, b):
        _put(matrix, rng, distribution, reach)
    if c:
        _put(c, rng, distribution, 4)
    return Operands(a, b, c, d)


def _reach(plan: ProductPlan, problem: Problem) -> int:
    """The largest of 4, 3, 2, 1 whose squares, summed over K, stay exact whatever the order. 8-bit floats: their
    instructions keep 13 bits below the largest addend."""
    limit = EXACT_INTEGERS[plan.atom.type_d.word]
    if plan.operand("A").element.word in ("e4m3", "e5m2"):
        limit = min(limit, 2.0**13)
    return max([r for r in (1, 2, 3, 4) if problem.k * r * r <= limit], default=1)


def _put(matrix: Matrix, rng: np.random.Generator, distribution: str, reach: int) -> None:
    shape = (matrix.batch, matrix.rows, matrix.columns)
    if distribution == "zeros":
        values = np.zeros(shape)
    elif distribution == "small_int":
        low = 1 if matrix.word[0] == "u" else -reach
        values = rng.integers(low, reach, shape, endpoint=True).astype(np.float64)
        values[values == 0] = reach  # a zero would hide a missing product
    elif is_integer(matrix.word):
        info = np.iinfo(storage(matrix.word))
        values = rng.integers(max(info.min, -127), min(info.max, 127), shape, endpoint=True).astype(np.float64)
    else:
        values = rng.uniform(-1, 1, shape)
    matrix.view[...] = encode(values, matrix.word)


def values(matrix: Matrix) -> npt.NDArray[Any]:
    """(batch, rows, columns) as float64."""
    return decode(np.ascontiguousarray(matrix.view))
