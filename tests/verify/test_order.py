"""Processes that emulate tasks keep to a kernel while it has any, and share kernels only when all have begun."""

from __future__ import annotations

from types import SimpleNamespace

from mmagen.spec.model import Problem
from mmagen.verify.emulated.order import Order


def order_of(*tasks: tuple[str, int]) -> Order:
    return Order([SimpleNamespace(kernel_name=kernel, problem=Problem(shape=(k, 1, 1))) for kernel, k in tasks])


def test_a_process_keeps_to_its_kernel_and_begins_with_the_largest_problem():
    order = order_of(("a", 1), ("b", 9), ("a", 5), ("b", 3), ("a", 2))
    assert [order.take("a", ["b"]) for _ in range(3)] == [2, 4, 0]
    assert order and order.take("a", ["b"]) == 1  # it helps with what is left


def test_a_process_without_one_takes_a_kernel_that_no_other_has():
    order = order_of(("a", 9), ("a", 8), ("b", 2), ("b", 1), ("c", 4))
    assert order.take("", []) == 0
    assert order.take("", ["a"]) == 4
    assert order.take("c", ["a"]) == 2
    assert [order.take("c", ["a", "b"]) for _ in range(2)] == [1, 3]
    assert not order
