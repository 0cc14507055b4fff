"""What was not run is a record of its own, with the reason, in every report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmagen.build.job import BuildResult
from mmagen.core.errors import UsageError
from mmagen.families import plan
from mmagen.report.formats import table, to_json
from mmagen.report.junit import to_junit
from mmagen.report.results import to_markdown
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.toolchain.model import Gpu
from mmagen.verify.emulated.session import emulated_cases, left_out_by, tasks
from mmagen.verify.emulated.verify import _other_targets, _skipped, parse_problem
from mmagen.verify.omitted import not_reached, unsuitable
from mmagen.verify.problem_text import as_argument, problem_argument
from mmagen.verify.run import RunResult
from mmagen.verify.verdict import exit_code, judge
from tests.support.fake_builds import fake_build, record

SPECS = Path(__file__).resolve().parents[2] / "specs"
WHY = "replaced by small problems in emulation (--on cpu)"


def planned(name: str, **changes):
    text = (SPECS / f"{name}.yaml").read_text()
    text = "\n".join(line for line in text.splitlines() if line.split(":")[0] not in changes)
    text += "".join(f"\n{key}: {value}" for key, value in changes.items()) + "\n"
    return plan(load(text.encode(), f"{name}.yaml").spec)


def reports(verdicts):
    """The table, the JSON lines, the JUnit XML and the page."""
    lines = [json.loads(line) for line in to_json(verdicts).splitlines()]
    return table(verdicts), lines, to_junit(verdicts), to_markdown(verdicts, command="mmagen", date="2026-01-01")


def test_a_skipped_problem_is_in_every_report_and_spoils_nothing(tmp_path):
    build = fake_build(tmp_path, "")
    ran = RunResult("k", "verify", (record(device="cpu-ptx", problem="8x8x8"),), 0)
    verdict = judge(build, ran, skipped=[("4096x4096x4096", WHY), ("8192x8192x8192", WHY)])
    assert verdict.disposition == "passed" and verdict.word == "passed (emulated)" and exit_code([verdict]) == 0
    shown, lines, junit, page = reports([verdict])
    assert [line["disposition"] for line in lines] == ["passed (emulated)", "skipped", "skipped"]
    assert lines[1]["reason"] == WHY and lines[1]["problem"] == "4096x4096x4096" and lines[1]["device"] is None
    assert 'tests="3" failures="0" errors="0" skipped="2"' in junit and f'<skipped message="{WHY}" />' in junit
    for text in (shown, page):
        assert "4096x4096x4096" in text and "8192x8192x8192" in text and text.count(WHY) == 1 and f"2 skipped: {WHY}" in text
    on_gpu = judge(build, replace(ran, records=(record(),)), skipped=[("benchmark", "none")])
    assert on_gpu.word == "passed", "not the longer word of the two"


def test_where_everything_is_skipped_the_exit_code_is_no_success(tmp_path):
    build = fake_build(tmp_path, "")
    nowhere = judge(build, no_gpu="no driver", skipped=[("8,8,8", "no driver")])
    assert exit_code([nowhere]) == 77 and [r["disposition"] for r in nowhere.records] == ["not_run", "skipped"]
    assert exit_code([nowhere, judge(build, RunResult("k", "verify", (record(),), 0))]) == 4


def test_problems_of_the_spec_that_emulation_replaces_are_skipped():
    of = planned("sm80_gemm_classic", problems="[[4096, 4096, 4096], [1, 1, 1], [300, 200, 136, 3]]")
    ptx = SimpleNamespace(error="")
    work = tasks(of, ptx, [], 1, None)
    assert Problem(shape=(1, 1, 1)) in {task.problem for task in work}
    assert _skipped(of, work, None, "--on cpu") == [("4096x4096x4096", WHY), ("300x200x136 b3", WHY)]
    assert _skipped(planned("sm80_gemm_classic"), work, None, "--on cpu") == [], "it names no problems"
    some = tasks(of, ptx, [], 1, None, 64)
    left = _skipped(of, some, 64, "--on cpu")
    assert len({task.problem for task in some}) + len(left) == len({task.problem for task in work}) + 2
    assert all(why == "larger than --max-dim 64" for _, why in left[2:]) and left_out_by(of, None) == []


def test_architectures_that_are_not_emulated_are_skipped():
    of = planned("sm80_gemm_classic", arch="[sm_80, sm_86]")
    ptx = SimpleNamespace(arch="sm_80")
    assert _other_targets(of, ptx, None) == [("for sm_86", "the PTX for sm_80 is emulated; --arch sm_86 emulates this")]
    assert _other_targets(of, ptx, "sm_80") == [] == _other_targets(planned("sm80_gemm_classic"), ptx, None)


@pytest.mark.parametrize(
    ("arch", "has", "fits"),
    [
        (("sm_80",), (8, 0), True),
        (("sm_80",), (9, 0), True),
        (("sm_80",), (7, 5), False),
        (("sm_90a",), (9, 0), True),
        (("sm_90a",), (10, 0), False),
        (("sm_100f",), (10, 3), True),
        (("sm_100f",), (12, 0), False),
        (("sm_90a", "sm_80"), (12, 0), True),
        ((), (7, 5), True),
    ],
)
def test_a_gpu_of_another_architecture_is_named_beside_what_is_needed(arch, has, fits):
    why = unsuitable(BuildResult("k", Path(), True, arch=arch), Gpu("NVIDIA X", has, "580"))
    assert (why == "") is fits
    if not fits:
        needs = " or ".join(arch)
        assert why == f"needs {needs}; this GPU, NVIDIA X, has compute capability {has[0]}.{has[1]} (sm_{has[0]}{has[1]})"


def test_groups_are_in_the_name_of_a_problem_as_programs_print_it():
    listed = Problem.model_validate({"shape": [300, 64, 72], "groups": [70, 0, 129], "batch_stride_b": 0, "beta": 1})
    extents = Problem.model_validate({"shape": [9, 8, 7], "groups": [[9, 8, 7], [0, 8, 7]], "ld_pad": 8})
    drawn = Problem.model_validate({"shape": [64, 8, 8], "groups": {"experts": 9, "tokens": 40}})
    names = [problem_argument(one) for one in (listed, extents, drawn)]
    assert names[:2] == ["300,64,72:beta=1:batch_stride_b=0:groups=70+0+129", "9,8,7:ld_pad=8:groups=9x8x7+0x8x7"]
    assert names[2] == "64,8,8:groups=" + "+".join(map(str, drawn.groups.sizes))
    stopped = RunResult("k", "verify", tuple(record(problem=name) for name in names), -9, reason="it was stopped")
    assert [*not_reached([listed, extents, drawn], stopped, None)] == []


@pytest.mark.parametrize("name", ["sm90_gemm_bf16_grouped", "sm90_gemm_e4m3_masked", "sm90_gemm_bf16_pointers"])
def test_printed_names_of_groups_are_the_problems(name):
    """Also of those whose groups are only counted there."""
    it = planned(name)
    problems = [problem for problem, _ in emulated_cases(it)]
    assert [parse_problem(as_argument(problem.text, [it])) for problem in problems] == problems
    for problem in it.problems:  # some too large to be emulated
        assert as_argument(problem.text, [it]) == problem_argument(problem)
    with pytest.raises(UsageError, match="as it is printed"):
        as_argument("8x8x8 groups=66 of 139 rows", [it])


def test_problems_that_a_program_did_not_reach_are_skipped():
    problems = [
        Problem(shape=(64, 64, 64)),
        Problem(shape=(300, 200, 136), batch=3, alpha=2.0, beta=-0.5),
        Problem(shape=(9, 9, 9)),
    ]
    assert problem_argument(problems[1]) == "300,200,136,3:alpha=2:beta=-0.5"
    stopped = RunResult(
        "k", "verify", (record(problem="64,64,64"),), -9, reason="verify did not end within 5 s and was stopped"
    )
    assert [*not_reached(problems, stopped, 100)] == [
        ("300,200,136,3:alpha=2:beta=-0.5", "larger than --max-dim 100"),
        ("9,9,9", "not reached: verify did not end within 5 s and was stopped"),
    ]
    assert [*not_reached(problems, replace(stopped, reason=""), None)] == [], "a program may name its problems otherwise"
