"""Bytes of the matrices of a call in global memory, as they are stored there: of a sparse A the kept elements, of 4-bit types two
in a byte, of D half the columns where its epilogue joins two."""

from __future__ import annotations

from collections.abc import Mapping

from mmagen.plan.arguments import Tensor
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem

_ACCESSES = {"read": 1, "write": 1, "update": 2}
_OF_GROUPS = "group"  # the part that describes the groups themselves


def of_operand(plan: GemmPlan, letter: str, rows: int, k: int) -> int:
    """A or B of so many rows, M or N."""
    operand = plan.operand(letter)
    return rows * -(-k // operand.group) * operand.kept * operand.element.bytes


def of_d(plan: GemmPlan, m: int, n: int) -> int:
    """D, or a C of its shape."""
    return m * (n // plan.facts.columns_of_element) * plan.epilogue.out.bytes


def of_others(plan: GemmPlan, problem: Problem) -> int:
    """Metadata, scales, and what the epilogue reads and writes, once each."""
    extents = {"m": problem.m, "n": problem.n, "k": problem.k, "batch": problem.batch}
    return sum(_of(one, extents) * (problem.batch if one.batched else 1) for one in plan.arguments.tensors)


def of_others_of_group(plan: GemmPlan, shape: tuple[int, int, int]) -> int:
    """The part of one group in them, without what describes the groups."""
    extents = dict(zip(("m", "n", "k", "batch"), (*shape, 1), strict=True))
    return sum(_of(one, extents) for one in plan.arguments.tensors if one.part != _OF_GROUPS)


def _of(one: Tensor, extents: Mapping[str, int]) -> int:
    return one.rows.value(extents) * one.columns.value(extents) * one.element_bytes * _ACCESSES[one.access]
