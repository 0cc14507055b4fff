"""Infinities and NaNs in A and B of a plain product: they show in their row and their column, and nowhere else. Where an operand
ends inside of a k tile, zeros are multiplied by zeros, never by what a stage held before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt

from mmagen.mma.formats import PARTS
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.findings import with_findings
from mmagen.verify.emulated.formats import decode, encode, is_integer
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import values
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.task import Task

_FEW = 16  # rows and columns
_KEEPING = {"alpha", "beta_c"}
_WITHOUT_INFINITIES = {"e4m3", "e5m2"}  # as numbers are converted to them


def problems(plan: GemmPlan) -> tuple[Problem, ...]:
    """An aligned one, and one whose operands no vector begins with, with residues of K; () for a kernel that computes more than a
    product of floating-point numbers, or one of pieces of them, or whose zeros are not multiplied."""
    words = {one.word for one in plan.epilogue.operations or ()}
    types = (*(one.element.word for one in plan.operands), plan.epilogue.out.word)
    spec = plan.spec
    more = spec.scale or spec.weights or spec.split or spec.grouped or "sparse" in plan.parts
    if more or not words <= _KEEPING or any(is_integer(word) or word in PARTS for word in types):
        return ()
    k = plan.tile[2]
    return Problem(shape=(_FEW, _FEW, 2 * k + k // 2)), Problem(shape=(_FEW - 1, _FEW - 1, 2 * k + k // 2 - 1), offset=1)


def check(task: Task, problem: Problem) -> Mapping[str, object]:
    """The outcome of such a call."""
    one = replace(task, problem=problem, distribution="small_int", workspace=False)
    data = operands(one.product, problem, one.distribution, one.seed)
    # At the end of the first k tile, whose stage the last one may have too: row and column 1 are infinite, 2 are NaNs.
    last = cast(GemmPlan, task.plan).tile[2] - 1
    for matrix in (data.a, data.b):
        matrix.view[0, 1, last - 1] = encode(np.array([np.nan if matrix.word in _WITHOUT_INFINITIES else np.inf]), matrix.word)[
            0
        ]
        matrix.view[0, 2, last] = encode(np.array([np.nan]), matrix.word)[0]
    _, reports = multiply(one, data)
    return with_findings(_wrong(cast(GemmPlan, task.plan), values(data.a)[0], values(data.b)[0], values(data.d)[0]), reports)


def _wrong(plan: GemmPlan, a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], got: npt.NDArray[np.float64]) -> str:
    """What is wrong with D = A B^T, or ""."""
    with np.errstate(invalid="ignore"):
        expected = decode(encode(a @ b.T, plan.epilogue.out.word))
    right = (got == expected) | (np.isnan(got) & np.isnan(expected))
    if right.all():
        return ""
    m, n = map(int, np.argwhere(~right)[0])
    wrong = f"{int((~right).sum())} of {right.size} elements wrong"
    return f"{wrong}; at (m,n): ({m}, {n}) got {got[m, n]:.9g} expected {expected[m, n]:.9g}"
