"""A generated GEMM as nvcc compiles it, executed on the CPU: right and without findings, and its races found once made."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mmagen.spec.model import Problem
from mmagen.verify.emulated.judges import product
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.session import run_task
from mmagen.verify.emulated.task import Task

pytestmark = pytest.mark.nvcc

SPEC = "sm80_gemm_classic"  # tiles of 128 x 128 x 32, rows of 16 bytes or else narrow copies


@pytest.fixture(scope="module")
def task_of(compiled):
    """task_of(M, N, K, KEY=X): a problem of small integers, whose results are exact."""
    made = compiled(SPEC)
    return lambda *shape, **more: Task(made.plan, made.ptx, Problem(shape=shape, **more), "small_int", 1)


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "narrow"])
@pytest.mark.parametrize("shape", [(256, 136, 72), (1, 1, 1), (130, 129, 200)], ids=str)
def test_results_are_exact_and_nothing_is_found(task_of, shape, wide):
    padding = {} if wide else {"ld_pad": 1 + shape[2] % 2}
    (record,) = run_task(task_of(*shape, **padding)).records
    assert (record["disposition"], record["reason"], record["max_abs_err"]) == ("passed", None, 0)
    assert record["details"]["findings"] == []


def test_alpha_beta_and_c(task_of):
    (record,) = run_task(task_of(136, 144, 40, alpha=2.0, beta=-1.0)).records
    assert (record["disposition"], record["reason"], record["max_abs_err"]) == ("passed", None, 0)


def test_shared_memory_is_read_without_bank_conflicts(task_of):
    task = task_of(128, 128, 64)
    _, (report,) = multiply(task, operands(task.plan, task.problem, task.distribution, task.seed))
    loads = [line for line in report.traffic if line.instruction.startswith("ldmatrix")]
    assert loads and all(line.units == line.ideal for line in loads)
    assert {Path(line.file).name for line in loads} == {"mainloop_multistage.cuh"}


def _changed(text: str, pattern: str, replacement: str, number: int) -> str:
    """The PTX with one occurrence of a pattern in its wide kernel replaced."""
    start = text.index("ConfigELb1EEEv", text.index(".visible .entry"))
    place = list(re.finditer(pattern, text[start:]))[number]
    return text[: start + place.start()] + replacement + text[start + place.end() :]


@pytest.mark.parametrize(
    "pattern, replacement, number",
    [
        *(pytest.param(r"bar\.sync\s+0;", "", n, id=f"no barrier {n}") for n in (0, 1, 5, 6, 7)),
        *(pytest.param(r"cp\.async\.wait_group 1;", "cp.async.wait_group 2;", n, id=f"late wait {n}") for n in (0, 1)),
        *(pytest.param(r"cp\.async\.wait_group 1;", "", n, id=f"no wait {n}") for n in (0, 1)),
        *(pytest.param(r"cp\.async\.commit_group;", "", n, id=f"no commit {n}") for n in (0, 1, 2)),
    ],
)
def test_races_are_found(task_of, pattern, replacement, number):
    task = task_of(256, 128, 200)
    text = _changed(task.ptx.text, pattern, replacement, number)
    (record,) = run_task(replace(task, ptx=replace(task.ptx, units={task.ptx.name: text}))).records
    findings = record["details"]["findings"]
    assert {finding["kind"] for finding in findings} & {"shared_race", "cp_async_unwaited"}
    assert all("include/" in finding["file"] and finding["line"] > 0 for finding in findings)


def test_a_defect_outside_of_the_emulator_is_a_failed_record(task_of, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("integer division by zero")

    monkeypatch.setattr(product, "compare", broken)
    result = run_task(task_of(1, 1, 1))
    (record,) = result.records
    assert (record["disposition"], result.exit_code) == ("failed", 4)
    assert "please report it: ZeroDivisionError: integer division by zero (test_gemm_compiled.py:" in record["reason"]
