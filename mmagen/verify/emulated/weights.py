"""The part `weights` of a kernel: B of few bits, its scales and zero points, and the sums of what it stands for."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mmagen.mma.bounds import drift, path_of
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.spec.weights import Weights
from mmagen.verify.emulated.formats import encode
from mmagen.verify.emulated.matrix import Draw, Operands, values
from mmagen.verify.emulated.parts import Call, Part, Sums, Values
from mmagen.verify.emulated.scale import exact_exponent, exact_sums_of_parts, signs_of_lines

_LEAST_EXPONENT = -2.0  # of uniform inputs: scales of two binades, by which weights are at most 1
# No weight, its zero point subtracted, is larger.
LARGEST = {"s4": 8.0, "u4": 16.0, "s8": 128.0, "e4m3": 512.0}
_MOST_ZERO = 15


class _Weights(Part):
    name = "weights"

    def shapes(self, plan: ProductPlan, problem: Problem) -> dict[str, tuple[int, int]]:
        """Rows of B are whole vectors, padding included; what is behind its columns is no part of the matrix."""
        columns = -(-problem.k // _of(plan).packed)
        return {"b": (problem.n, columns + -(columns + problem.ld_pad) % VECTOR_BYTES)}

    def fill(self, plan: ProductPlan, problem: Problem, draw: Draw, data: Operands, rng: np.random.Generator) -> None:
        """Weights of the whole range of their type, or small integers; scales as those of 8-bit floats, of either sign;
        any zero points."""
        weights = _of(plan)
        scales = data.further["scale_b"]
        shape = (scales.batch, scales.rows, scales.columns)
        exponents = rng.uniform(_LEAST_EXPONENT, 0.0, shape) - np.log2(LARGEST[weights.type])
        if draw.distribution != "uniform":
            most = exact_exponent(plan, problem, draw) if draw.distribution == "small_int" else 0
            exponents = rng.integers(0, most, shape, endpoint=True).astype(np.float64)
        scales.view[...] = encode(signs_of_lines(rng, (*shape[:2], 1)) * np.exp2(exponents), scales.word)
        zero = np.zeros(shape)
        if weights.zero:
            zero = rng.integers(0, _MOST_ZERO, shape, endpoint=True).astype(np.float64)
            data.further["zero_b"].view[...] = encode(zero, "u8")
        batch = 1 if data.b.batch_stride == 0 else problem.batch
        drawn = _drawn(weights, draw, (batch, problem.n, problem.k), rng)
        if draw.distribution != "uniform" and weights.type == "u4":
            drawn = np.clip(drawn + _each(weights, zero, problem.k)[:batch], 0, _MOST_ZERO)
        view = data.b.view
        view.view(np.uint8)[...] = 0x7D  # what lies behind the columns counts for nothing
        stored = _packed(weights, drawn)
        view.view(np.uint8)[..., : stored.shape[-1]] = stored

    def factors(self, call: Call, a: Values, b: Values) -> tuple[Values, Values]:
        """B less its zero points, and at most 1, as every uniform input is: the scales have the rest."""
        weights, k = _of(call.plan), call.problem.k
        found = _unpacked(weights, np.ascontiguousarray(call.data.b.view).view(np.uint8))[..., :k]
        if weights.zero:
            found = found - _each(weights, values(call.data.further["zero_b"]), k)
        return a, found / LARGEST[weights.type]

    def sums(self, call: Call, a: Values, b: Values, usual: Callable[[Values, Values], Sums]) -> Sums:
        """Each chunk's sum times the scale of its row of B, in f32."""
        weights = _of(call.plan)
        each = LARGEST[weights.type] * values(call.data.further["scale_b"])

        def at(first: int) -> Values:
            """The scale of each element of D for the group that element `first` of K lies in, (batch, 1, n)."""
            group = first // weights.group if weights.group else 0
            of_group: Values = each[:, None, :, group]
            return np.broadcast_to(of_group, (len(each), a.shape[1], b.shape[1]))

        if call.draw.distribution != "uniform":
            return exact_sums_of_parts(a, b, weights.chunk, at)
        of = call.plan.accumulation
        exact, magnitude, path = path_of(of, a, b, at)
        one_sign = np.zeros(exact.shape, bool)
        one_sign[:, 1::2] = True  # of odd rows of A, and weights without a sign
        return Sums(exact, drift(of, a.shape[-1], path, magnitude, ~one_sign), magnitude)


WEIGHTS = _Weights()


def _of(plan: ProductPlan) -> Weights:
    assert plan.spec.weights
    return plan.spec.weights


def _drawn(weights: Weights, draw: Draw, shape: tuple[int, int, int], rng: np.random.Generator) -> Values:
    """The weights before zero points are added to small integers."""
    if draw.distribution == "zeros":
        return np.zeros(shape)
    if draw.distribution == "small_int":
        reach = int(draw.reach[1])
        least = 1 if weights.type == "u4" and not weights.zero else -reach
        drawn = rng.integers(least, reach, shape, endpoint=True).astype(np.float64)
        drawn[drawn == 0] = reach
        return drawn
    if weights.type == "e4m3":
        return rng.uniform(-448.0, 448.0, shape)
    low, high = {"s4": (-8, 7), "u4": (0, 15), "s8": (-128, 127)}[weights.type]
    return rng.integers(low, high, shape, endpoint=True).astype(np.float64)


def _each(weights: Weights, of_groups: Values, k: int) -> Values:
    """(batch, n, k) from (batch, n, groups)."""
    repeated: Values = np.repeat(of_groups, weights.group or k, axis=-1)
    return repeated[..., :k]


def _packed(weights: Weights, drawn: Values) -> npt.NDArray[np.uint8]:
    """As they lie in memory, bytes: element k of a row of 4 bits in the low half of byte k / 2 where k is even. The half that no
    element has is not zero."""
    if weights.packed == 1:
        stored: npt.NDArray[np.uint8] = encode(drawn, weights.type).view(np.uint8)
        return stored
    codes = drawn.astype(np.int64) & 15
    even = codes[..., 0::2]
    odd = np.full(even.shape, 13)
    odd[..., : codes.shape[-1] // 2] = codes[..., 1::2]
    return (even | odd << 4).astype(np.uint8)


def _unpacked(weights: Weights, stored: npt.NDArray[np.uint8]) -> Values:
    if weights.packed == 1:
        kind = {"s8": np.int8, "e4m3": ml_dtypes.float8_e4m3fn}[weights.type]
        found: Values = stored.view(kind).astype(np.float64)
        return found
    halves = np.stack((stored & 15, stored >> 4), axis=-1).reshape(*stored.shape[:-1], -1).astype(np.float64)
    return np.where(halves >= 8, halves - 16, halves) if weights.type == "s4" else halves
