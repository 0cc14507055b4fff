"""Kernels that never end are stopped soon, with the loop and who waits for what; slow ones and those that wait are not."""

from __future__ import annotations

import time

import numpy as np
import pytest

from mmagen.emulate import STEP_LIMIT
from tests.emulate import test_pipeline
from tests.support.pace import is_within
from tests.support.ptx import kinds, run
from tests.support.ptx_hopper import run as run_hopper
from tests.support.ptx_hopper import text as hopper

_SECONDS = 20  # of processor time

COUNT = "mov.u32 %r2, {start}; LOOP: {work} add.s32 %r2, %r2, {step}; setp.{test}.u32 %p1, %r2, {end}; @%p1 bra LOOP;"


def loop(start="0", work="", step="1", test="ne", end="0"):
    return COUNT.format(start=start, work=work, step=step, test=test, end=end)


def flag(read, poll="LOOK", before=""):
    """Thread 0 waits for the word at %rd2 to be 1; the reading instruction is `read`, its result %r3."""
    return f"setp.ne.u32 %p2, %r1, 0; {before} @%p2 bra OVER; {poll}: {read} setp.ne.u32 %p1, %r3, 1; @%p1 bra {poll}; OVER:"


TWO_LOOPS = """
mov.u32 %r2, 0; setp.lt.u32 %p2, %r1, 64; @%p2 bra PING;
PONG: bar.sync 1, 128; add.u32 %r2, %r2, 1; bar.sync 2, 128; bra PONG;
PING: bar.sync 1, 128; bar.sync 2, 128; bra PING;
"""
# A tile scheduler whose counter is not advanced: every tile is the first.
TILES = """
mov.u32 %r2, 0; st.global.u32 [%rd2], %r2;
NEXT: atom.global.add.u32 %r2, [%rd2], 0; setp.ge.u32 %p1, %r2, 8; @%p1 bra DONE;
mul.lo.u32 %r3, %r2, 5; st.global.u32 [%rd4+4], %r3; bra NEXT; DONE:
"""
NEVER_SET = "ld.global.u32 %r3, [%rd2];"
ENDLESS = {
    "a counter that no step changes": (loop(step="0", test="lt", end="9"), {}, ""),
    "an unsigned counter below zero": (loop(start="7", step="-2"), {"threads": 256, "grid": 3}, ""),
    "a counter that steps over its end": (loop(step="2", end="9"), {}, ""),
    "one thread of many": (f"setp.ne.u32 %p2, %r1, 77; @%p2 bra OVER; {loop(step='0', end='9')} OVER:", {"threads": 96}, ""),
    "a flag that is read as data": (flag(NEVER_SET), {}, ""),
    "a lock that nobody opens": (flag("atom.global.cas.b32 %r3, [%rd2], 7, 8;"), {}, "use an atomic operation"),
    "two loops that wait for each other": (TWO_LOOPS, {"threads": 128}, "wait at a barrier"),
    "a tile scheduler that stays where it is": (TILES, {}, "use an atomic operation"),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_a_kernel_that_never_ends_is_stopped(what):
    body, options, waits = ENDLESS[what]
    begin = time.process_time()
    _, report = run(body, out_bytes=2400, step_limit=STEP_LIMIT // 20, **options)
    assert is_within(time.process_time() - begin, _SECONDS / 20 * 4)
    assert report.stopped and not report.completed
    (found,) = [finding for finding in report.findings if finding.kind == "endless_loop"]
    assert "not leave the loop at k.ptx:" in found.message and waits in found.message
    assert found.thread == (77 if "one thread" in what else found.thread)


@pytest.mark.alone
def test_the_usual_limit_is_reached_in_time():
    begin = time.process_time()
    _, report = run(loop(), threads=1024, grid=4, out_bytes=8192)
    assert report.stopped and is_within(time.process_time() - begin, _SECONDS)


def test_a_flag_that_nobody_sets_is_a_deadlock_at_once():
    _, report = run(flag("ld.volatile.global.u32 %r3, [%rd1];"), data=np.zeros(32, np.uint64))
    assert "deadlock" in kinds(report) and not report.completed and report.steps < 1000


def test_a_loop_that_ends_late_is_no_finding():
    _, report = run(loop(end="50000"), threads=64, out_bytes=512)
    assert report.completed and not report.findings


@pytest.mark.parametrize("read", ["atom.global.or.b32 %r3, [%rd2], 0;", "ld.global.u32 %r3, [%rd2];"])
def test_a_thread_that_waits_lets_the_others_run(read):
    """The loop that waits comes first in the text: its threads alone would run, if they did not take turns."""
    give = f"GIVE: {loop(end='300')} mov.u32 %r4, 1; st.global.u32 [%rd2], %r4;"
    look = f"LOOK: {read} setp.ne.u32 %p1, %r3, 1; @%p1 bra LOOK; bra OVER;"
    body = (
        f"mov.u32 %r4, 0; st.global.u32 [%rd2], %r4; bar.sync 0; setp.ge.u32 %p2, %r1, 32; @%p2 bra GIVE; {look} {give} OVER:"
    )
    _, report = run(body, threads=64, step_limit=6000, checks=False)
    assert report.completed and not report.stopped


def test_lines_of_the_source_are_named():
    body = '.file 1 "include/it.cuh"\n.loc 1 12 3\nmov.u32 %r2, 0;\nLOOP:\n.loc 1 14 3\nadd.u32 %r2, %r2, 1;\n'
    body += (
        ".loc 1 15 3\nadd.u32 %r2, %r2, 1;\n.loc 1 40 3\nsetp.ne.u32 %p1, %r2, 9;\n.loc 1 13 3\n@%p1 bra LOOP;\n.loc 1 50 1\n"
    )
    _, report = run(body, step_limit=1000)
    (found,) = report.findings
    assert (found.file, found.line) == ("include/it.cuh", 13)
    assert "thread 0 of CTA 0 and 31 other threads do not leave the loop at it.cuh:13-15, it.cuh:40 within" in found.message


def test_the_time_limit_stops_a_kernel():
    begin = time.monotonic()
    _, report = run(loop(), step_limit=10**9, timeout_s=0.2)
    assert 0.2 <= time.monotonic() - begin < 60  # of a loop that would take hours
    (found,) = report.findings
    assert found.kind == "time_limit" and "0.2 s" in found.message and report.stopped


# --- mbarriers ---------------------------------------------------------------------------------------------------------

PHASE = """
    mov.u32 %bar, %base;
    @!%lead bra READY;
    mbarrier.init.shared::cta.b64 [%bar], 2;
READY:
    bar.sync 0;
    @!%lead bra LOOK;
    mbarrier.arrive.shared::cta.b64 _, [%bar];
LOOK:
    mbarrier.{wait}.parity.shared::cta.b64 %q, [%bar], 0;
    @!%q bra LOOK;
"""


@pytest.mark.parametrize(("wait", "kind"), [("try_wait", "deadlock"), ("test_wait", "endless_loop")])
def test_a_phase_that_never_completes(wait, kind):
    _, report = run_hopper(hopper(PHASE.format(wait=wait)), np.zeros(4, np.uint32), 4)
    assert kind in kinds(report) and not report.completed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("xor.b32 %r17, %r12, 1;", "xor.b32 %r17, %r12, 0;"),  # the producer's parity
        (f"setp.lt.u32 %p, %r10, {test_pipeline.K_TILES};", "setp.ne.u32 %p, %r10, -1;"),  # neither side ends
        ("    @!%q bra FULL;", "    bra FULL;"),
    ],
)
def test_a_pipeline_that_never_ends(old, new):
    begin = time.process_time()
    _, report = test_pipeline.outcome((old, new))
    assert {"deadlock", "endless_loop"} & kinds(report) and not report.completed
    assert is_within(time.process_time() - begin, _SECONDS)
