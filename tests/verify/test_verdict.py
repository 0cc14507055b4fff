"""From builds and runs to verdicts and one exit code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmagen.verify.run import RECORD_FIELDS, RunResult
from mmagen.verify.verdict import exit_code, judge
from tests.support.fake_builds import fake_build, record


@pytest.fixture
def build(tmp_path):
    return fake_build(tmp_path, "")


@pytest.fixture
def broken(build):
    return replace(build, ok=False, reason="it does not compile: x", errors=("x",), ptxas=(), programs={})


def _ran(*records, code=0, reason="", stderr=""):
    return RunResult("k", "verify", records, code, "", stderr, 1.0, reason)


@pytest.mark.parametrize(
    ("run", "disposition", "reported"),
    [
        (_ran(record()), "passed", ""),
        (_ran(record(), record(disposition="incorrect", reason="row 3"), code=1), "incorrect", "row 3"),
        (_ran(record(disposition="failed", reason="launch"), record(), code=4, reason="exit 4"), "failed", "launch"),
        (_ran(), "failed", "exit code 0 and reported no result"),
        (_ran(code=1), "failed", "reported no result"),
        (_ran(code=77, stderr="needs sm_90a\n"), "not_run", "needs sm_90a"),
        (_ran(record(disposition="not_supported", reason="needs sm_90a"), code=77), "not_supported", "needs sm_90a"),
        (_ran(record(), code=77), "failed", "exit code 77 but reports passed"),
        (_ran(record(), code=1), "failed", "exit code 1 but reports passed"),
        (_ran(record(), code=4, stderr="oh\n"), "failed", "exit code 4 but reports passed: oh"),
        (_ran(record(disposition="failed", reason="launch"), code=4), "failed", "launch"),
        (_ran(record(), record(name="cublasLt_first", max_abs_err=None)), "passed", ""),
        (_ran(record(name="cublasLt_first")), "failed", "no result for k"),
        (_ran(record(disposition="incorrect"), code=0), "incorrect", "incorrect"),
        (_ran(record(disposition="failed"), code=0), "failed", "failed"),
        (_ran(record(), reason="died of SIGSEGV", code=-11), "failed", "died of SIGSEGV"),
        (_ran(record(max_abs_err=float("nan"))), "failed", "max_abs_err nan"),
        (_ran(record(max_abs_err=None)), "failed", "max_abs_err None"),
        (_ran(record(), record(disposition="not_supported", reason="K % 8")), "not_supported", "K % 8"),
    ],
)
def test_dispositions(build, run, disposition, reported):
    verdict = judge(build, run)
    assert verdict.disposition == disposition
    assert reported in verdict.reason and bool(verdict.reason) == (disposition != "passed")
    assert verdict.records and all(tuple(r) == RECORD_FIELDS for r in verdict.records)


def test_a_contradiction_is_recorded_besides_what_was_said(build):
    verdict = judge(build, _ran(record(disposition="incorrect"), code=0))
    assert [r["disposition"] for r in verdict.records] == ["incorrect", "failed"]
    assert "exit code 0 but reports incorrect" in verdict.records[1]["reason"]


def test_several_runs_are_one_verdict(build):
    verdict = judge(build, _ran(record()), _ran(record(), reason="memcheck found errors", code=99))
    assert verdict.disposition == "failed" and len(verdict.records) == 3 and verdict.seconds == 4.0
    assert judge(replace(build, cached=True), _ran(record())).seconds == 1.0


def test_compile_only_says_compiled(build, broken):
    verdict = judge(build, compile_only=True)
    assert (verdict.disposition, verdict.word, verdict.reason) == ("not_run", "compiled", "")
    assert (verdict.records[0]["registers"], verdict.records[0]["spill_bytes"]) == (128, 12), "of the worst kernel for each"
    assert exit_code([verdict]) == 0
    failed = judge(broken, compile_only=True)
    assert (failed.disposition, failed.word) == ("failed", "build failed") and exit_code([verdict, failed]) == 3


def test_exit_codes_by_precedence(build, broken):
    passed = judge(build, _ran(record()))
    wrong = judge(build, _ran(record(disposition="incorrect"), code=1))
    crashed = judge(build, _ran(reason="died", code=-11))
    unbuilt = judge(broken)
    no_gpu = judge(build, no_gpu="no NVIDIA GPU found")
    unsuitable = judge(build, _ran(code=77))
    refused = judge(build, _ran(record(), record(disposition="not_supported", reason="K % 8"), code=77))
    faulty = judge(build, _ran(record(disposition="failed", reason="launch"), code=77))
    expected = [
        ([faulty], 4),
        ([faulty, no_gpu], 4),
        ([passed, passed], 0),
        ([passed, wrong, unbuilt, crashed], 1),
        ([passed, unbuilt, crashed], 3),
        ([passed, crashed, no_gpu], 4),
        ([no_gpu, unsuitable], 77),
        ([passed, unsuitable], 4),
        ([refused], 4),
        ([judge(build)], 4),
        ([], 4),
    ]
    assert [exit_code(verdicts) for verdicts, _ in expected] == [code for _, code in expected]
