"""A compiled kernel with scales passes emulated, and what it makes of other scales than the reference's is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmagen.spec.model import Problem
from mmagen.verify.emulated.session import run_task, tasks
from tests.support.compiled import change_calls, changed

pytestmark = pytest.mark.nvcc

BLOCKS = "sc1_blocks"
# Two tiles of rows and five of columns, which begin in the middle of a block; the last of 4 blocks of K is not whole.
PROBLEM = Problem(shape=(200, 450, 440), batch=2, ld_pad=8, beta=1.0)
_FLOAT = 4


@pytest.fixture(scope="module")
def work(compiled):
    """The tasks that verify would run."""
    return tasks(compiled(BLOCKS).plan, compiled(BLOCKS).ptx, (), 1, None)


def _of(task, distribution):
    return replace(task, problem=PROBLEM, distribution=distribution)


def test_it_passes_emulated(work):
    for task in [*work, _of(work[0], "uniform"), _of(work[0], "small_int")]:
        (record,) = run_task(task).records
        assert record["disposition"] == "passed" and not record["details"]["findings"], record["reason"]


# What a kernel that looks up its scales in another place would read, as another call: member -> its value for a right one.
WRONG = {
    "the row behind": {"scale_a": lambda of: of["scale_a"] + _FLOAT},
    "the block of K behind, of A": {"scale_a": lambda of: of["scale_a"] + _FLOAT * of["ld_scale_a"]},
    "the block of K behind, of B": {"scale_b": lambda of: of["scale_b"] + _FLOAT},
    "the block of columns behind": {"scale_b": lambda of: of["scale_b"] + _FLOAT * of["ld_scale_b"]},
    "A's scales for B": {"scale_b": lambda of: of["scale_a"], "ld_scale_b": lambda of: of["ld_scale_a"]},
    "B's scales for A": {"scale_a": lambda of: of["scale_b"], "ld_scale_a": lambda of: of["ld_scale_b"]},
    "another pitch of A": {"ld_scale_a": lambda of: of["ld_scale_a"] - 1},
    "another pitch of B": {"ld_scale_b": lambda of: of["ld_scale_b"] + 1},
    "the first matrix's scales of A": {"batch_stride_scale_a": lambda of: 0},
    "the first matrix's scales of B": {"batch_stride_scale_b": lambda of: 0},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("distribution", ["uniform", pytest.param("small_int", marks=pytest.mark.more)])
def test_scales_of_another_place_are_seen(wrong, distribution, work, monkeypatch):
    change_calls(WRONG[wrong], monkeypatch)
    (record,) = run_task(_of(work[0], distribution)).records
    assert record["disposition"] in ("incorrect", "failed"), record  # failed: what is no scale of this operand was read


# pattern in the PTX, what is in its place, the kind of finding
RACES = {
    "scales count as copied when they are asked for": (
        r"cp\.async\.mbarrier\.arrive\.noinc\.shared::cta\.b64 (\[[^]]*\]);",
        r"mbarrier.arrive.shared::cta.b64 _, \1;",
        "cp_async_unwaited",
    ),
    "no wait for the grid before": (r"griddepcontrol\.wait;", "", "grid_dependency"),
}


@pytest.mark.parametrize("race", RACES)
def test_a_race_for_scales_is_seen(race, work):
    pattern, instead, kind = RACES[race]
    task = _of(work[0], "small_int")
    (record,) = run_task(replace(task, ptx=changed(task.ptx, pattern, instead))).records
    kinds = {finding["kind"] for finding in record["details"]["findings"]}
    assert record["disposition"] in ("failed", "incorrect") and kind in kinds, record["reason"]
