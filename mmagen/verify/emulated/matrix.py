"""Matrices as bytes in memory and as numpy views of them, and how they are filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.emulate import POISON, Rows, sparse_zeros
from mmagen.mma.formats import PARTS
from mmagen.mma.ranges import C_RANGE
from mmagen.verify.emulated.formats import decode, encode, is_integer, storage

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
    """A (M,K), B (N,K), D (M,N) and, where beta is not 0, C (M,N), or as the parts of the kernel have them (parts.py).

    further: the tensors that a call takes besides, by name, as they are before it. numbers: what it passes by value. results: of
    those that it writes, the elements afterwards in the order of `lines`, and which of their bytes were written.
    """

    a: Matrix
    b: Matrix
    c: Matrix | None
    d: Matrix
    further: Mapping[str, Matrix] = field(default_factory=dict)
    numbers: Mapping[str, int | float] = field(default_factory=dict)
    results: dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]] = field(default_factory=dict)

    @property
    def matrices(self) -> dict[str, Matrix]:
        """All of them, by the name of the member that points to them; d and what is written last."""
        read = {"a": self.a, "b": self.b} | ({"c": self.c} if self.c else {})
        return {**read, **self.further, "d": self.d}


@dataclass(frozen=True)
class Draw:
    """How A and B are filled. distribution: uniform, small_int or zeros. reach: the largest magnitudes of A and B. group: A has
    one nonzero in so many neighbours along K. positive: odd rows have no negative entries. exact: D must be equal."""

    distribution: str
    reach: tuple[float, float] = (1.0, 1.0)
    group: int = 1
    positive: bool = False
    exact: bool = False


def put_source(matrix: Matrix, rng: np.random.Generator, distribution: str) -> None:
    """Fill a matrix that the epilogue reads, as C."""
    reach = C_RANGE if distribution == "small_int" else _whole_range(matrix.word)
    put(matrix, rng, Draw(distribution), reach, 1)


def put(matrix: Matrix, rng: np.random.Generator, draw: Draw, reach: float, group: int) -> None:
    columns = matrix.columns * PARTS.get(matrix.word, 1)  # of real numbers
    shape = (matrix.batch, matrix.rows, columns)
    unsigned = matrix.word[0] == "u"
    if draw.distribution == "zeros":
        values = np.zeros(shape)
    elif draw.distribution == "small_int":
        values = rng.integers(1 if unsigned else -int(reach), int(reach), shape, endpoint=True).astype(np.float64)
        values[values == 0] = reach  # a zero would hide a missing product
    elif is_integer(matrix.word):
        values = rng.integers(0 if unsigned else -int(reach), int(reach), shape, endpoint=True).astype(np.float64)
    else:
        values = rng.uniform(-reach, reach, shape)
    if draw.positive:
        values[:, 1::2] = np.abs(values[:, 1::2])
    if group > 1:
        places = np.arange(columns)
        chosen = rng.integers(0, group, (*shape[:2], -(-columns // group)))
        values[places % group != chosen[..., places // group]] = 0.0
    matrix.view[...] = encode(values, matrix.word)


def _whole_range(word: str) -> float:
    """Of C's uniform entries."""
    return min(float(np.iinfo(storage(word)).max), 2.0**20) if is_integer(word) else 1.0


def values(matrix: Matrix) -> npt.NDArray[Any]:
    """(batch, rows, columns) as float64; of a complex matrix twice as many columns, the parts of each element side by side."""
    return decode(np.ascontiguousarray(matrix.view))
