"""A NaN in A: where an epilogue has operations, it must come through all of them, and count in what they gather."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mmagen.plan.operations import SUMS, as_applied
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.findings import with_findings
from mmagen.verify.emulated.formats import decode, encode, is_integer
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import Operands, values
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.task import Task

_ROW = 1  # that has it
_KEEPING = {"alpha", "beta_c"}


def check(task: Task, given: Mapping[str, Any]) -> dict[str, object]:
    """The outcome of such a call of one tile; {} where nothing but a product is computed, where a type has no NaN, and of a sparse
    A, whose zeros are not multiplied. given: further fields of the problem."""
    plan = cast(GemmPlan, task.plan)
    words = {one.word for one in plan.epilogue.operations or ()}
    types = plan.operand("A").element.word, plan.epilogue.out.word
    if words <= _KEEPING or any(map(is_integer, types)) or "sparse" in plan.parts:
        return {}
    m, n, _ = plan.tile_of_d
    problem = Problem.model_validate({"shape": (max(m, 4), n, plan.tile[2]), **given})
    (applied,) = as_applied(plan.spec, (problem,))
    one = replace(task, problem=applied, distribution="small_int")
    data = operands(plan, applied, one.distribution, one.seed)
    data.a.view[0, _ROW, 0] = encode(np.array([np.nan]), data.a.word)[0]
    _, reports = multiply(one, data)
    return with_findings(_wrong(plan, data), reports)


def _wrong(plan: GemmPlan, data: Operands) -> str:
    """What is no NaN and should be one, or the other way round, or ""."""
    rows = np.isnan(values(data.d)[0, : _ROW + 2])
    if not rows[_ROW].all() or rows[[_ROW - 1, _ROW + 1]].any():
        return f"row {_ROW} of A has a NaN: of rows 0 to 2 of D {rows.sum(axis=1).tolist()} elements are NaN"
    for one in plan.epilogue.operations:
        if one.word != "amax" and one.word not in SUMS:
            continue
        found: npt.NDArray[np.bool_] = np.isnan(decode(data.results[one.tensor][0])).reshape(-1)
        right = found[_ROW] and not found[_ROW - 1] if one.word == "row_sums" else found[: 1 if one.word == "amax" else 8].all()
        if not right:
            return f"row {_ROW} of A has a NaN, which {one.tensor} does not show: {found[:8].tolist()}"
    return ""
