"""The table, JSON lines, CSV and JUnit XML of the same verdicts."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from mmagen.report.formats import build_failures, table, to_csv, to_json
from mmagen.verify.run import RECORD_FIELDS, RunResult
from mmagen.verify.verdict import EMULATED, judge
from tests.support.fake_builds import fake_build, record


@pytest.fixture
def verdicts(tmp_path):
    build = fake_build(tmp_path, "")
    broken = replace(build, name="b", ok=False, reason="no", errors=("src/b.cu(1): error: x",), ptxas=())
    runs = RunResult(
        "k",
        "verify",
        (
            record(
                ms_median=1.5,
                tflops=623.25,
                bound=2e-3,
                input_dist="normal",
                layout="TN (A: K contiguous)",
                types="f16 x f16 -> f32",
            ),
            record(problem=[1, 2, 3, 4], disposition="incorrect", max_abs_err=float("inf"), reason='a "b", <c>\x00'),
            record(problem="9x9x9", disposition="not_supported", reason="K % 8"),
        ),
        1,
        "",
        "",
        1.0,
    )
    return [judge(build, runs), judge(broken), judge(replace(build, name="g"), no_gpu="no NVIDIA GPU found")]


def test_table(verdicts):
    text = table(verdicts)
    lines = text.splitlines()
    assert "TFLOPS" in lines[0] and "623.2" in lines[2] and "64x64x32" in lines[2] and "2048" in lines[2]
    assert "TN  " in lines[2] and "contiguous" not in lines[2] and "TN (A: K contiguous)" in lines
    assert any("1x2x3x4" in line and "incorrect" in line for line in lines)
    assert "b: no" in lines and "k 9x9x9: K % 8" in lines and "g: no NVIDIA GPU found" in lines
    assert "1 incorrect, 1 build failed, 1 not run" in lines
    assert "Fake GPU" in lines[-1] and "CUDA 13.0.88" in lines[-1]
    assert build_failures(verdicts) == "b: src/b.cu(1): error: x"


def test_table_of_compiled_projects_is_narrow(tmp_path):
    text = table([judge(fake_build(tmp_path, "", warnings=("src/k.cu(1): warning: w",)), compile_only=True)])
    assert "compiled" in text and "TFLOPS" not in text and "1 compiled" in text and "as asked" not in text
    assert "1 compiler warning: src/k.cu(1): warning: w" in text
    assert "nothing to report" in table([])


def test_numbers_are_aligned_right_and_words_left(tmp_path):
    runs = RunResult("k", "verify", (record(ms_median=123.5), record(ms_median=1.25, problem="9x9x9")), 0)
    head, _, first, second = table([judge(fake_build(tmp_path, ""), runs)]).splitlines()[:4]
    assert head.index("ms") + 2 == first.index("123.5000") + 8 == second.index("1.2500") + 6
    assert head.index("problem") == first.index("64x64x32") == second.index("9x9x9")


def test_what_was_only_emulated_says_so_everywhere(tmp_path):
    verdicts = [judge(fake_build(tmp_path, ""), RunResult("k", "verify", (record(device=EMULATED),), 0))]
    assert "  passed (emulated)" in table(verdicts) and "1 passed (emulated)" in table(verdicts)
    assert json.loads(to_json(verdicts))["disposition"] == "passed (emulated)"
    assert ",passed (emulated)," in to_csv(verdicts)


def test_json_lines_are_valid_json_in_order(verdicts):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    objects = [json.loads(line, parse_constant=refuse) for line in to_json(verdicts).splitlines()]
    assert [tuple(o) for o in objects] == [RECORD_FIELDS] * 5
    assert objects[1]["max_abs_err"] == "inf" and objects[0]["problem"] == [64, 64, 32]
    assert [o["disposition"] for o in objects] == ["passed", "incorrect", "not_supported", "failed", "not_run"]


def test_csv_has_the_same_fields_but_for_details(verdicts):
    rows = list(csv.reader(io.StringIO(to_csv(verdicts))))
    assert (*rows[0], "details") == RECORD_FIELDS and len(rows) == 6
    assert dict(zip(rows[0], rows[1], strict=True))["problem"] == "64x64x32"
    assert dict(zip(rows[0], rows[1], strict=True))["ratio"] == ""
