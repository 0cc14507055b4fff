"""CTAs of a launch that tell each other by flags in global memory: releases, acquires, and loops that wait."""

from __future__ import annotations

import numpy as np
import pytest
from hopper_ptx import run, text

# The second CTA writes 128 words, and the first one reads them; the flag is word 256 of the output.
BODY = """
    mul.wide.u32 %rd1, %tid, 4;
    add.u64 %rd1, %out, %rd1;
    mov.u32 %r1, %ctaid.x;
    setp.ne.u32 %p, %r1, {reader};
    @%p bra GIVE;
    @!%lead bra THERE;
LOOK:
    ld.acquire.gpu.global.u32 %r2, [%out+1024];
    setp.eq.u32 %p, %r2, 0;
    @%p bra LOOK;
    mov.u32 %r3, 0;
    st.global.u32 [%out+1024], %r3;
THERE:
    bar.sync 1, 128; //told
    ld.global.u32 %r0, [%rd1];
    st.global.u32 [%rd1+512], %r0;
    bra END;
GIVE:
    add.u32 %r0, %tid, 7;
    st.global.u32 [%rd1], %r0;
    bar.sync 1, 128; //tell
    mov.u32 %r3, 1;
    @%lead st.release.gpu.global.u32 [%out+1024], %r3;
END:
"""


def outcome(*edits, reader=0):
    body = BODY.format(reader=reader)
    for old, new in edits:
        assert old in body, old
        body = body.replace(old, new)
    got, report = run(text(body), np.zeros(4, np.uint32), 1028, grid=2, filled=True)
    return got.view(np.uint32)[128:256], report


@pytest.mark.parametrize("reader", [0, 1])
def test_what_a_flag_tells_is_there(reader):
    got, report = outcome(reader=reader)
    assert (got == np.arange(128) + 7).all() and report.completed and not report.findings


def test_a_fence_and_relaxed_accesses_do_as_well():
    got, report = outcome(("    @%lead st.release.gpu", "    fence.acq_rel.gpu;\n    @%lead st.relaxed.gpu"),
                          ("ld.acquire", "ld.relaxed"), ("    mov.u32 %r3, 0;\n", "    fence.acq_rel.gpu;\n    mov.u32 %r3, 0;\n"))
    assert (got == np.arange(128) + 7).all() and not report.findings


@pytest.mark.parametrize("edit", [("bar.sync 1, 128; //tell", ""), ("st.release", "st.relaxed"), ("ld.acquire", "ld.relaxed")],
                         ids=["tell", "release", "acquire"])
def test_what_is_missing_is_a_race(edit):
    assert "global_race" in {f.kind for f in outcome(edit)[1].findings}


@pytest.mark.parametrize("reader", [0, 1])
def test_the_others_must_be_told_by_who_read_the_flag(reader):
    """Whether they read too early or what they may not rely on: one of both shows."""
    got, report = outcome(("bar.sync 1, 128; //told", ""), reader=reader)
    assert (got != np.arange(128) + 7).any() or [f for f in report.findings if f.kind == "global_race"]


def test_a_flag_that_never_comes_is_a_deadlock():
    _, report = outcome(("    @%lead st.release.gpu.global.u32 [%out+1024], %r3;\n", ""))
    assert [f for f in report.findings if f.kind == "deadlock" and "for a flag" in f.message] and not report.completed
