"""Scales of A and B: their values, and the sums of scaled products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mmagen.mma.bounds import drift, growth, path_of
from mmagen.mma.ranges import C_RANGE, LARGEST, fraction_bits
from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.spec.scale import BLOCK
from mmagen.verify.emulated.formats import EXACT_INTEGERS, ROUNDOFF, encode
from mmagen.verify.emulated.groups import by_row, is_stacked, sums_of_groups
from mmagen.verify.emulated.matrix import Draw, Matrix, Operands, values
from mmagen.verify.emulated.parts import Call, Part, Sums, Values

_NAMES = ("scale_a", "scale_b")
_LEAST_EXPONENT = -2.0  # of uniform inputs: scales from 2^-2 to 1, by which no result grows
_MOST_EXPONENT = 2  # of small integers: scales 1, 2 and 4
_NEGATIVE = 0.25  # of all lines
_IN_ONE_LINE = ("row", "column")  # of memory, the scales of all lines of the operand


class _Scale(Part):
    name = "scale"

    def fill(self, plan: ProductPlan, problem: Problem, draw: Draw, data: Operands, rng: np.random.Generator) -> None:
        """Uniform inputs: any scales of two binades. Small integers: powers of two, so large that every sum stays exact. Those of
        some lines are negative."""
        most = exact_exponent(plan, problem, draw) if draw.distribution == "small_int" else 0
        for name in _NAMES:
            if name not in data.further:
                continue
            matrix = data.further[name]
            shape = (matrix.batch, matrix.rows, matrix.columns)
            exponents = rng.uniform(_LEAST_EXPONENT, 0.0, shape)
            if draw.distribution != "uniform":
                exponents = rng.integers(0, most, shape, endpoint=True).astype(np.float64)
            kind = getattr(plan.spec.scale, name[-1])
            signs = signs_of_lines(rng, (shape[0], 1, shape[2]) if kind in _IN_ONE_LINE else (*shape[:2], 1))
            matrix.view[...] = encode(signs * np.exp2(exponents), matrix.word)

    def sums(self, call: Call, a: Values, b: Values, usual: Callable[[Values, Values], Sums]) -> Sums:
        scale = call.plan.spec.scale
        assert scale
        of_a = _lines(call, "scale_a", scale.a, call.problem.m)
        of_b = _lines(call, "scale_b", scale.b, call.problem.n)
        if not scale.along_k:
            rows, columns = (by_row(call, one) for one in (of_a[:, :, None, 0], of_b[:, None, :, 0]))
            return _scaled(call, usual(a, b), rows * columns)
        if is_stacked(call):
            return sums_of_groups(
                call, a, b, lambda span, own_a, own_b: _sums(call, own_a, own_b, span.rows(of_a), span.matrix_of(of_b))
            )
        return _sums(call, a, b, of_a, of_b)


SCALE = _Scale()


def signs_of_lines(rng: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """Signs of scales. Those of a line have one sign for all of K, so that sums grow as they do without."""
    return np.where(rng.random(shape) < _NEGATIVE, -1.0, 1.0)


def _sums(call: Call, a: Values, b: Values, of_a: Values, of_b: Values) -> Sums:
    """Of scales that change along K, (batch, lines, parts of K)."""

    def at(first: int) -> Values:
        """The scale of each element of D for the block of K that element `first` lies in, (batch, m, n)."""
        block = first // BLOCK
        return _of_block(of_a, block)[:, :, None] * _of_block(of_b, block)[:, None, :]

    if call.draw.distribution != "uniform":
        return exact_sums_of_parts(a, b, BLOCK, at)
    of = call.plan.accumulation
    exact, magnitude, path = path_of(of, a, b, at)
    one_sign = np.zeros(exact.shape, bool)
    one_sign[:, 1::2, 1::2] = call.draw.positive
    far = drift(of, a.shape[-1], path, magnitude, ~one_sign)
    # The product of two scales is rounded once for each k tile, and again where a factor of the whole tile follows.
    return Sums(exact, far + growth(ROUNDOFF["f32"], 3) * (magnitude + far), magnitude)


def exact_sums_of_parts(a: Values, b: Values, columns: int, at: Callable[[int], Values]) -> Sums:
    """Of A (batch, m, k) and B (batch, n, k) whose sums are exact, each of so many columns of K times what `at` has for the
    first of them, (batch, m, n) or what broadcasts to it."""
    exact, magnitude = np.zeros((2, a.shape[0], a.shape[1], b.shape[1]))
    for first in range(0, a.shape[-1], columns):
        left, right = a[..., first : first + columns], b[..., first : first + columns].swapaxes(-1, -2)
        exact = exact + at(first) * (left @ right)
        magnitude = magnitude + np.abs(at(first)) * (np.abs(left) @ np.abs(right))
    return Sums(exact, np.zeros_like(exact), magnitude)


def exact_exponent(plan: ProductPlan, problem: Problem, draw: Draw) -> int:
    """The largest scale of small integers, as a power of two: every sum stays exact, and within what D holds."""
    from mmagen.verify.emulated.matrices import exact_sums, scalar_value  # which imports the parts

    alpha, beta = (abs(scalar_value(plan, value)) for value in (problem.alpha, problem.beta))
    unit = 2.0 ** max(fraction_bits(alpha), fraction_bits(beta), 0)
    largest = min(problem.k * draw.reach[0] * draw.reach[1], exact_sums(plan))
    for exponent in range(_MOST_EXPONENT, 0, -1):
        result = 4.0**exponent * largest * alpha + beta * C_RANGE
        fits = result * unit <= EXACT_INTEGERS[plan.epilogue.scalar.word]
        if fits and result <= LARGEST.get(plan.epilogue.out.word, np.inf) and 4.0**exponent * largest <= EXACT_INTEGERS["f32"]:
            return exponent
    return 0


def _lines(call: Call, name: str, kind: str | None, extent: int) -> npt.NDArray[np.float64]:
    """(batch, extent, parts of K): the scale of each line of an operand, ones without scales."""
    if kind is None:
        return np.ones((1, extent, 1))
    matrix: Matrix = call.data.further[name]
    stored = values(matrix)
    if kind in _IN_ONE_LINE:
        return stored.swapaxes(1, 2)
    lines = {"tensor": extent, "1x128": 1, "128x128": BLOCK}[kind]
    return np.repeat(stored, lines, axis=1)[:, :extent]


def _of_block(lines: Values, block: int) -> Values:
    """(batch, extent) of one block of K; scales of all of K have only one."""
    return lines[:, :, min(block, lines.shape[2] - 1)]


def _scaled(call: Call, sums: Sums, scale: Values) -> Sums:
    """Finished sums times their scales: the product of two of them is rounded, and the result."""
    size = np.abs(scale)
    done = replace(sums, exact=scale * sums.exact, drift=size * sums.drift, magnitude=size * sums.magnitude)
    if call.draw.distribution != "uniform":
        return done
    return replace(done, drift=done.drift + growth(ROUNDOFF["f32"], 2) * (np.abs(done.exact) + done.drift))
