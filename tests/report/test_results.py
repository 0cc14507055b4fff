"""The page to commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmagen.report.results import to_markdown
from mmagen.verify.run import RunResult
from mmagen.verify.verdict import judge
from tests.support.fake_builds import fake_build, record


@pytest.fixture
def build(tmp_path):
    return fake_build(tmp_path, "")


def page(*verdicts):
    return to_markdown(verdicts, command="mmagen verify k.yaml", date="2026-01-02").splitlines()


def test_a_page_says_what_it_ran_on_and_what_made_it(build):
    one = record(cuda="13.0.88", ms_median=1.5, layout="TN", types="f16")
    lines = page(judge(build, RunResult("k", "verify", (one,), 0)))
    assert lines[:5] == [
        "# Results",
        "",
        "Fake GPU · CUDA 13.0.88. 2026-01-02. 1 passed.",
        "",
        "Made by `mmagen verify k.yaml`.",
    ]
    assert "## k: passed" in lines and "TN · f16" in lines
    head, _, row = (line.split("|")[1:-1] for line in lines[-3:])
    assert dict(zip((h.strip() for h in head), (cell.strip() for cell in row), strict=True)) == {
        "problem": "64x64x32",
        "verdict": "passed",
        "max error": "0",
        "bound": "1.00e-03",
        "ms": "1.5000",
    }


def test_a_project_that_could_not_run_has_its_reason(build):
    lines = page(
        judge(replace(build, ok=False, ptxas=(), reason="it does not compile: x")), judge(build, no_gpu="no NVIDIA GPU found")
    )
    assert "## k: build failed" in lines and "it does not compile: x" in lines and "no NVIDIA GPU found" in lines
    assert "spec abc · registers 128 · spill bytes 12" in lines


def test_rivals_stand_under_their_names_and_first_of_all_how_the_kernel_does(build):
    rows = [
        record(name=name, problem="8,8,8", tflops=tflops, max_abs_err=None if name != "k" else 0.0)
        for name, tflops in (("k", 90.0), ("cublasLt_first", 80.0), ("cublasLt_best8", 100.0))
    ]
    lines = page(judge(build, RunResult("k", "verify", (record(),), 0), RunResult("k", "bench", tuple(rows), 0)))
    assert lines.index("## Beside cuBLASLt") < lines.index("## k: passed")
    assert any("cublasLt_best8" in line and "100.0" in line for line in lines) and "| 0.900" in "\n".join(lines)


def test_sparse_kernels_stand_beside_cusparselt(build):
    rows = [
        record(name=name, problem="8,8,8", tflops=tflops, max_abs_err=None if name != "k" else 0.0)
        for name, tflops in (("k", 110.0), ("cusparseLt_default", 80.0), ("cusparseLt_best", 100.0))
    ]
    lines = page(judge(build, RunResult("k", "verify", (record(),), 0), RunResult("k", "bench", tuple(rows), 0)))
    assert "## Beside cuSPARSELt" in lines and "## Beside cuBLASLt" not in lines
    (head, _, mean) = next(lines[n : n + 3] for n, line in enumerate(lines) if "mean of best of its search" in line)
    assert "1.100" in mean and "mean of default" in head


def test_a_number_that_json_cannot_hold_is_told_as_it_is(build):
    one = record(disposition="incorrect", max_abs_err="inf", bound=float("nan"))
    lines = page(judge(build, RunResult("k", "verify", (one,), 1)))
    assert "inf" in lines[-1] and "nan" in lines[-1]
