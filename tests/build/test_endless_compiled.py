"""Loops of generated kernels that never end are reported soon: in their PTX, a branch back is always taken."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest

from mmagen.host_runtime import library as host_library
from mmagen.verify.emulated.host import multiply_steps
from mmagen.verify.emulated.session import run_task, run_tasks, tasks
from tests.support.pace import is_within
from tests.support.ptx_text import places_in

pytestmark = pytest.mark.nvcc

_SECONDS = 20  # of processor time, for the report on one kernel
TURNS, STREAM, CLASSIC = "sm90_gemm_bf16_pingpong", "c2_stream", "sm80_gemm_classic"
# spec, problem, which of the branches back of its kernel for operands that meet all alignment requirements
SOME = [(TURNS, "128x768x576", slice(5, 8, 2)), (STREAM, "64x64x2048", slice(0, 1)), (CLASSIC, "128x144x136", slice(0, 1))]
ALL = [(TURNS, "128x768x576", slice(None)), (STREAM, "16x576x448", slice(None)), (CLASSIC, "129x127x33", slice(None))]


KERNEL = {TURNS: "sm90_kernel", STREAM: "sm90_kernel", CLASSIC: "gemm_kernel"}
# Of kernels of other families every fifth branch back of every translation unit.
FAMILIES = (
    "groups_masked",
    "pointers_pingpong",
    "mx1_s4",
    "sc1_blocks",
    "pc1_x6",
    "sparse_bf16",
    "sm80_gemm_sparse_s8",
    "c3_parts",
)


def _tasks(compiled, spec, problem=""):
    made = compiled(spec)
    return [task for task in tasks(made.plan, made.ptx, (), 1, None) if task.text.startswith(problem)]


def _edited(task, which, unit, kernel=""):
    """The task with each of these branches back taken always, one at a time. unit: the translation unit. kernel: a part of the
    names of the kernels, "" for all of them."""
    text = task.ptx.units[unit]
    labels = {found[1]: found.start() for found in re.finditer(r"^(\$L\w+):", text, re.M)}
    branches = [it for it in places_in(text, kernel, r"@!?%p\d+\s+bra\s+(\$L\w+);") if labels[it[1]] < it.start()]
    assert branches[which]
    for branch in branches[which]:
        edited = f"{text[: branch.start()]}bra {branch[1]};{text[branch.end() :]}"
        yield replace(task, ptx=replace(task.ptx, units={**task.ptx.units, unit: edited}))


@pytest.mark.parametrize(("spec", "problem", "which"), [*SOME, *(pytest.param(*one, marks=pytest.mark.more) for one in ALL)])
def test_a_loop_that_never_ends_is_reported(spec, problem, which, compiled):
    kinds = set()
    for task in _edited(_tasks(compiled, spec, problem)[0], which, spec, KERNEL[spec]):
        begin = time.process_time()
        (record,) = run_task(task).records
        assert is_within(time.process_time() - begin, _SECONDS)
        if record["disposition"] == "passed":
            continue  # no thread comes there
        for finding in record["details"]["findings"]:
            kinds.add(finding["kind"])
            if finding["kind"] == "endless_loop":
                assert re.search(r"the loop at \w+\.cuh:\d+", finding["message"]) and finding["file"].startswith(
                    "include/mmagen/"
                )
    assert "endless_loop" in kinds


@pytest.mark.more
@pytest.mark.parametrize("spec", FAMILIES)
def test_loops_of_other_families(spec, compiled):
    work, kinds = _tasks(compiled, spec), set()
    task = next(one for one in work if one.checks)  # with the functions beside the kernel
    for unit in task.ptx.units:
        for edited in _edited(task, slice(None, None, 5), unit):
            begin = time.process_time()
            (record,) = run_task(edited).records
            assert is_within(time.process_time() - begin, _SECONDS)
            kinds |= {word for word in ("endless_loop", "deadlock") if word in (record["reason"] or "")}
    assert kinds


def test_what_a_right_kernel_needs_is_far_from_the_limit(compiled, monkeypatch):
    monkeypatch.setattr("mmagen.verify.emulated.host.multiply_steps", lambda *given: multiply_steps(*given) // 2)
    for task in (*_tasks(compiled, TURNS), *_tasks(compiled, CLASSIC)):
        if task.distribution == "small_int":
            assert run_task(task).records[0]["disposition"] == "passed"


@pytest.mark.parametrize("jobs", [1, 2])
def test_other_problems_of_a_kernel_that_does_not_end_are_not_run(jobs, compiled):
    text = next(_edited(_tasks(compiled, CLASSIC)[0], slice(0, 1), CLASSIC, KERNEL[CLASSIC])).ptx.units
    work = [replace(task, ptx=replace(task.ptx, units=text)) for task in _tasks(compiled, CLASSIC)]
    progress = []
    results = run_tasks([*work, *work], jobs, lambda done, total, what: progress.append((done, total)))
    assert all(0 <= done <= total for done, total in progress)
    records = [result.records[0] for result in results]
    assert len(records) == 2 * len(work)
    stopped = [record for record in records if record["details"] and record["details"]["endless"]]
    left = [record for record in records if record["disposition"] == "not_run"]
    assert 1 <= len(stopped) <= jobs and left
    assert all("the kernel did not end on " in record["reason"] for record in left)


def test_host_code_that_does_not_return_ends_the_kernel(compiled, monkeypatch, tmp_path):
    runner = tmp_path / "runner"
    runner.write_text("#!/bin/sh\nwhile :; do :; done\n")
    runner.chmod(0o755)
    monkeypatch.setattr(host_library, "_TIMEOUT_S", 0.5)
    work = [
        replace(task, ptx=replace(task.ptx, host=replace(task.ptx.host, runner=runner))) for task in _tasks(compiled, CLASSIC)
    ]
    first, *others = [result.records[0] for result in run_tasks(work, 1, lambda *_: None)]
    assert first["disposition"] == "failed" and "did not return" in first["reason"]
    assert {record["disposition"] for record in others} == {"not_run"}


def test_the_time_limit_holds_for_a_problem(compiled):
    task = replace(_tasks(compiled, CLASSIC)[0], timeout_s=0.001)
    (record,) = run_task(task).records
    assert record["disposition"] in ("failed", "incorrect") and "time_limit" in record["reason"]
