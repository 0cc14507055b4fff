"""Calls that no problem makes: a K of 0, groups that are not legal, infinities in pieces, an alpha and a beta of all bits, results
that D's type cannot hold, and results below its normal numbers. Once for each kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from mmagen.emulate import GlobalMemory
from mmagen.families import family_of
from mmagen.plan.operations import as_applied, columns_of_element
from mmagen.plan.plans import GemmPlan, ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated import (
    far_sums,
    groups,
    large_results,
    last_tile,
    nan_row,
    not_finite,
    pointers,
    rare_values,
    short_workspace,
)
from mmagen.verify.emulated.compare import compare
from mmagen.verify.emulated.findings import OutcomeError, with_findings
from mmagen.verify.emulated.formats import as_stored, is_integer
from mmagen.verify.emulated.matrices import draw_of, operands
from mmagen.verify.emulated.matrix import Matrix, Operands, values
from mmagen.verify.emulated.parts import Call
from mmagen.verify.emulated.product import in_place, multiply, multiply_in
from mmagen.verify.emulated.task import Task

_FEW = 16  # rows and columns of a call that asks for values alone
_ROWS = 80  # that a call with illegal groups has room for
_MOST_INT = 2**31 - 1
# Three windows of the tile scheduler's 32 groups. The end of each group is the next one's begin. Of the other windows' groups those
# that begin before row 60 overlap one of the first window, whatever the second one's ends are.
_OFFSETS = (3, 9, 9, 5, 12, _ROWS + 1, 14, 20, -1, 22, 30, *(60,) * 21, 40, 50, *(55,) * 31, 70, 75, _MOST_INT)
_SHAPE = (48, 32, 160)  # of groups with matrices of their own: two blocks of scales
_ELSEWHERE = 1 << 40  # an address where nothing lies
_KEEPING = ("alpha", "beta_c")  # operations that keep the sums where alpha is 1 and beta 0
# And those that do so where what they add is 0, or but for relu.
_KEEPING_WITH_ZEROS = (*_KEEPING, "bias", "add", "relu", "amax", "row_sums", "column_sums")
_SUBNORMAL = {"e4m3": -9, "e5m2": -16, "f16": -24, "bf16": -133, "f32": -149}  # exponents of the least numbers above 0
_SIZES = (5, -1, _ROWS + 1, _ROWS, 0, _MOST_INT, -_MOST_INT - 1, 3, *(0,) * 24, _ROWS + 1, 7, -1)


def check(task: Task) -> None:
    """Raises OutcomeError for what the kernel does wrong, EmulationError and HostError."""
    if not task.product.any_shape:
        return
    plan, usual = cast(GemmPlan, task.plan), task.problem
    if plan.scheduler.describes_groups:
        if not task.library:
            _check_pointers(task)
        return
    (m, n, _), k = plan.tile_of_d, plan.tile[2]
    # The kernels of a library are many: what all have from the same code is asked of a project's only one.
    for offset in () if task.library else (0, 1):
        rows, columns = max(m - 3, 1), max(n - 14, 2)
        given = {"groups": [rows, 1]} if usual.groups else {}
        problem = Problem.model_validate({"shape": (rows + 1, columns, k), "offset": offset, "beta": 2.0, **given})
        _judge(task, problem, "a K of 0", _without_k)
    alpha, beta = _scalars_of_all_bits(plan)
    given = {"groups": [m - 1, 1]} if usual.groups else {}
    problem = Problem.model_validate({"shape": (m, n, k), "alpha": alpha, "beta": beta, **given})
    _judge(task, problem, "an alpha and a beta of all bits", _with_scalars_of_the_host)
    _raise("many tiles, of which the last is executed", last_tile.check(task))
    if usual.groups:
        # Sizes on the device differ; these have at least as many tiles, from which the limit of steps follows.
        sizes = [_ROWS] * len(_SIZES) if plan.spec.grouped == "masked" else [1] * (len(_OFFSETS) - 1)
        problem = Problem.model_validate({"shape": (_ROWS, 16, k), "groups": sizes})
        _judge(task, problem, "illegal sizes of groups", _with_illegal_groups)
    if task.library:
        return
    _raise("a workspace that is too short", short_workspace.check(task))
    _raise("partial sums that are far apart", far_sums.check(task))
    _raise("a NaN in A", nan_row.check(task, given))
    for problem in not_finite.problems(plan):
        _raise("infinities and NaNs in A and B", not_finite.check(task, problem))
    if not usual.groups:
        _check_in_place(task)
    if alpha := large_results.alpha_of(plan):
        problem = Problem.model_validate({"shape": (m, n, k), "alpha": alpha, **given})
        _judge(task, problem, "results that D's type cannot hold", _with_large_results)
    if alpha := _alpha_below(plan):
        given = {"groups": [_FEW - 1, 1]} if usual.groups else {}
        problem = Problem.model_validate({"shape": (_FEW, _FEW, k), "alpha": alpha, **given})
        _judge(task, problem, "results below D's normal numbers", lambda call, _: call)
    if plan.spec.split and all(one.word in _KEEPING_WITH_ZEROS for one in plan.epilogue.operations):
        _check_rare_values(task)


def _check_in_place(task: Task) -> None:
    """A C that is D, of one tile. Not of groups: the elements that nothing may write would hold something before the call."""
    plan = cast(GemmPlan, task.plan)
    asked = Problem.model_validate({"shape": (*plan.tile_of_d[:2], plan.tile[2]), "beta": 2.0})
    (applied,) = as_applied(plan.spec, (asked,))
    one = replace(task, problem=applied, distribution="small_int")
    data = in_place(operands(plan, applied, one.distribution, one.seed))
    if data is None:
        return
    written, reports = multiply_in(one, data, c_is_d=True)
    _raise("a C that is D", with_findings(compare(plan, applied, data, written, one.distribution).reason, reports))


def _scalars_of_all_bits(plan: GemmPlan) -> tuple[float, float]:
    """Negative numbers that no type with fewer bits holds."""
    word = plan.epilogue.scalar.word
    return (-3.0, -7.0) if is_integer(word) else (as_stored(-4 / 3, word), as_stored(-2 / 3, word))


def _alpha_below(plan: GemmPlan) -> float:
    """The least number above 0 of D's type, by which sums of small integers become subnormal ones; 0 where no problem asks for
    that."""
    exponent = _SUBNORMAL.get(plan.epilogue.out.word)
    return 2.0**exponent if exponent is not None and large_results.is_linear(plan) else 0.0


def _check_rare_values(task: Task) -> None:
    """Elements that are not finite, and some whose nearest bf16 is infinity, of a kernel that splits f32 (docs/split.md)."""
    data = operands(task.product, Problem(shape=rare_values.SHAPE), "small_int", task.seed)
    a, b = rare_values.operands(task.seed)
    data.a.view[0], data.b.view[0] = a, b
    for matrix in data.further.values():
        matrix.view[...] = np.zeros((), matrix.view.dtype)
    _, reports = multiply(replace(task, problem=Problem(shape=rare_values.SHAPE)), data)
    plan = cast(GemmPlan, task.plan)
    least = 0.0 if any(one.word == "relu" for one in plan.epilogue.operations) else -math.inf
    wrong = rare_values.wrong_element(values(data.d)[0], a, b, data.d.word, plan.accumulation.left_out, least)
    _raise("infinities, NaNs and large numbers", with_findings(wrong, reports))


def _check_pointers(task: Task) -> None:
    """Groups with matrices of their own, each of which but the first and the last has something wrong."""
    plan = task.product
    (applied,) = as_applied(plan.spec, (Problem(shape=_SHAPE, beta=1.0),))
    wrong = list(_wrong_groups(plan, applied.beta != 0))
    given = {"shape": _SHAPE, "groups": [_SHAPE] * (len(wrong) + 2), "alpha": applied.alpha, "beta": applied.beta}
    one = replace(task, problem=Problem.model_validate(given), distribution="small_int")
    found = pointers.groups_of(one)

    def change(memory: GlobalMemory, members: dict[str, int | float]) -> None:
        for group, (array, value, _) in enumerate(wrong, 1):
            kind = np.int32 if array.startswith("group_") else np.uint64
            to = int(members[array]) + group * kind().itemsize
            memory.store(to, np.array([value], kind).tobytes())

    written = pointers.multiply(one, found, change)
    _raise("illegal groups", pointers.judged(one, found, written, [0, *(status for _, _, status in wrong), 0]))
    _check_without_arrays(task, applied)
    alpha, beta = _scalars_of_all_bits(cast(GemmPlan, plan))
    _judge_pointers(task, "an alpha and a beta of all bits", alpha, beta)
    if alpha := large_results.alpha_of(cast(GemmPlan, plan)):
        _judge_pointers(task, "results that D's type cannot hold", alpha, 0.0, _with_large_results)
    if alpha := _alpha_below(cast(GemmPlan, plan)):
        _judge_pointers(task, "results below D's normal numbers", alpha, 0.0)


def _check_without_arrays(task: Task, problem: Problem) -> None:
    """Two groups alike, of which the call has extents and leading dimensions in place of arrays of them, and which asks for no
    status."""
    given = {"shape": _SHAPE, "groups": [_SHAPE], "alpha": problem.alpha, "beta": problem.beta}
    one = replace(task, problem=Problem.model_validate(given), distribution="small_int")
    (first,) = pointers.groups_of(one)
    assert first.data
    lines = {f"ld{name}" if len(name) == 1 else f"ld_{name}": matrix.ld for name, matrix in first.data.matrices.items()}

    def change(memory: GlobalMemory, members: dict[str, int | float]) -> None:
        for name, value in lines.items():
            if f"group_{name}" in members:
                members |= {name: value, f"group_{name}": 0}
        members |= dict.fromkeys(("group_m", "group_n", "group_k", "group_status"), 0)

    found = [first, replace(first, number=1)]
    written = replace(pointers.multiply(one, found, change), statuses=(0, 0))
    _raise("extents in place of arrays of them", pointers.judged(one, found, written, [0, 0]))


def _judge_pointers(
    task: Task, what: str, alpha: float, beta: float, change: Callable[[Task, Operands], Task] = lambda call, _: call
) -> None:
    """Two legal groups."""
    (applied,) = as_applied(task.product.spec, (Problem(shape=_SHAPE, alpha=alpha, beta=beta),))
    given = {"shape": _SHAPE, "groups": [_SHAPE] * 2, "alpha": applied.alpha, "beta": applied.beta}
    one = replace(task, problem=Problem.model_validate(given), distribution="small_int")
    found = pointers.groups_of(one)
    for group in found:
        assert group.data
        change(one, group.data)
    written = pointers.multiply(one, found, lambda memory, members: None)
    _raise(what, pointers.judged(one, found, written, [0, 0]))


def _wrong_groups(plan: ProductPlan, reads_c: bool) -> Iterator[tuple[str, int, int]]:
    """An array of the call, what a group of _SHAPE has in it, and its status (docs/grouped.md)."""
    for mode, extent in zip("mnk", _SHAPE, strict=True):
        yield f"group_{mode}", -1, 1
        yield f"group_{mode}", extent + 1, 2
    m, n, k = _SHAPE
    pair = columns_of_element(plan.epilogue.operations)
    of_result = n // pair if plan.epilogue.row_major else m
    if pair > 1:
        yield "group_n", n - 1, 7
    for letter, other in (("a", m), ("b", n)):
        line = k if plan.operand(letter.upper()).contiguous_k else other
        yield f"group_ld{letter}", line + 1, 4
        yield f"group_ld{letter}", line - 16, 5
        yield letter, _ELSEWHERE + 8, 4
        yield letter, 0, 6
    for letter in "cd" if reads_c else "d":
        yield f"group_ld{letter}", of_result - 1, 5
        yield letter, 0, 6
        if plan.epilogue.out.bytes > 1:
            yield letter, _ELSEWHERE + 1, 4
    for tensor in plan.arguments.of_groups:
        yield tensor.name, 0, 6
        if tensor.bytes_of_groups > 1:
            yield tensor.name, _ELSEWHERE + 1, 4
        if tensor.pitched:
            yield f"group_ld_{tensor.name}", tensor.line.value({"m": m, "n": n, "k": k}) - 1, 5


def _judge(task: Task, problem: Problem, what: str, change: Callable[[Task, Operands], Task]) -> None:
    (applied,) = as_applied(task.product.spec, (problem,))
    # Of groups the faults are those of operands that TMA loads.
    if not applied.groups and any(family_of(task.plan).problem_faults(task.plan, (applied,))):
        return
    one = replace(task, problem=applied, distribution="small_int")
    data = operands(one.product, applied, one.distribution, one.seed)
    written, reports = multiply(change(one, data), data)
    found = compare(one.product, applied, data, written, one.distribution)
    _raise(what, with_findings(found.reason or _wrong_statuses(one, data), reports))


def _raise(what: str, outcome: Mapping[str, Any]) -> None:
    if outcome.get("disposition", "passed") != "passed":
        raise OutcomeError(f"a call with {what}", outcome)


def _without_k(task: Task, data: Operands) -> Task:
    """The call of a product without k tiles. What its sums are follows from an A and a B of zeros."""
    for matrix in (data.a, data.b):
        matrix.view[...] = np.zeros((), matrix.view.dtype)
    m, n, _ = task.problem.shape
    return replace(task, problem=task.problem.model_copy(update={"shape": (m, n, 0)}))


def _with_large_results(task: Task, data: Operands) -> Task:
    large_results.enlarge(cast(GemmPlan, task.plan), data)
    return task


def _with_scalars_of_the_host(task: Task, data: Operands) -> Task:
    """The call of small integers, whose sums are exact, with scalars that are not in device memory. Of groups it asks for no
    status."""
    cast("dict[str, Matrix]", data.further).pop("group_status", None)
    return replace(task, distribution="uniform")


def _with_illegal_groups(task: Task, data: Operands) -> Task:
    name, sizes = ("group_m", _SIZES) if task.product.spec.grouped == "masked" else ("group_offsets", _OFFSETS)
    data.further[name].view[0, 0] = sizes
    return task


def _wrong_statuses(task: Task, data: Operands) -> str:
    """What is wrong with the status of a group, or ""."""
    if not task.problem.groups or "group_status" not in data.results:
        return ""
    call = Call(task.product, task.problem, draw_of(task.product, task.problem, task.distribution), data)
    got = data.results["group_status"][0].reshape(-1).tolist()
    wrong = [
        f"group_status of group {group} is {status}, not {' or '.join(map(str, sorted(may)))}"
        for group, (status, may) in enumerate(zip(got, groups.statuses(call), strict=True))
        if status not in may
    ]
    return "; ".join(wrong[:3])
