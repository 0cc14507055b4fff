"""The page of predicted and measured times is of the records and specs that there are."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from tools import predictions

RECORD = {
    "name": "sm80_gemm_classic",
    "spec_sha": "0123456789abcdef",
    "problem": "1000,1000,1000",
    "disposition": "passed",
    "input_dist": "uniform",
    "ms_median": 0.5,
    "registers": 238,
    "spill_bytes": 0,
    "smem_bytes": 49152,
}


def _lines(*changes: dict) -> list[str]:
    return [json.dumps(RECORD | change) for change in changes]


@pytest.fixture(scope="module")
def plans():
    return predictions.plans()


def test_measured_times_are_those_of_kernels_that_passed():
    others = ({"name": "cublasLt_first"}, {"disposition": "incorrect"}, {"input_dist": "small_int"}, {"ms_median": None})
    (time,) = predictions.of_records(_lines({}, *others, {"ms_median": 0.4}), ["sm80_gemm_classic"])
    assert time == predictions.Time("sm80_gemm_classic", "0123456789abcdef", "1000,1000,1000", 400.0, 238, 0, 49152)
    assert predictions.of_records(_lines({}), ["another"]) == []


def test_newer_lines_replace_older_ones_and_the_file_keeps_them():
    old, other = predictions.of_records(_lines({}, {"problem": "64,64,64"}), ["sm80_gemm_classic"])
    new = replace(old, us=3.25)
    merged = predictions.merged([old, other], [new])
    assert merged == [new, other]
    assert sorted(predictions.loaded(predictions.dumped(merged)), key=str) == sorted(merged, key=str)


def test_problems_are_read_as_records_write_them():
    problem = predictions.problem_of("129,257,100,3:ld_pad=3:alpha=2:beta=-1")
    assert (problem.shape, problem.batch, problem.ld_pad, problem.alpha, problem.beta) == ((129, 257, 100), 3, 3, 2.0, -1.0)
    groups = predictions.problem_of("288,272,144:offset=1:groups=70+0+1").groups
    assert groups and groups.sizes == (70, 0, 1)


def test_a_spec_that_has_changed_is_left_out(plans):
    plan = plans["sm80_gemm_classic"]
    times = predictions.of_records(_lines({"spec_sha": plan.spec_sha}), [plan.name])
    (row,) = predictions.rows(times, plans)
    assert (row.name, row.measured, row.by) == (plan.name, 500.0, "estimate") and 5 < row.predicted < 50
    assert row.error == row.predicted / 500 - 1
    (kernel,) = predictions.resources(times, plans)
    assert kernel.smem == (plan.smem_bytes, 49152) and kernel.registers[1] == 238
    changed = plans | {plan.name: replace(plan, spec_sha="another")}
    assert predictions.rows(times, changed) == [] and predictions.resources(times, changed) == []


def test_the_page_is_up_to_date_and_within_its_bounds(capsys):
    assert predictions.main(["--check"]) == 0, capsys.readouterr().out
    text = predictions.PAGE.read_text("utf-8")
    median = re.search(r"\| all \| (\d+) \| ([\d.]+)%", text)
    planned, of = map(int, re.search(r"as planned for (\d+) of (\d+)", text).groups())
    within, clean = map(int, re.search(r"within 10 % for (\d+) of (\d+)", text).groups())
    assert int(median[1]) > 100 and float(median[2]) <= 10 and planned == of > 20 and within == clean > 20
