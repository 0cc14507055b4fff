"""The expected D and the error bound of a correct instruction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.mma import formats
from mmagen.mma.bounds import drift_within
from mmagen.mma.inputs import Matrices, Values
from mmagen.mma.operation import Operation


@dataclass(frozen=True)
class Expected:
    """values, bound: float64 [instance, row, column, part]."""

    values: Values
    bound: Values


@dataclass(frozen=True)
class Outcome:
    """How D compares. incorrect: wrong elements; worst_error, bound: of the worst element; reason: "" if right."""

    incorrect: int
    worst_error: float
    bound: float
    reason: str


def expected(operation: Operation, data: Matrices, exact: bool) -> Expected:
    """D = A B + C over all steps, in float64. exact: no error is allowed, else the bound of `_bound`."""
    sums, magnitude = data.values_c.copy(), np.abs(data.values_c)
    for a, b in zip(data.values_a, data.values_b, strict=True):
        product, size = _product(operation, a, b)
        sums, magnitude = sums + product, magnitude + size
        if operation.type_d == "s32":
            sums = _within_s32(sums, operation.saturate)
    bound = np.zeros_like(sums) if exact or operation.type_d == "s32" else _bound(operation, magnitude, len(data.a))
    return Expected(sums, bound)


def compared(found: Values, truth: Expected) -> Outcome:
    """found: values of D, float64 [instance, row, column, part]."""
    with np.errstate(invalid="ignore"):
        error = np.abs(found - truth.values)
    error = np.where(np.isnan(found), np.inf, error)
    excess = error - truth.bound
    wrong = int((excess > 0).sum())
    worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
    reason = ""
    if wrong:
        where = f"D({worst[1]},{worst[2]})"
        reason = (
            f"{wrong} of {error.size} elements are wrong; {where} is {found[worst]:g} instead of "
            f"{truth.values[worst]:g}, {truth.bound[worst]:.3g} allowed"
        )
    at = worst if wrong else np.unravel_index(int(np.argmax(error)), error.shape)
    return Outcome(wrong, float(error[at]), float(truth.bound[at]), reason)


def _product(operation: Operation, a: Values, b: Values) -> tuple[Values, Values]:
    """(A B^T, |A| |B|^T) as [instance, row, column, part] of D's parts."""
    if operation.type_a == "u1":
        a, b = a[..., 0], b[..., 0]
        both = _multiply(a, b)
        xor = a.sum(-1)[:, :, None] + b.sum(-1)[:, None, :] - 2 * both
        counted = (xor if "XOR" in operation.name else both)[..., None]
        return counted, counted
    if operation.type_a == "c64":
        return _complex_product(operation, a, b)
    a, b = a[..., 0], b[..., 0]
    return _multiply(a, b)[..., None], _multiply(np.abs(a), np.abs(b))[..., None]


def _multiply(a: Values, b: Values) -> Values:
    """A B^T of each instance."""
    return a @ b.swapaxes(1, 2)


def _complex_product(operation: Operation, a: Values, b: Values) -> tuple[Values, Values]:
    """Real and imaginary part, or Gauss's three products whose differences they are."""
    real_a, imaginary_a, real_b, imaginary_b = a[..., 0], a[..., 1], b[..., 0], b[..., 1]
    size = _multiply(np.abs(real_a) + np.abs(imaginary_a), np.abs(real_b) + np.abs(imaginary_b))
    direct, crossed = _multiply(real_a, real_b), _multiply(imaginary_a, imaginary_b)
    if operation.type_d == "gc64":
        parts = [direct, crossed, _multiply(real_a + imaginary_a, real_b + imaginary_b)]
    else:
        parts = [direct - crossed, _multiply(imaginary_a, real_b) + _multiply(real_a, imaginary_b)]
    return np.stack(parts, -1), np.repeat(size[..., None], len(parts), -1)


def _within_s32(sums: Values, saturate: bool) -> Values:
    """After each instruction: clamped (.satfinite), or wrapped around."""
    low, high = formats.limits("s32")
    return np.clip(sums, low, high) if saturate else (sums - low) % 2.0**32 + low


def _bound(operation: Operation, magnitude: Values, steps: int) -> Values:
    """The bound of a kernel's sums (mma/bounds.py), where no partial sum exceeds the sum of all magnitudes. A complex product
    is four real ones for each addend."""
    products = operation.k * steps * (4 if operation.type_a == "c64" else 1)
    return drift_within(operation.accumulation, products, magnitude, magnitude, True)
