"""Grouped kernels as nvcc compiles them: the problems of verify, and sizes on the device that are not legal."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from mmagen.host_runtime.library import HostError
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.formats import decode, encode
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import values
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.session import run_task, tasks
from mmagen.verify.emulated.task import Task
from tests.support.pace import is_within

pytestmark = pytest.mark.nvcc

MASKED, CONTIGUOUS = "groups_masked", "groups"
BLOCKS, LIBRARY = "groups_blocks", "groups_library"
_MORE = ("sm90_gemm_bf16_grouped", "sm90_gemm_e4m3_masked", "groups_rows", "groups_swapped")
LARGE = [pytest.param(name, marks=pytest.mark.more) for name in _MORE]
_SECONDS = 30  # of processor time for one spec, after compilation


@pytest.mark.parametrize("name", [MASKED, CONTIGUOUS, BLOCKS, LIBRARY, *LARGE])
def test_a_grouped_spec_passes_emulated(name, compiled):
    of = compiled(name)
    begin = time.process_time()
    results = [run_task(task) for task in tasks(of.plan, of.ptx, (), 1, None)]
    assert [result.records[0]["disposition"] for result in results] == ["passed"] * len(results), results
    assert not any(result.records[0]["details"]["findings"] for result in results)
    assert is_within(time.process_time() - begin, _SECONDS)


def outcome(of, problem, name, sizes):
    """(status of each group, D's rows that were written: bool[batch, rows], D and what it would be: [batch, rows, n])."""
    task = Task(of.plan, of.ptx, problem, "small_int", 1)
    data = operands(of.plan, problem, "small_int", 1)
    data.further[name].view[0, 0] = sizes
    written, reports = multiply(task, data)
    assert not [str(finding) for report in reports for finding in report.findings]
    rows = written.reshape(*data.d.view.shape[:2], -1)
    assert (rows.any(2) == rows.all(2)).all()
    status = data.results["group_status"][0].reshape(-1)
    expected = decode(encode(values(data.a) @ values(data.b).swapaxes(1, 2), of.plan.epilogue.out.word))
    return status.tolist(), rows.any(2), values(data.d), expected


def test_numbers_of_rows_that_are_none_are_reported_and_nothing_is_written(compiled):
    problem = Problem.model_validate({"shape": [48, 144, 80], "groups": [1, 1, 1, 1, 1]})
    sizes = [-1, 49, 48, 0, 3]
    status, rows, d, expected = outcome(compiled(MASKED), problem, "group_m", sizes)
    assert status == [1, 2, 0, 0, 0]
    for group, size in enumerate([0, 0, 48, 0, 3]):
        assert rows[group].tolist() == [True] * size + [False] * (48 - size)
        assert (d[group, :size] == expected[group, :size]).all()


OFFSETS = {
    "one descends": ([0, 70, 60, 200, 250, 250], [0, 1, 3, 0, 0]),
    "before row 0": ([-4, 70, 60, 200, 250, 300], [2, 1, 3, 0, 0]),
    "past the last row": ([0, 70, 200, 400, 250, 304], [0, 0, 2, 1, 0]),
    "far past it": ([0, 2**31 - 1, 200, 220, 250, 304], [2, 1, 0, 0, 0]),
    "not from the first row": ([9, 70, 200, 220, 250, 304], [0, 0, 0, 0, 0]),
    "all the same": ([50] * 6, [0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize("name", OFFSETS)
def test_offsets_that_are_none_are_reported_and_nothing_is_written_twice(name, compiled):
    offsets, reported = OFFSETS[name]
    problem = Problem.model_validate({"shape": [304, 264, 72], "groups": [1, 1, 1, 1, 1]})
    status, rows, d, expected = outcome(compiled(CONTIGUOUS), problem, "group_offsets", offsets)
    assert status == reported
    covered = np.zeros(304, bool)
    for group, (begin, end) in enumerate(pairwise(offsets)):
        if reported[group] == 0:
            covered[begin:end] = True
            assert (d[0, begin:end] == expected[group, begin:end]).all()
    assert (rows[0] == covered).all()


def refusal(of, problem, change):
    """The status and the sentence of a call whose struct is changed."""
    task = Task(of.plan, of.ptx, problem, "small_int", 1)
    data = operands(of.plan, problem, "small_int", 1)
    addresses = dict.fromkeys(data.matrices, 1 << 20)
    arguments = host.multiply_arguments(task, data, change(addresses), Workspace())
    with pytest.raises(HostError) as caught:
        host.launch_of(task, task.run_symbol, [arguments])
    return str(caught.value)


def test_what_the_host_can_know_is_a_status(compiled):
    of = compiled(MASKED)
    problem = Problem.model_validate({"shape": [48, 144, 80], "groups": [1, 1]})
    said = refusal(of, problem, lambda addresses: addresses | {"group_m": 0})
    assert "status 112" in said and "group_m" in said
    assert "status 113" in refusal(of, problem, lambda addresses: addresses | {"group_m": (1 << 20) + 2})
    said = refusal(of, problem, lambda addresses: addresses | {"a": (1 << 20) + 8})
    assert "status 161" in said and "16 bytes" in said


def test_one_of_two_ways_to_give_offsets(compiled):
    of = compiled(CONTIGUOUS)
    problem = Problem.model_validate({"shape": [48, 144, 80], "groups": [1, 1]})
    said = refusal(of, problem, lambda addresses: addresses | {"group_ends": 0})
    assert "status 160" in said and "group_offsets and group_ends are both NULL" in said


def test_the_grid_is_as_large_as_the_sizes_may_need_and_no_size_is_known(compiled):
    of = compiled(MASKED)
    problem = Problem.model_validate({"shape": [48, 144, 80], "groups": [1, 0, 0]})
    task = Task(of.plan, of.ptx, problem, "small_int", 1)
    data = operands(of.plan, problem, "small_int", 1)
    arguments = host.multiply_arguments(task, data, dict.fromkeys(data.matrices, 1 << 20), Workspace())
    # Tiles of 16 rows and 64 columns: 3 x 3 of each of the 3 groups.
    assert host.launch_of(task, task.run_symbol, [arguments]).grid == (27, 1, 1)
    assert host.launch_of(task, task.run_symbol, [arguments], resident=4).grid == (4, 1, 1)


def test_a_k_of_zero_multiplies_c_by_beta(compiled, monkeypatch):
    of = compiled(MASKED)
    problem = Problem.model_validate({"shape": [48, 144, 80], "groups": [5, 0, 40], "beta": 2.0})
    task = Task(of.plan, of.ptx, problem, "small_int", 1)
    data = operands(of.plan, problem, "small_int", 1)
    whole = host.multiply_arguments

    def without_k(task, data, addresses, workspace):
        shorter = problem.model_copy(update={"shape": (48, 144, 0)})
        return whole(replace(task, problem=shorter), data, addresses, workspace)

    monkeypatch.setattr(host, "multiply_arguments", without_k)
    _, reports = multiply(task, data)
    assert not [str(finding) for report in reports for finding in report.findings]
    d, c = values(data.d), values(data.c)
    for group, rows in enumerate((5, 0, 40)):
        assert (d[group, :rows] == 2 * c[group, :rows]).all()
