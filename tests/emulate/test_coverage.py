"""What a launch reports of its branches and loops."""

from __future__ import annotations

import pytest

from mmagen.emulate import Goal
from mmagen.report.coverage import kernel_name, missed_by_all
from tests.support.ptx import run

STORE = "st.global.u32 [%rd4], %r1; st.global.u32 [%rd4+4], %r1;"
BRANCH = f"setp.lt.u32 %p1, %r1, {{bound}}; @%p1 bra OVER; mov.u32 %r2, 0; OVER: {STORE}"
LOOP = """
mov.u32 %r2, 0;
LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, {count}; @%p1 bra LOOP;
st.global.u32 [%rd4], %r1; st.global.u32 [%rd4+4], %r1;
"""


def missed(body, **options):
    _, report = run(body, **options)
    assert report.completed and not report.findings
    return sorted(goal.what for goal in report.coverage.missed), report.coverage


@pytest.mark.parametrize(("bound", "what"), [(0, ["taken"]), (32, ["not taken"]), (7, [])])
def test_both_ways_of_a_branch(bound, what):
    found, coverage = missed(BRANCH.format(bound=bound))
    assert found == what and len(coverage.goals) == 2 and coverage.reached == 2 - len(what)


@pytest.mark.parametrize(("count", "what"), [("1", ["again"]), ("3", ["once"]), ("%r1", [])])
def test_one_and_several_iterations_of_a_loop(count, what):
    assert missed(LOOP.format(count=count))[0] == what


def test_one_iteration_after_several_and_in_another_cta():
    """Threads come to the loop a second time, or in CTAs that run later; each visit counts for itself."""
    outer = f"mov.u32 %r3, 0; OUTER: sub.u32 %r4, 2, %r3; {LOOP.format(count='%r4')} add.u32 %r3, %r3, 1;"
    assert missed(f"{outer} setp.lt.u32 %p2, %r3, 2; @%p2 bra OUTER;")[0] == ["once"]  # of the outer loop alone
    by_cta = "mov.u32 %r4, %ctaid.x; add.u32 %r4, %r4, 2; " + LOOP.format(count="%r4").replace(
        "st.global", "ld.global"
    ).replace("[%rd4], %r1", "%r5, [%rd3]").replace("[%rd4+4], %r1", "%r6, [%rd3]")
    assert missed(by_cta, grid=3, lanes=32)[0] == ["once"]


def test_loops_that_wait_are_not_asked_for():
    body = "mov.u32 %r2, 1; st.global.u32 [%rd4], %r2; st.global.u32 [%rd4+4], %r2; bar.sync 0;"
    _, coverage = missed(f"{body} LOOK: ld.volatile.global.u32 %r3, [%rd4]; setp.ne.u32 %p1, %r3, 1; @%p1 bra LOOK;")
    assert coverage.goals == ()


def test_lines_of_the_source():
    _, coverage = missed('.file 1 "a/it.cuh"\n.loc 1 12 3\n' + BRANCH.format(bound=32))
    (goal,) = coverage.missed
    assert isinstance(goal, Goal) and (goal.file, goal.line, goal.what) == ("a/it.cuh", 12, "not taken")


def test_what_no_problem_reaches():
    goals = [{"ptx_line": line, "what": what, "file": "a.cuh", "line": 3} for line in (5, 9) for what in ("taken", "not taken")]
    of = [{"entry": "k", "goals": 4, "missed": some} for some in (goals[:3], goals[1:])]
    assert missed_by_all(of) == goals[1:3]


def test_names_of_kernels():
    assert kernel_name("_ZN6mmagen4v0_111gemm_kernelIN2it6ConfigELb1ELb0EEEvNS0_6ParamsE") == "gemm_kernel<true, false>"
    assert kernel_name("_ZN6mmagen4v0_121sm90_unaligned_kernelIN2it6ConfigEEEvNT_1PE") == "sm90_unaligned_kernel"
    assert kernel_name("plain") == "plain"
