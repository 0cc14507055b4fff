"""Groups of a grouped kernel: their sizes in device memory, the product of each, and which rows are of none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.matrix import Draw, Matrix, Operands
from mmagen.verify.emulated.parts import Call, Part, Sums, Values


class _Groups(Part):
    name = "group"

    def single(self, plan: ProductPlan, problem: Problem) -> frozenset[str]:
        return frozenset("acd" if _stacked(plan) else "")

    def fill(self, plan: ProductPlan, problem: Problem, draw: Draw, data: Operands, rng: np.random.Generator) -> None:
        """Offsets of an odd number of groups, ends of an even one."""
        assert problem.groups
        sizes, given = problem.groups.sizes, cast("dict[str, Matrix]", data.further)
        offsets = [*accumulate(sizes, initial=_first_row(problem))]
        if not _stacked(plan):
            given["group_m"].view[0, 0] = sizes
        elif _offsets_given(problem):
            given["group_offsets"].view[0, 0] = offsets
            del given["group_ends"]
        else:
            given["group_ends"].view[0, 0] = offsets[1:]
            del given["group_offsets"]

    def sums(self, call: Call, a: Values, b: Values, usual: Callable[[Values, Values], Sums]) -> Sums:
        return sums_of_groups(call, a, b, lambda _, own_a, own_b: usual(own_a, own_b))

    def covered(self, call: Call) -> npt.NDArray[np.bool_] | None:
        mask = np.zeros((call.data.d.batch, call.data.d.rows, call.data.d.columns), np.bool_)
        for span in _spans(call):
            mask[span.matrix, span.begin : span.end] = True
        return mask


@dataclass(frozen=True)
class Span:
    """Rows begin .. end of a matrix of A and D, for a group."""

    group: int
    matrix: int
    begin: int
    end: int

    def matrix_of(self, found: Values) -> Values:
        """The group's matrix of those of all groups, or the one that all share."""
        own = min(self.group, len(found) - 1)
        return found[own : own + 1]

    def rows(self, found: Values) -> Values:
        """The group's rows of values for each row of D."""
        return self.matrix_of(found)[:, self.begin : self.end]


def sums_of_groups(call: Call, a: Values, b: Values, sums_of: Callable[[Span, Values, Values], Sums]) -> Sums:
    """The sums of all groups, (matrices, rows, n), zeros where there are no rows of any; sums_of: of A's rows and B of one."""
    shape = (*a.shape[:2], b.shape[1])
    exact, drift, magnitude = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for span in _spans(call):
        # Of odd rows it is known that they are positive: they stay odd.
        even = replace(span, begin=span.begin - span.begin % 2)
        rows = a[span.matrix : span.matrix + 1, even.begin : span.end]
        own = sums_of(even, rows, b[span.group : span.group + 1])
        for whole, part in ((exact, own.exact), (drift, own.drift), (magnitude, own.magnitude)):
            whole[span.matrix, span.begin : span.end] = part[0, span.begin - even.begin :]
    return Sums(exact, drift, magnitude)


def by_row(call: Call, found: Values) -> Values:
    """Values for each group, (groups, m or 1, ...), as those of the rows of D, (1, m, ...); all others as they are."""
    if not is_stacked(call) or len(found) == 1:
        return found
    spread = np.zeros((1, call.problem.m, *found.shape[2:]))
    for span in _spans(call):
        own = found[span.group]
        spread[0, span.begin : span.end] = own[span.begin : span.end] if len(own) > 1 else own
    return spread


def is_stacked(call: Call) -> bool:
    """Do the rows of all groups lie in one matrix?"""
    return call.problem.groups is not None and _stacked(call.plan)


def _stacked(plan: ProductPlan) -> bool:
    """Do the rows of all groups lie in one matrix?"""
    return plan.spec.grouped == "contiguous"


def _offsets_given(problem: Problem) -> bool:
    """Does a call with rows of all groups in one matrix pass their offsets? Else it passes their ends."""
    assert problem.groups
    return len(problem.groups.sizes) % 2 == 1


def _first_row(problem: Problem) -> int:
    """Of the first group. With offsets, half of the rows of no group lie before it."""
    assert problem.groups
    return (problem.m - sum(problem.groups.sizes)) // 2 if _offsets_given(problem) else 0


def statuses(call: Call) -> list[set[int]]:
    """The values of group_status that a group may have (docs/grouped.md), by the sizes in device memory: one of what is wrong
    with it, or 0."""
    given, rows = call.data.further, call.problem.m
    if not _stacked(call.plan):
        return [{1} if size < 0 else {2} if size > rows else {0} for size in given["group_m"].view[0, 0].tolist()]
    found, taken = [], 0
    for begin, end in pairwise(_offsets(call)):
        wrong = {1: end < begin, 2: begin < 0 or end > rows, 3: 0 <= begin < taken}
        found.append({status for status, is_wrong in wrong.items() if is_wrong} or {0})
        taken = max(taken, end) if 0 <= end <= rows else taken
    return found


def _offsets(call: Call) -> list[int]:
    """Where each group begins, and where the last one ends."""
    given = call.data.further
    found = given["group_offsets"].view if "group_offsets" in given else given["group_ends"].view
    ends: list[int] = found[0, 0].tolist()
    return ends if "group_offsets" in given else [0, *ends]


def _spans(call: Call) -> Iterator[Span]:
    """The rows of each group that is computed."""
    stacked = _stacked(call.plan)
    ends = _offsets(call) if stacked else call.data.further["group_m"].view[0, 0].tolist()
    for group, status in enumerate(statuses(call)):
        if status == {0}:
            yield Span(group, 0, ends[group], ends[group + 1]) if stacked else Span(group, group, 0, ends[group])


GROUPS = _Groups()
