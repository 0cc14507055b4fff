"""The C interface of compiled projects keeps what its header promises: see mmagen/verify/emulated/interface.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmagen.verify.emulated.interface import interface_of
from mmagen.verify.emulated.session import tasks

pytestmark = pytest.mark.nvcc

# A kernel of one tile, one with an unaligned form, further arguments, elements that share bytes, TMA, pairs of columns, a
# workspace, one that it needs, groups, and groups with matrices of their own; other tests of every run compile most of them too.
SPECS = (
    "hello_micro",
    "sm80_gemm_classic",
    "sm80_gemm_f16_epilogue",
    "sm80_gemm_s4",
    "sm90_gemm_bf16_pingpong",
    "sm90_gemm_bf16_swiglu",
    "c2_stream",
    "pc1_x6",
    pytest.param("pc6_gated", marks=pytest.mark.more),
    "groups",
    "pointers_pingpong",
    "pointers_blocks",
)


@pytest.fixture(scope="module")
def task_of(compiled):
    """task_of(name): the first task of a spec."""
    return lambda name: tasks(compiled(name).plan, compiled(name).ptx, (), 1, None)[0]


@pytest.mark.parametrize("spec", SPECS)
def test_the_interface_is_as_its_header_says(task_of, spec):
    assert interface_of(task_of(spec)).broken() == []


def test_a_kernel_for_a_later_architecture_needs_what_it_is_planned_for(task_of):
    task = task_of("sm80_gemm_classic")
    assert interface_of(replace(task, ptx=replace(task.ptx, arch="sm_90"))).broken() == []


def test_an_interface_that_is_not_as_planned_is_reported(task_of):
    """The plan of another kernel expects other threads, scalars and shared memory."""
    task = task_of("sm80_gemm_classic")
    wrong = interface_of(replace(task, plan=replace(task.product, threads=task.plan.threads * 2)))
    assert [text.split(":")[0] for text in wrong.broken()] == ["threads of the launch", "threads"]
