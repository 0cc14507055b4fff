"""What an epilogue of operations makes of sums: intervals in float64 (docs/epilogue.md derives them)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mmagen.mma.bounds import growth
from mmagen.mma.ranges import FINITE
from mmagen.plan.operations import PART, SUMS, Operation, columns_of_element, gate_of
from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.formats import EXACT_INTEGERS, ROUNDOFF, as_stored, decode, encode
from mmagen.verify.emulated.groups import GROUPS, by_row, is_stacked
from mmagen.verify.emulated.matrix import Draw, Operands, values
from mmagen.verify.emulated.parts import Call, Interval, Part, Sums, Values

_REFERENCE = 2.0**-50  # relative error of a function in float64, as this module computes it
_SMALLEST = 2.0**-126  # what a float operation that flushes to zero may lose
# Where gelu and silu have their only minimum.
_LEAST = {("gelu", "erf"): -0.7517916243, ("gelu", "tanh"): -0.7524614221, ("silu", ""): -1.2784645428}
# By the degree of gelu's polynomial: its error relative to the value, and to the argument (docs/epilogue.md).
_OF_POLYNOMIAL = {4: (6.5e-4, 2.0**-24), 5: (6e-5, 2.0**-28), 6: (0.0, 0.0)}
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def sigmoid(x: Values) -> Values:
    """Without overflow."""
    power = np.exp(-np.abs(x))
    found: Values = np.where(x >= 0, 1.0, power) / (1.0 + power)
    return found


def gelu(x: Values, form: str) -> Values:
    """form: erf or tanh."""
    if form == "tanh":
        twice_u: Values = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return np.asarray(x * sigmoid(twice_u))
    # erfc keeps the relative accuracy where 1 + erf would cancel.
    found: Values = 0.5 * x * _erfc(-x / math.sqrt(2.0))
    return found


def _function(one: Operation) -> Callable[[Values], Values]:
    if one.word == "gelu":
        return lambda x: gelu(x, one.form)
    return sigmoid if one.word == "sigmoid" else _silu


def _silu(x: Values) -> Values:
    found: Values = x * sigmoid(x)
    return found


def _own_error(one: Operation, x: Values, value: Values, roundoff: float) -> Values:
    """How far what a kernel computes of an exact x may be from the function. exp in float: the rounding of its argument grows
    with it; ex2.approx and rcp.approx have relative errors below 2^-22 (PTX ISA). gelu by erf is the difference of max(x, 0) and
    |x| Q(|x|), with an error of Q that tests measure."""
    u = roundoff
    if one.word == "gelu" and one.form == "erf":
        of_value, of_argument = _OF_POLYNOMIAL[one.degree]
        return np.asarray(of_value * np.abs(value) + np.abs(x) * (of_argument + 6 * u) + _SMALLEST)
    argument = np.abs(x) * (1 + 0.08 * x * x) * 1.6 if one.word == "gelu" else np.abs(x)
    # Beyond 2^7 exp is infinite or zero, and its argument counts no more.
    return np.asarray(np.abs(value) * (4 * np.minimum(argument, 128.0) + 24) * u + _SMALLEST * (1 + np.abs(x)))


class _Range:
    """Values with what a right kernel may have instead."""

    def __init__(self, low: Values, expected: Values, high: Values, word: str):
        self.low, self.expected, self.high, self.word = low, expected, high, word
        self.roundoff = ROUNDOFF.get(word, 0.0)

    def changed(self, function: Callable[[Values], Values], roundings: int = 1) -> None:
        """By an increasing function, computed with so many roundings."""
        self._set(function(self.low), function(self.expected), function(self.high), roundings)

    def scaled(self, factor: Values | float) -> None:
        ends = self.low * factor, self.high * factor
        self._set(np.minimum(*ends), self.expected * factor, np.maximum(*ends), 1)

    def added(self, other: Values, roundings: int = 1) -> None:
        """other: with two roundings a product, which is rounded first where nvcc does not fuse both."""
        rounded = (other,) if roundings > 1 else ()
        self._set(self.low + other, self.expected + other, self.high + other, roundings, rounded)

    def by_function(self, one: Operation) -> None:
        """By one that decreases up to its minimum, or nowhere."""
        if one.word == "relu":
            self.low, self.expected, self.high = (np.maximum(part, 0.0) for part in (self.low, self.expected, self.high))
            return
        function, least = _function(one), _LEAST.get((one.word, one.form))
        ends = function(self.low), function(self.high)
        low, high = np.minimum(*ends), np.maximum(*ends)
        if least is not None:
            low = np.where((self.low < least) & (least < self.high), function(np.full_like(self.low, least)), low)
        expected = function(self.expected)
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        slack = _own_error(one, size, np.maximum(np.abs(low), np.abs(high)), self.roundoff) + _REFERENCE * size
        self.low, self.expected, self.high = low - slack, expected, high + slack

    def gated(self, gate: Operation) -> _Range:
        """gate(x) * y of the even and the odd columns."""
        x, y = (_Range(self.low[..., i::2], self.expected[..., i::2], self.high[..., i::2], self.word) for i in (0, 1))
        x.by_function(gate)
        ends = [one * other for one in (x.low, x.high) for other in (y.low, y.high)]
        x._set(np.minimum.reduce(ends), x.expected * y.expected, np.maximum.reduce(ends), 1)
        return x

    def wrapped(self) -> None:
        """Integers of the epilogue, modulo 2^32."""
        self.low = self.expected = self.high = (self.expected + 2.0**31) % 2.0**32 - 2.0**31

    def _set(self, low: Values, expected: Values, high: Values, roundings: int, rounded: tuple[Values, ...] = ()) -> None:
        """Widens by the roundings, but for values that are exact and need none. rounded: what is rounded on the way."""
        if self.word == "s32":
            self.low, self.expected, self.high = low, expected, high
            self.wrapped()
            return
        step = (1 + self.roundoff) ** roundings * (1 + 2.0**-52) - 1
        exact = low == high if self.word != "f64" else low != low
        for one in (expected, *rounded) if self.word != "f64" else ():
            exact = exact & (decode(encode(one, self.word)) == one)
        size = sum((np.abs(one) for one in rounded), np.maximum(np.abs(low), np.abs(high)))
        slack = np.where(exact, 0.0, step * size + _SMALLEST)
        self.low, self.expected, self.high = low - slack, expected, high + slack


def _of_matrix(call: Call, name: str) -> Values:
    return by_row(call, values(call.data.further[name]))


def _of_results(call: Call) -> Callable[[Values], Values]:
    """Sets what is computed for rows that D does not have to 0."""
    covered = GROUPS.covered(call) if call.problem.groups else None
    return lambda x: x if covered is None else np.where(covered[:, :, :1], x, 0.0)


def apply(call: Call, found: tuple[Operation, ...], sums: Sums, c: Values) -> dict[str, Interval]:
    """D before the rounding to its type, and what is gathered on the way."""
    plan = call.plan
    word = plan.epilogue.scalar.word
    drift = sums.drift
    x = _Range(sums.exact - drift, sums.exact, sums.exact + drift, word)
    if not plan.accumulation.kept:  # integers, converted to a float
        x.changed(lambda sums: sums)
    alpha, beta = (as_stored(value, word) for value in (call.problem.alpha, call.problem.beta))
    gathered: dict[str, Interval] = {}
    for one in found:
        if one.word == "amax":
            before = _of_matrix(call, one.tensor)
            smallest = np.maximum(np.maximum(x.low, -x.high), 0.0)  # magnitude within the interval
            largest = np.maximum(np.abs(x.low), np.abs(x.high))
            counts = _of_results(call)
            gathered[one.tensor] = Interval(
                *(np.maximum(before, counts(part).max()) for part in (smallest, np.abs(x.expected), largest))
            )
        elif one.word in SUMS:
            gathered[one.tensor] = _sums_of_lines(call, x, values(call.data.further[one.tensor]), one.word == "row_sums")
        elif one.word == "alpha":
            x.scaled(alpha)
        elif one.word == "beta_c":
            if call.data.c:
                x.added(beta * c, 2)
        elif one.word == "bias":
            vector = _of_matrix(call, one.tensor)  # (batch, 1, m or n)
            x.added(vector.swapaxes(1, 2) if one.by == "row" else vector)
        elif one.word == "add":
            x.added(_of_matrix(call, one.tensor))
        elif one.word == "multiply":
            x.scaled(_of_matrix(call, one.tensor))
        elif one.word == "gated":
            x = x.gated(gate_of(one))
        elif one.word == "clamp":
            low, high = one.low, one.high
            least = -math.inf if low is None else as_stored(low, word)
            most = math.inf if high is None else as_stored(high, word)
            x.low, x.expected, x.high = (np.clip(part, least, most) for part in (x.low, x.expected, x.high))
        elif one.word == "saturate":
            most = FINITE[plan.epilogue.out.word]
            x.low, x.expected, x.high = (np.clip(part, -most, most) for part in (x.low, x.expected, x.high))
        else:
            x.by_function(one)
    return {"d": Interval(x.low, x.expected, x.high), **gathered}


def _sums_of_lines(call: Call, x: _Range, before: Values, of_rows: bool) -> Interval:
    """`before`, (batch, 1, lines), and the sums of x over rows or columns, in any order of the additions. Multiples of 1/16 are
    added without rounding while their sum is small."""
    counts = _of_results(call)

    def totals(part: Values) -> Values:
        found = counts(part)
        if not of_rows and is_stacked(call):  # each group has columns of its own
            group = by_row(call, np.arange(len(before), dtype=np.float64)[:, None, None])  # of each row
            found = np.concatenate([np.where(group == one, found, 0.0) for one in range(len(before))])
        total: Values = found.sum(axis=2 if of_rows else 1)[:, None, :]
        return total

    low, expected, high = (totals(part) for part in (x.low, x.expected, x.high))
    if x.word == "s32":
        wrapped = (before + expected + 2.0**31) % 2.0**32 - 2.0**31
        return Interval(wrapped, wrapped, wrapped)
    terms = np.maximum(np.abs(x.low), np.abs(x.high))
    size = totals(terms) + np.abs(before)
    steps = (x.low == x.high) & (np.rint(16 * x.expected) == 16 * x.expected)
    exact = (totals(np.where(steps, 0.0, 1.0)) == 0) & (np.rint(16 * before) == 16 * before)
    exact &= 16 * size <= EXACT_INTEGERS[x.word]
    count = x.low.shape[2 if of_rows else 1] + 1
    slack = np.where(exact, 0.0, (growth(x.roundoff, count) + 2 * growth(ROUNDOFF["f64"], count)) * size)
    return Interval(before + low - slack, before + expected, before + high + slack)


class _Epilogue(Part):
    name = PART

    def shapes(self, plan: ProductPlan, problem: Problem) -> dict[str, tuple[int, int]]:
        """D has half the columns where pairs are gated."""
        return {"d": (problem.m, problem.n // columns_of_element(plan.epilogue.operations))}

    def results(self, call: Call, sums: Sums, c: Values) -> dict[str, Interval]:
        return apply(call, call.plan.epilogue.operations, sums, c)

    def fill(self, plan: ProductPlan, problem: Problem, draw: Draw, data: Operands, rng: np.random.Generator) -> None:
        """What is raised begins at a small magnitude."""
        super().fill(plan, problem, draw, data, rng)
        for one in plan.arguments.tensors:
            if one.part == self.name and one.access == "update":
                view = data.further[one.name].view
                view[...] = np.abs(view) / 16


EPILOGUE: Part = _Epilogue()
