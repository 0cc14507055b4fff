"""Compares D with its error bound, by the error model of the projects' judge (tests/mmagen/error_bound.cuh), on numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.mma.bounds import drift, growth, path_of
from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.formats import ROUNDOFF, decode, encode
from mmagen.verify.emulated.matrices import Draw, Operands, draw_of, scalar_value, values


@dataclass(frozen=True)
class Comparison:
    """incorrect: how many elements are wrong. max_abs_err, bound: of the worst element; max_rel_err: relative to
    |alpha| * sum |a b| + |beta c|, the largest. reason: "" if all is right."""

    incorrect: int
    max_abs_err: float
    max_rel_err: float
    bound: float
    reason: str


def compare(plan: ProductPlan, problem: Problem, data: Operands, written: npt.NDArray[Any], distribution: str) -> Comparison:
    """Every element of every batch against float64; exact inputs allow no error before the rounding to D's type.

    written: bool, of each byte of D's elements: whether the kernel stored to it.
    """
    draw = draw_of(plan, problem, distribution)
    c = values(data.c) if data.c else np.zeros((1, 1, 1))
    ideal, slack, size = _expected(plan, problem, draw, values(data.a), values(data.b), c)
    out = plan.epilogue.out.word
    low, expected, high = (decode(encode(x, out)) for x in (ideal - slack, ideal, ideal + slack))
    got = values(data.d)
    right, error, bound = distances(low, expected, high, got)
    # The largest error among the wrong elements where there are any, else among all; of several, the largest bound.
    counts = right if right.all() else ~right
    largest = counts & (error == error[counts].max())
    worst = int(np.argmax(np.where(largest, bound, -1.0)))
    reasons = []
    if not right.all():
        at = np.unravel_index(int(np.argmin(right)), right.shape)
        place = tuple(map(int, at))
        reasons.append(
            f"{int((~right).sum())} of {right.size} elements wrong; at (batch,m,n): {place} got {got[at]:.9g} "
            f"expected {expected[at]:.9g} +- {bound[at]:.3g}"
        )
    if missing := int((~written).sum()):
        reasons.append(f"{missing} bytes of D were never written")
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(error == 0, 0.0, error / size)
    return Comparison(
        int((~right).sum()), float(error.flat[worst]), float(np.max(relative)), float(bound.flat[worst]), ". ".join(reasons)
    )


def distances(
    low: npt.NDArray[Any], expected: npt.NDArray[Any], high: npt.NDArray[Any], got: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """(right, error, bound) of each element; `judge_element` of compare.cuh on arrays. All four may hold infinities, got NaN.

    right: low <= got <= high, which NaN is not. error: |got - expected|, inf for NaN, and 0 where both are the same infinity.
    bound: how far the interval reaches on the side of got.
    """
    right = (low <= got) & (got <= high)
    reach = np.where(got < expected, low, high)
    # inf - inf is NaN, where there is no distance.
    with np.errstate(invalid="ignore"):
        error = np.where(got == expected, 0.0, np.abs(got - expected))
        bound = np.where(reach == expected, 0.0, np.abs(reach - expected))
    error[np.isnan(error)] = np.inf
    # One of infinity and a finite value where the other was expected, and both are allowed: no distance.
    beyond = right & np.isinf(error)
    error[beyond] = bound[beyond] = 0.0
    return right, error, bound


def _expected(
    plan: ProductPlan, problem: Problem, draw: Draw, a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """(alpha A B + beta C, how far a right kernel may be from it before the rounding to D, |alpha| |A| |B| + |beta C|)."""
    of, alpha, beta = plan.accumulation, scalar_value(plan, problem.alpha), scalar_value(plan, problem.beta)
    if plan.epilogue.scalar.word == "s32":
        wrapped = _wrapped(_wrapped(alpha * (a @ b.swapaxes(1, 2))) + beta * c)
        return wrapped, np.zeros_like(wrapped), np.abs(wrapped)
    if draw.distribution != "uniform" or not of.kept:  # integers, exact until the epilogue
        sums, magnitude = a @ b.swapaxes(1, 2), np.abs(a) @ np.abs(b).swapaxes(1, 2)
        sums, far = sums if of.kept else _wrapped(sums), np.zeros_like(sums)
    else:
        sums, magnitude, path = path_of(of, a, b)
        one_sign = np.zeros(sums.shape, bool)
        one_sign[:, 1::2, 1::2] = draw.positive
        far = drift(of, problem.k, path, magnitude, ~one_sign)
    ideal, size = alpha * sums + beta * c, abs(alpha) * magnitude + np.abs(beta * c)
    if draw.exact:
        return ideal, np.zeros_like(sums), size
    rounded = growth(ROUNDOFF.get(plan.epilogue.scalar.word, 0.0), 3) + growth(ROUNDOFF["f64"], 4)
    slack = abs(alpha) * far + rounded * (abs(alpha) * (np.abs(sums) + far) + np.abs(beta * c))
    return ideal, slack, size


def _wrapped(sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Modulo 2^32, as mma without .satfinite and integers of the epilogue have it."""
    wrapped: npt.NDArray[Any] = (sums + 2.0**31) % 2.0**32 - 2.0**31
    return wrapped
