"""Compares D with its error bound, by the error model of the projects' judge (tests/mmagen/compare.cuh), on numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.formats import ROUNDOFF, decode, encode
from mmagen.verify.emulated.matrices import Operands, values


@dataclass(frozen=True)
class Comparison:
    """incorrect: how many elements are wrong. max_abs_err, bound: of the worst element; max_rel_err: relative to
    |alpha| * sum |a b| + |beta c|, the largest. reason: "" if all is right."""

    incorrect: int
    max_abs_err: float
    max_rel_err: float
    bound: float
    reason: str


def compare(plan: ProductPlan, problem: Problem, data: Operands, written: npt.NDArray[Any], exact: bool) -> Comparison:
    """Every element of every batch against float64; `exact` allows no error before the rounding to D's type.

    written: bool, of each byte of D's elements: whether the kernel stored to it.
    """
    a, b = values(data.a), values(data.b)
    sums = a @ b.transpose(0, 2, 1)
    magnitude = np.abs(a) @ np.abs(b).transpose(0, 2, 1)
    c = values(data.c) if data.c else np.zeros_like(sums)
    ideal = problem.alpha * sums + problem.beta * c
    size = abs(problem.alpha) * magnitude + np.abs(problem.beta * c)
    slack = np.zeros_like(sums) if exact else _slack(plan, problem, magnitude, size)
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


def _growth(u: float, steps: float) -> float:
    return math.expm1(steps * math.log1p(u))


def _slack(plan: ProductPlan, problem: Problem, magnitude: npt.NDArray[Any], size: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """See compare.cuh for the derivation: 2u for each addend of each instruction, since tensor cores truncate."""
    accumulator = plan.atom.type_d.word
    scalar = ROUNDOFF.get(plan.epilogue.scalar.word, 0.0)
    relative = absolute = 0.0
    if accumulator != "s32":
        addends = problem.k + math.ceil(problem.k / plan.atom.k)
        fp8 = plan.operand("A").element.word in ("e4m3", "e5m2")
        inside = 2.0**-13 if fp8 else 2 * ROUNDOFF["f64" if accumulator == "f64" else "f32"]
        relative = _growth(inside, addends)
        if accumulator == "f16":
            roundings = math.ceil(problem.k / 4) + 1
            relative = (1 + relative) * (1 + _growth(2 * ROUNDOFF["f16"], roundings)) - 1
            absolute = roundings * 2.0**-24 * (1 + relative)
        relative += _growth(ROUNDOFF["f64"], problem.k + 4)
    epilogue = (_growth(scalar, 3) + _growth(ROUNDOFF["f64"], 4)) * (1 + relative)
    return relative * abs(problem.alpha) * magnitude + absolute * abs(problem.alpha) + epilogue * size
