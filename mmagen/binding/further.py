"""The further arguments of a kernel, passed by name: biases, second matrices, scale factors, numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mmagen.binding.errors import ArgumentError
from mmagen.binding.matrices import Matrices, matrices, storage
from mmagen.binding.tensors import Tensor
from mmagen.core.instead import did_you_mean, like
from mmagen.plan.arguments import Arguments, Extent, Number
from mmagen.plan.arguments import Tensor as Wanted

_OF_EVERY_CALL = ("alpha", "beta", "out", "stream")
View = Callable[[str, Any], Tensor]


def check_names(wanted: Arguments, given: Mapping[str, Any]) -> None:
    """Raises ArgumentError for a name that the kernel does not know, and for one that is missing."""
    names = [one.name for one in wanted.all]
    for name in given:
        if name not in names:
            known = f"its further arguments are {', '.join(names)}" if names else "it has no further arguments"
            near = did_you_mean([one for one in like(name, (*names, *_OF_EVERY_CALL), 1, 0.75) if one != name])
            raise ArgumentError(name, f"this kernel does not take it; {known}{near and f'; {near}'}")
    for one in wanted.all:
        required = isinstance(one, Number) or one.required
        if given.get(one.name) is None and required and not (isinstance(one, Number) and one.name not in given):
            shape = f"an array {one.shape_text} of {storage(one.element.word)}" if isinstance(one, Wanted) else f"an {one.kind}"
            raise ArgumentError(one.name, f"it is missing; pass {shape}: {one.sentence}")


def members(
    wanted: Arguments, given: Mapping[str, Any], view: View, extents: Mapping[str, int], batch: int
) -> tuple[dict[str, int | float], list[tuple[str, Tensor]]]:
    """The members of the struct, and the tensors that are written. Raises ArgumentError."""
    check_names(wanted, given)
    numbers = {one.name: given.get(one.name, one.default) for one in wanted.numbers}
    values: dict[str, int | float] = {**numbers}
    written: list[tuple[str, Tensor]] = []
    for one in wanted.tensors:
        if given.get(one.name) is None:
            continue
        found = view(one.name, given[one.name])
        laid_out = matrices_of(one, found, {**extents, **{name: int(value) for name, value in numbers.items()}}, batch)
        of_tensor = {f"ld_{one.name}": laid_out.ld, f"batch_stride_{one.name}": laid_out.stride}
        values |= {one.name: found.address} | {name: of_tensor[name] for _, name in one.members if name in of_tensor}
        if one.written:
            if found.read_only:
                raise ArgumentError(one.name, "it is read-only; pass an array that can be written")
            written.append((one.name, found))
    return values, written


def matrices_of(one: Wanted, found: Tensor, extents: Mapping[str, int], batch: int) -> Matrices:
    """The matrices of a tensor. One of a single row may have one dimension less."""
    shape = one.rows.value(extents), one.columns.value(extents)
    seen = found
    if one.rows == Extent() and (len(found.shape) == 1 or (len(found.shape) == 2 and found.shape[0] != 1)):
        seen = with_a_row(found)
    contiguous = "N" if one.columns_contiguous else "M"
    laid_out = matrices(one.name, seen, modes="MN", contiguous=contiguous, type=one.element.word, written=one.written)
    if (laid_out.rows, laid_out.columns) != shape:
        wanted = _shapes(shape, one.rows == Extent())
        raise ArgumentError(one.name, f"shape {found.shape}; it is {one.shape_text}, here {wanted}")
    if laid_out.batch not in (None, 1, batch) or (laid_out.batch and laid_out.batch > 1 and not one.batched):
        raise ArgumentError(one.name, f"it has {laid_out.batch} matrices, the call {batch}; pass as many, or one for all")
    line, lines = (shape[1], shape[0]) if one.columns_contiguous else shape
    if not one.pitched and lines > 1 and laid_out.ld != line:
        does = "writes" if one.written else "reads"
        raise ArgumentError(one.name, f"its lines are {laid_out.ld} elements apart; this kernel {does} them without a gap")
    return laid_out


def with_a_row(found: Tensor) -> Tensor:
    """(…, n) as (…, 1, n)."""
    step = found.shape[-1] * found.strides[-1] if found.shape[-1] else 1
    return replace(
        found, shape=(*found.shape[:-1], 1, found.shape[-1]), strides=(*found.strides[:-1], max(step, 1), found.strides[-1])
    )


def _shapes(shape: Sequence[int], vector: bool) -> str:
    return f"({shape[1]},) or (batch, {shape[1]})" if vector else f"{tuple(shape)} or (batch, {shape[0]}, {shape[1]})"
