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

    written: bool[bytes of D's memory], what the kernel stored to.
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
    right = (low <= got) & (got <= high)
    error = np.abs(got - expected)
    bound = np.where(got < expected, expected - low, high - expected)
    # The largest error among the wrong elements where there are any, else among all.
    size_of_error = np.where(np.isnan(error), np.inf, error)
    worst = int(np.argmax(np.where(right, -1.0, size_of_error) if not right.all() else size_of_error))
    reasons = []
    if not right.all():
        at = np.unravel_index(int(np.argmin(right)), right.shape)
        place = tuple(map(int, at))
        reasons.append(
            f"{int((~right).sum())} of {right.size} elements wrong; at (batch,m,n): {place} got {got[at]:.9g} "
            f"expected {expected[at]:.9g} +- {bound[at]:.3g}"
        )
    owned = data.d.owned()
    if missing := int((owned & ~written).sum()):
        reasons.append(f"{missing} bytes of D were never written")
    if strays := int((written & ~owned).sum()):
        reasons.append(f"{strays} bytes between the rows of D were written")
    relative = error / np.maximum(size, np.finfo(np.float64).tiny)
    return Comparison(
        int((~right).sum()), float(error.flat[worst]), float(np.max(relative)), float(bound.flat[worst]), ". ".join(reasons)
    )


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
