"""A compiled kernel with weights of few bits passes emulated, what it makes of other weights, scales and zero points than the
reference's is seen, and what it cannot compute is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmagen.spec.model import Problem
from mmagen.verify.emulated.session import run_task, tasks
from tests.support.compiled import change_calls, changed

pytestmark = pytest.mark.nvcc

U4 = "mx2_u4"
# Several tiles, and groups, bytes and k tiles that are not whole.
PROBLEM = Problem(shape=(21, 100, 293), batch=2, ld_pad=3, beta=1.0)


@pytest.fixture(scope="module")
def work(compiled):
    """The tasks that verify would run."""
    return tasks(compiled(U4).plan, compiled(U4).ptx, (), 1, None)


def _of(task, distribution):
    return replace(task, problem=PROBLEM, distribution=distribution)


def test_it_passes_emulated(work):
    for task in [_of(work[0], "uniform"), _of(work[0], "small_int")]:
        (record,) = run_task(task).records
        assert record["disposition"] == "passed" and not record["details"]["findings"], record["reason"]


@pytest.mark.more
def test_what_verify_runs_passes_emulated(work):
    for task in work:
        (record,) = run_task(task).records
        assert record["disposition"] == "passed" and not record["details"]["findings"], record["reason"]


# What a kernel that looks in another place would read, as another call: member -> its value for a right one.
WRONG = {
    "the row of weights behind": {"b": lambda of: of["b"] + of["ldb"]},
    "the row of scales behind": {"scale_b": lambda of: of["scale_b"] + 4 * of["ld_scale_b"]},
    "the group behind, of scales": {"scale_b": lambda of: of["scale_b"] + 4},
    "the row of zero points behind": {"zero_b": lambda of: of["zero_b"] + of["ld_zero_b"]},
    "the group behind, of zero points": {"zero_b": lambda of: of["zero_b"] + 1},
    "another pitch of scales": {"ld_scale_b": lambda of: of["ld_scale_b"] - 1},
    "another pitch of zero points": {"ld_zero_b": lambda of: of["ld_zero_b"] - 1},
    "the first matrix's weights": {"batch_stride_b": lambda of: 0},
    "the first matrix's scales": {"batch_stride_scale_b": lambda of: 0},
    "the first matrix's zero points": {"batch_stride_zero_b": lambda of: 0},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("distribution", ["uniform", pytest.param("small_int", marks=pytest.mark.more)])
def test_what_lies_in_another_place_is_seen(wrong, distribution, work, monkeypatch):
    change_calls(WRONG[wrong], monkeypatch)
    (record,) = run_task(_of(work[0], distribution)).records
    assert record["disposition"] in ("incorrect", "failed"), record  # failed: what is none of the operand was read


# A call and the sentence with which it is refused.
REFUSED = {
    "no scales": ({"scale_b": lambda of: 0}, "status 112, scale_b is NULL"),
    "no zero points": ({"zero_b": lambda of: 0}, "status 112, zero_b is NULL"),
    "misaligned scales": ({"scale_b": lambda of: of["scale_b"] + 2}, "not aligned to 4 bytes"),
    "short scales": ({"ld_scale_b": lambda of: 9}, "ld_scale_b is 9; a line of scale_b has 10 elements"),
    "short weights": ({"ldb": lambda of: 146}, "ldb is 146; a line of B along K has 147 elements"),
    "weights between vectors": ({"b": lambda of: of["b"] + 8}, "status 145, b is 0x"),
    "rows between vectors": ({"ldb": lambda of: of["ldb"] + 1}, "lines of B begin at multiples of 16 bytes"),
    "activations between vectors": ({"a": lambda of: of["a"] + 2}, "status 144, a is 0x"),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_it_cannot_compute_is_refused(call, work, monkeypatch):
    changes, sentence = REFUSED[call]
    change_calls(changes, monkeypatch)
    (record,) = run_task(_of(work[0], "uniform")).records
    assert record["disposition"] == "failed" and sentence in record["reason"], record["reason"]


# pattern in the PTX, what is in its place, the kind of finding
RACES = {
    "sums are added while wgmma makes them": (r"wgmma\.wait_group\.sync\.aligned[^;]*;", "", "wgmma_order"),
    "no fence before fragments are read": (r"wgmma\.fence\.sync\.aligned;", "", "wgmma_order"),
}


@pytest.mark.parametrize("race", RACES)
def test_a_race_for_fragments_is_seen(race, work):
    pattern, instead, kind = RACES[race]
    task = _of(work[0], "small_int")
    (record,) = run_task(replace(task, ptx=changed(task.ptx, pattern, instead))).records
    kinds = {finding["kind"] for finding in record["details"]["findings"]}
    assert record["disposition"] in ("failed", "incorrect") and kind in kinds, record["reason"]
