"""Compares D with its error bound, by the error model of the projects' judge (tests/mmagen/error_bound.cuh), on numpy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.mma.bounds import drift, growth, path_of
from mmagen.mma.formats import PARTS
from mmagen.mma.piece_bounds import drift_of_pieces, path_of_pieces
from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.formats import EXACT_INTEGERS, ROUNDOFF, decode, encode
from mmagen.verify.emulated.matrices import draw_of, scalar_value
from mmagen.verify.emulated.matrix import Matrix, Operands, values
from mmagen.verify.emulated.parts import Call, Interval, Sums, parts_of


@dataclass(frozen=True)
class Comparison:
    """incorrect: how many elements are wrong. max_abs_err, bound: of the worst element; max_rel_err: relative to
    |alpha| * sum |a b| + |beta c|, the largest. reason: "" if all is right. shared: what tensors may hold that were not
    compared."""

    incorrect: int
    max_abs_err: float
    max_rel_err: float
    bound: float
    reason: str
    shared: Mapping[str, Interval] = field(default_factory=dict)


def compare(
    plan: ProductPlan,
    problem: Problem,
    data: Operands,
    written: npt.NDArray[Any],
    distribution: str,
    shared: Collection[str] = (),
) -> Comparison:
    """Every element of every batch against float64; exact inputs allow no error before the rounding to D's type. So too the
    other tensors that the kernel writes.

    written: bool, of each byte of D's elements: whether the kernel stored to it. shared: names of tensors that other problems
    write as well, so that they are not compared.
    """
    call = Call(plan, problem, draw_of(plan, problem, distribution), data)
    results, size = expected(call)
    covered = next((mask for part in parts_of(plan) if (mask := part.covered(call)) is not None), None)
    found = _compared("m,n", results["d"], plan.epilogue.out.word, values(data.d), size, covered)
    reasons = [found.reason] if found.reason else []
    if stray := _not_as_covered(data.d, written, covered):
        reasons.append(stray)
    for name, may in results.items():
        if name == "d" or name in shared:
            continue
        matrix, (lines, stored) = data.further[name], data.results[name]
        got = decode(np.ascontiguousarray(lines if matrix.columns_contiguous else lines.swapaxes(1, 2)))
        other = compare_tensor(name, may, matrix.word, got)
        if other.reason:
            reasons.append(other.reason)
            found = found if found.incorrect else other
        if missing := int((~stored).sum()):
            reasons.append(f"{missing} bytes of {name} were never written")
    return replace(found, reason=". ".join(reasons), shared={name: results[name] for name in shared})


def compare_tensor(name: str, may: Interval, word: str, got: npt.NDArray[Any]) -> Comparison:
    """A tensor besides D, (batch, rows, columns)."""
    found = _compared("row,column", may, word, got, np.maximum(np.abs(may.low), np.abs(may.high)), None)
    return replace(found, reason=f"{name}: {found.reason}") if found.reason else found


def _compared(
    modes: str,
    may: Interval,
    word: str,
    got: npt.NDArray[Any],
    size: npt.NDArray[Any],
    covered: npt.NDArray[np.bool_] | None,
) -> Comparison:
    """One tensor. size: what errors are relative to."""
    low, expected, high = (decode(encode(x, word)) for x in (may.low, may.expected, may.high))
    right, error, bound = distances(low, expected, high, got)
    if covered is not None:
        right, error, bound = right | ~covered, np.where(covered, error, 0.0), np.where(covered, bound, 0.0)
    # The largest error among the wrong elements where there are any, else among all; of several, the largest bound.
    counts = right if right.all() else ~right
    largest = counts & (error == error[counts].max())
    worst = int(np.argmax(np.where(largest, bound, -1.0)))
    reason = ""
    if not right.all():
        at = np.unravel_index(int(np.argmin(right)), right.shape)
        place = tuple(map(int, at))
        if (parts := PARTS.get(word, 1)) > 1:
            modes, place = f"{modes},part", (*place[:-1], *divmod(place[-1], parts))
        reason = (
            f"{int((~right).sum())} of {right.size} elements wrong; at (batch,{modes}): {place} got {got[at]:.9g} "
            f"expected {expected[at]:.9g} +- {bound[at]:.3g}"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(error == 0, 0.0, error / size)
    return Comparison(int((~right).sum()), float(error.flat[worst]), float(np.max(relative)), float(bound.flat[worst]), reason)


def _not_as_covered(d: Matrix, written: npt.NDArray[Any], covered: npt.NDArray[np.bool_] | None) -> str:
    """What is wrong with which bytes of D were written, or ""."""
    if covered is None:
        missing, stray = int((~written).sum()), 0
    else:
        lines = covered if d.columns_contiguous else covered.swapaxes(1, 2)
        must = np.repeat(lines.reshape(-1, lines.shape[-1]), d.view.itemsize, axis=1)
        missing, stray = int((must & ~written).sum()), int((written & ~must).sum())
    found = [f"{missing} bytes of D were never written"] if missing else []
    found += [f"{stray} bytes of D were written that belong to no result"] if stray else []
    return ". ".join(found)


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


def expected(call: Call) -> tuple[dict[str, Interval], npt.NDArray[Any]]:
    """What the call may write, by tensor, before the rounding to its type; and what errors of D are relative to."""
    data, parts = call.data, parts_of(call.plan)
    a, b = values(data.a), values(data.b)
    if call.plan.atom.type_b.parts == 2:
        b = as_real(b)
    c = values(data.c) if data.c else np.zeros((1, 1, 1))
    for part in parts:
        a, b = part.factors(call, a, b)
    sums_of: Callable[[npt.NDArray[Any], npt.NDArray[Any]], Sums] = partial(_sums, call)
    for part in reversed(parts):
        sums_of = partial(part.sums, call, usual=sums_of)
    sums = sums_of(a, b)
    for part in parts:
        if (results := part.results(call, sums, c)) is not None:
            return results, np.maximum(np.abs(results["d"].low), np.abs(results["d"].high))
    return _linear_combination(call, sums, c)


def as_real(b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(batch, n, k) of a complex B, parts side by side, to (batch, 2 n, 2 k): the real matrix by which A, read as (m, 2 k), gives D
    as (m, 2 n)."""
    real, imaginary = b[..., 0::2], b[..., 1::2]
    rows = (np.stack((real, -imaginary), -1), np.stack((imaginary, real), -1))  # of real parts of D, and of imaginary ones
    joined = np.stack(rows, axis=2)  # (batch, n, 2, k, 2)
    return joined.reshape(b.shape[0], 2 * b.shape[1], b.shape[2])


