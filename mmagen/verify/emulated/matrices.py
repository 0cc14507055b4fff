"""The inputs of one problem."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mmagen.mma.ranges import Limits, small_int_rule, uniform_rule
from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.formats import EXACT_INTEGERS, as_stored
from mmagen.verify.emulated.matrix import Draw, Matrix, Operands, empty, put, put_source
from mmagen.verify.emulated.parts import parts_of

_WHOLE = 16  # elements: lines so much longer begin at multiples of 16 bytes, whatever their type, where they did before


def draw_of(plan: ProductPlan, problem: Problem, distribution: str) -> Draw:
    """The inputs of a problem, by the rules of mma.ranges."""
    if distribution == "zeros":
        return Draw(distribution, exact=True)
    k, alpha, out = problem.k * plan.atom.type_a.parts, scalar_value(plan, problem.alpha), plan.epilogue.out.word
    if distribution == "small_int":
        limits = Limits(exact_sums(plan), EXACT_INTEGERS[plan.epilogue.scalar.word], EXACT_INTEGERS[out])
        rule = small_int_rule(k, alpha, scalar_value(plan, problem.beta), limits)
        return Draw(distribution, (rule.range_a, rule.range_b), rule.group, positive=True, exact=rule.exact)
    positive = plan.accumulation.promoted > 0
    a, b = (plan.operand(letter).multiplied for letter in "AB")
    uniform = uniform_rule(a, b, out, k, alpha, positive)
    return Draw(distribution, (uniform.reach, uniform.reach), uniform.group, positive)


def exact_sums(plan: ProductPlan) -> float:
    """Up to here every integer sum is exact, by whatever way it comes about. 8-bit floats: few bits are kept."""
    limit = EXACT_INTEGERS[plan.atom.type_d.word]
    return min(limit, 2.0**13) if plan.operand("A").element.word in ("e4m3", "e5m2") else limit


def scalar_value(plan: ProductPlan, value: float) -> float:
    """alpha or beta as the kernel gets it."""
    return as_stored(value, plan.epilogue.scalar.word)


def operands(plan: ProductPlan, problem: Problem, distribution: str, seed: int) -> Operands:
    """Seeded inputs as `draw_of` says; those of the plan's further arguments as its parts do."""
    rng = np.random.default_rng(seed)
    out, row_major = plan.epilogue.out.word, plan.epilogue.row_major
    a_word, b_word = plan.operand("A").element.word, plan.operand("B").element.word
    shapes = shapes_of(plan, problem)
    pads = dict.fromkeys(shapes, problem.ld_pad)
    for part in parts_of(plan):
        pads |= part.pads(plan, problem)
    single = _single(plan, problem)

    def shaped(name: str, word: str, columns_contiguous: bool, pad: int) -> Matrix:
        stride = getattr(problem, f"batch_stride_{name}")
        batch = 1 if name in single else problem.batch
        return empty(word, *shapes[name], batch, columns_contiguous, pad, problem.offset, stride)

    a = shaped("a", a_word, plan.operand("A").contiguous_k, pads["a"])
    b = shaped("b", b_word, plan.operand("B").contiguous_k, pads["b"])
    # C's lines are longer than D's: who takes one's leading dimension for the other's is found out.
    c = shaped("c", out, row_major, problem.ld_pad + 16) if problem.beta else None
    d = shaped("d", out, row_major, problem.ld_pad)
    draw = draw_of(plan, problem, distribution)
    put(a, rng, draw, draw.reach[0], draw.group)
    put(b, rng, draw, draw.reach[1], 1)
    if c:
        put_source(c, rng, distribution)
    if not plan.parts:
        return Operands(a, b, c, d)
    numbers = {name: value for part in parts_of(plan) for name, value in part.numbers(plan, problem).items()}
    data = Operands(a, b, c, d, further_matrices(plan, problem, numbers), numbers)
    for part in parts_of(plan):
        part.fill(plan, problem, draw, data, rng)
    return data


def shapes_of(plan: ProductPlan, problem: Problem) -> dict[str, tuple[int, int]]:
    """(rows, columns) of a, b, c and d in memory."""
    m, n, k = problem.shape
    shapes = {"a": (m, k), "b": (n, k), "c": (m, n), "d": (m, n)}
    for part in parts_of(plan):
        shapes |= part.shapes(plan, problem)
    return shapes


def further_matrices(
    plan: ProductPlan, problem: Problem, numbers: Mapping[str, int | float], *, packed: bool = False
) -> dict[str, Matrix]:
    """Memory for the plan's further tensors, each with a leading dimension and a batch stride of its own. TMA can address
    those with a leading dimension where it can address D, but for the batch stride, which is odd if that of C is. packed: without
    padding."""
    extents = {"m": problem.m, "n": problem.n, "k": problem.k, "batch": problem.batch}
    extents |= {name: int(value) for name, value in numbers.items()}
    single = _single(plan, problem)
    made = {}
    for place, one in enumerate(plan.arguments.tensors, 1):
        offset = problem.offset if one.aligned_to <= one.element.bytes else 0
        pad = problem.ld_pad + _WHOLE * place if one.pitched and not packed else 0
        rows, columns = one.rows.value(extents), one.columns.value(extents)
        batch = problem.batch if one.batched else 1
        stride = None if one.batched and one.name not in single else 0
        if stride is None and one.pitched and one.aligned_to <= one.element.bytes and (problem.batch_stride_c or 0) % 2:
            inner, outer = (columns, rows) if one.columns_contiguous else (rows, columns)
            stride = outer * (inner + pad) + _WHOLE | 1
        made[one.name] = empty(one.element.word, rows, columns, batch, one.columns_contiguous, pad, offset, stride)
    return made


def _single(plan: ProductPlan, problem: Problem) -> frozenset[str]:
    """The matrices of which there is one for a batch."""
    return frozenset().union(*(part.single(plan, problem) for part in parts_of(plan)))
