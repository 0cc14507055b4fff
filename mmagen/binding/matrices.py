"""Which matrices a call multiplies: extents, leading dimensions and batch strides, from shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmagen.binding.errors import ArgumentError
from mmagen.binding.tensors import Tensor

_STORED_AS = {"tf32": "f32"}


@dataclass(frozen=True)
class Matrices:
    """`batch` matrices of rows x columns; None: a single one, which serves a batch of any size. ld, stride: in elements."""

    rows: int
    columns: int
    batch: int | None
    ld: int
    stride: int


def storage(word: str) -> str:
    """The type of the elements in memory: tf32 is stored as f32."""
    return _STORED_AS.get(word, word)


def matrices(argument: str, given: Tensor, *, modes: str, contiguous: str, type: str, written: bool = False) -> Matrices:
    """The matrices of `given`, whose last two dimensions are `modes`, e.g. "MK". contiguous: the mode that the kernel has
    contiguous. written: by the kernel, so that a copy would not do. Raises ArgumentError with what would be right."""
    wanted = storage(type)
    if given.type != wanted:
        raise ArgumentError(argument, f"its elements are {given.type}; this kernel takes {wanted}")
    if len(given.shape) not in (2, 3):
        raise ArgumentError(
            argument, f"shape {given.shape}: a matrix ({modes[0]},{modes[1]}) or a batch of them has 2 or 3 dimensions"
        )
    rows, columns = given.shape[-2:]
    row_step, column_step = given.strides[-2:]
    along_rows = contiguous == modes[0]
    step, across = (row_step, column_step) if along_rows else (column_step, row_step)
    line, lines = (rows, columns) if along_rows else (columns, rows)
    if 0 in given.shape:  # strides mean nothing
        step, across = 1, line
    if line > 1 and step != 1:
        raise ArgumentError(
            argument,
            f"{_shown(given)}: this kernel {'writes' if written else 'reads'} it with {contiguous} contiguous; "
            + (_another(contiguous) if written else _advice(modes, contiguous, step, across)),
        )
    remedy = _another(contiguous) if written else "make it contiguous first"
    if lines > 1 and across < line:
        why = "negative strides" if across < 0 else "its lines overlap" if across else "a stride of 0"
        raise ArgumentError(argument, f"{_shown(given)}: {why}; {remedy}")
    ld = across if lines > 1 else max(line, 1)
    batch = given.shape[0] if len(given.shape) == 3 else None
    stride = given.strides[0] if (batch or 0) > 1 else 0
    if stride < 0 and 0 not in given.shape:
        raise ArgumentError(argument, f"{_shown(given)}: a negative stride between matrices; {remedy}")
    return Matrices(rows, columns, batch, ld, stride)


def _shown(given: Tensor) -> str:
    return f"shape {given.shape} with strides {given.strides}"


def _another(contiguous: str) -> str:
    return f"pass another array, with {contiguous} contiguous"


def _advice(modes: str, contiguous: str, step: int, across: int) -> str:
    other = modes[0] if contiguous == modes[1] else modes[1]
    if across == 1:
        return (
            f"it has {other} contiguous: copy it with .mT.contiguous().mT (in JAX mmagen.transposed(x.mT)), or use a kernel with "
            "another layout"
        )
    return "make it contiguous first" if step > 0 else "copy it: strides of 0 and below are not read"


def batch_of(counts: Sequence[tuple[str, int | None]]) -> int | None:
    """The common number of matrices; None where none is a batch. Raises ArgumentError."""
    found: int | None = None
    first = ""
    for argument, count in counts:
        if count is None or count == found or (count == 1 and found is not None):
            continue
        if found not in (None, 1):
            raise ArgumentError(argument, f"{count} matrices, but {first} has {found}; pass equally many, or one for all")
        found, first = count, argument
    return found


def check_no_overlap(out: Tensor, others: Sequence[tuple[str, Tensor]], same: Tensor | None, name: str = "out") -> None:
    """Raises ArgumentError where `out`, the argument `name`, overlaps another one or itself. same: the C that may be exactly
    `out`."""
    if 0 in out.shape:
        return
    covered = 0
    for stride, extent in sorted(zip(out.strides, out.shape, strict=True)):
        if extent > 1:
            if stride <= covered:
                raise ArgumentError(name, f"shape {out.shape} with strides {out.strides}: elements share memory")
            covered += stride * (extent - 1)
    begin, end = out.span
    for argument, other in others:
        first, last = other.span
        if begin >= last or first >= end:
            continue
        if other is same and (other.address, other.strides) == (out.address, out.strides):
            continue
        hint = "; as c, out itself can be passed" if other is same else ""
        raise ArgumentError(name, f"its memory overlaps that of {argument}; pass another array{hint}")