def _sums(call: Call, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Sums:
    """Those of a plain GEMM."""
    of, draw = call.plan.accumulation, call.draw
    if draw.distribution != "uniform" or not of.kept:  # integers, exact until the epilogue
        exact, magnitude = _product(a, b), _product(np.abs(a), np.abs(b))
        return Sums(exact if of.kept else _wrapped(exact), np.zeros_like(exact), magnitude)
    one_sign = np.zeros((*a.shape[:-1], b.shape[-2]), bool)
    one_sign[:, 1::2, 1::2] = draw.positive
    if of.of_pieces:
        exact, magnitude, sums = path_of_pieces(of, a, b)
        return Sums(exact, drift_of_pieces(of, a.shape[-1], sums, magnitude, ~one_sign), magnitude)
    exact, magnitude, path = path_of(of, a, b)
    return Sums(exact, drift(of, a.shape[-1], path, magnitude, ~one_sign), magnitude)


def _product(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """a times b transposed in float64; in float32, which takes half the time, where every sum of integers is exact in it."""
    small = a.size > 0 and b.size > 0 and a.shape[-1] * np.abs(a).max() * np.abs(b).max() <= EXACT_INTEGERS["f32"]
    if small and all((np.rint(x) == x).all() for x in (a, b)):
        of_floats: npt.NDArray[Any] = (a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)).astype(np.float64)
        return of_floats
    found: npt.NDArray[Any] = a @ b.swapaxes(1, 2)
    return found


def _linear_combination(call: Call, sums: Sums, c: npt.NDArray[Any]) -> tuple[dict[str, Interval], npt.NDArray[Any]]:
    """alpha * sums + beta * C, and |alpha| |A| |B| + |beta C|."""
    plan, problem = call.plan, call.problem
    alpha, beta = scalar_value(plan, problem.alpha), scalar_value(plan, problem.beta)
    if plan.epilogue.scalar.word == "s32":
        wrapped = _wrapped(_wrapped(alpha * sums.exact) + beta * c)
        return {"d": Interval(wrapped, wrapped, wrapped)}, np.abs(wrapped)
    ideal, size = alpha * sums.exact + beta * c, abs(alpha) * sums.magnitude + np.abs(beta * c)
    if call.draw.exact:
        return {"d": Interval(ideal, ideal, ideal)}, size
    rounded = growth(ROUNDOFF.get(plan.epilogue.scalar.word, 0.0), 3) + growth(ROUNDOFF["f64"], 4)
    slack = abs(alpha) * sums.drift + rounded * (abs(alpha) * (np.abs(sums.exact) + sums.drift) + np.abs(beta * c))
    return {"d": Interval(ideal - slack, ideal, ideal + slack)}, size


def _wrapped(sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Modulo 2^32, as mma without .satfinite and integers of the epilogue have it."""
    wrapped: npt.NDArray[Any] = (sums + 2.0**31) % 2.0**32 - 2.0**31
    return wrapped
