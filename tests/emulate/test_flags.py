"""CTAs of a launch that tell each other by flags in global memory: releases, acquires, and loops that wait."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.ptx_hopper import run, text

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
    bar.sync 1, 128; //order
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


def outcome(*edits, reader=0, cluster=1):
    body = BODY.format(reader=reader)
    for old, new in edits:
        assert old in body, old
        body = body.replace(old, new)
    got, report = run(text(body), np.zeros(4, np.uint32), 1032, grid=2, filled=True, cluster=cluster)
    return got.view(np.uint32)[128:256], report


@pytest.mark.parametrize("reader", [0, 1])
def test_what_a_flag_tells_is_there(reader):
    got, report = outcome(reader=reader)
    assert (got == np.arange(128) + 7).all() and report.completed and not report.findings


def test_a_fence_and_relaxed_accesses_do_as_well():
    got, report = outcome(
        ("    @%lead st.release.gpu", "    fence.acq_rel.gpu;\n    @%lead st.relaxed.gpu"),
        ("ld.acquire", "ld.relaxed"),
        ("    mov.u32 %r3, 0;\n", "    fence.acq_rel.gpu;\n    mov.u32 %r3, 0;\n"),
    )
    assert (got == np.arange(128) + 7).all() and not report.findings


@pytest.mark.parametrize(
    "edit",
    [("bar.sync 1, 128; //tell", ""), ("st.release", "st.relaxed"), ("ld.acquire", "ld.relaxed")],
    ids=["order", "release", "acquire"],
)
def test_what_is_missing_is_a_race(edit):
    assert "global_race" in {f.kind for f in outcome(edit)[1].findings}


@pytest.mark.parametrize("reader", [0, 1])
def test_the_other_threads_need_a_barrier_with_the_one_that_read_the_flag(reader):
    """Whether they read too early or what they may not rely on: one of both shows."""
    got, report = outcome(("bar.sync 1, 128; //order", ""), reader=reader)
    assert (got != np.arange(128) + 7).any() or [f for f in report.findings if f.kind == "global_race"]


@pytest.mark.parametrize("reader", [0, 1])
@pytest.mark.parametrize("fence", ["", "fence.acq_rel.gpu;"])
def test_a_flag_must_be_waited_for(fence, reader):
    """However late its reader comes: that it is there when one looks is luck."""
    load = ("ld.acquire", "ld.relaxed" if fence else "ld.acquire")
    _, report = outcome(("    @%p bra LOOK;\n", f"    {fence}\n"), load, reader=reader)
    assert "global_race" in {f.kind for f in report.findings} and report.completed


def test_a_flag_that_was_seen_stays_seen():
    """By whoever of the CTA reads it again, though the store was never acquired."""
    again = (
        "bar.sync 1, 128; //order\n    ld.relaxed.gpu.global.u32 %r2, [%out+1024];\n    @!%lead st.global.u32 [%rd1+512], %r2;"
    )
    got, report = outcome(
        ("    mov.u32 %r3, 0;\n    st.global.u32 [%out+1024], %r3;\n", ""),
        ("ld.acquire", "ld.relaxed"),
        ("bar.sync 1, 128; //order", again),
        ("    st.global.u32 [%rd1+512], %r0;\n", ""),
    )
    assert (got[1:] == 1).all() and report.completed


GIVEN = "    @%lead st.release.gpu.global.u32 [%out+1024], %r3;\n"


@pytest.mark.parametrize("reader", [0, 1])
def test_an_older_value_acquires_what_was_released_with_it(reader):
    """The second store becomes visible later than the first, which released all that is read. It is not to be reset by a weak
    store, which may come before it or after it."""
    twice, reset = (GIVEN, f"{GIVEN}    mov.u32 %r3, 2;\n{GIVEN}"), "st.global.u32 [%out+1024]"
    got, report = outcome(twice, (reset, reset.replace("st.", "st.relaxed.gpu.")), reader=reader)
    assert (got == np.arange(128) + 7).all() and not report.findings
    assert {f.kind for f in outcome(twice, reader=reader)[1].findings} == {"global_race"}


def test_who_knows_that_a_flag_is_set_sees_it_set():
    """The thread that set it, and threads that know of that by another flag."""
    second = GIVEN.replace("1024", "1028")
    back = "    @%lead ld.acquire.gpu.global.u32 %r2, [%out+1024];\n    @%lead st.global.u32 [%out+4], %r2;\n"
    look = (
        "bar.sync 1, 128; //order\n    ld.acquire.gpu.global.u32 %r0, [%out+1024];\n    ld.global.u32 %r2, [%out+4];\n"
        "    add.u32 %r0, %r0, %r2;\n    st.global.u32 [%rd1+512], %r0;\n    bra END;\n"
    )
    got, report = outcome(
        (GIVEN, GIVEN + back + second),
        ("global.u32 %r2, [%out+1024];\n    setp", "global.u32 %r2, [%out+1028];\n    setp"),
        ("    mov.u32 %r3, 0;\n    st.global.u32 [%out+1024], %r3;\n", ""),
        ("bar.sync 1, 128; //order\n", look),
    )
    assert (got == 2).all() and not report.findings


def test_an_atomic_change_acquires_what_was_released():
    taken = ("    st.global.u32 [%out+1024], %r3;\nTHERE", "    atom.acquire.gpu.global.exch.b32 %r2, [%out+1024], %r3;\nTHERE")
    assert not outcome(("ld.acquire", "ld.relaxed"), taken)[1].findings
    assert outcome(("ld.acquire", "ld.relaxed"), taken, ("atom.acquire", "atom.relaxed"))[1].findings


def test_atomic_changes_hand_on_what_was_released_before():
    more = "    @%lead red.relaxed.gpu.global.add.u32 [%out+1024], 1;\n"
    _, report = outcome((GIVEN, GIVEN + more + more), ("setp.eq.u32 %p, %r2, 0", "setp.ne.u32 %p, %r2, 3"))
    assert report.completed and not report.findings


def test_ctas_that_write_one_word_at_once_are_a_race():
    flag = "    @%lead ld.relaxed.gpu.global.u32 %r2, [%out+1024];\n"
    _, report = run(text(f"{flag}    st.global.u32 [%out], %tid;\n"), np.zeros(4, np.uint32), 1032, grid=2, filled=True)
    assert [f.kind for f in report.findings] == ["global_race"]


def test_a_flag_that_never_comes_is_a_deadlock():
    _, report = outcome(("    @%lead st.release.gpu.global.u32 [%out+1024], %r3;\n", ""))
    assert [f for f in report.findings if f.kind == "deadlock" and "for a flag" in f.message] and not report.completed


RACE, NONE = {"global_race"}, set()
BOTH = (("st.release.gpu", "st.release.{}"), ("ld.acquire.gpu", "ld.acquire.{}"))
FENCED = (
    ("    @%lead st.release.gpu", "    fence.acq_rel.{};\n    @%lead st.relaxed.{}"),
    ("ld.acquire.gpu", "ld.relaxed.{}"),
    ("    mov.u32 %r3, 0;\n", "    fence.acq_rel.{};\n    mov.u32 %r3, 0;\n"),
)
COUNTED_UP = ("st.release.gpu.global.u32 [%out+1024], %r3", "red.release.{}.global.add.u32 [%out+1024], 1")


def scoped(edits, *scopes):
    """Edits with scopes in their holes, in order."""
    rest = list(scopes)
    return [(old, new.format(*[rest.pop(0) for _ in range(new.count("{}"))])) for old, new in edits]


@pytest.mark.parametrize(
    ("edits", "scopes", "alone", "together"),
    [
        (BOTH, ("gpu", "gpu"), NONE, NONE),
        (BOTH, ("sys", "gpu"), NONE, NONE),
        (BOTH, ("cluster", "cluster"), RACE, NONE),
        (BOTH, ("cta", "gpu"), RACE, RACE),
        (BOTH, ("gpu", "cta"), RACE, RACE),
        (BOTH, ("cluster", "gpu"), RACE, NONE),
        (BOTH, ("gpu", "cluster"), RACE, NONE),
        (FENCED, ("gpu", "gpu", "gpu", "gpu"), NONE, NONE),
        (FENCED, ("cluster", "gpu", "gpu", "gpu"), RACE, NONE),
        (FENCED, ("cta", "gpu", "gpu", "gpu"), RACE, RACE),
        (FENCED, ("gpu", "cta", "gpu", "gpu"), RACE, RACE),
        (FENCED, ("gpu", "gpu", "gpu", "cta"), RACE, RACE),
        (FENCED, ("gpu", "gpu", "cluster", "gpu"), RACE, NONE),
        ((COUNTED_UP,), ("gpu",), NONE, NONE),
        ((COUNTED_UP,), ("cta",), RACE, RACE),
        ((COUNTED_UP,), ("cluster",), RACE, NONE),
    ],
    ids=lambda x: "-".join(x) if x and isinstance(x, tuple) and isinstance(x[0], str) else "",
)
def test_scopes_must_include_the_other_cta(edits, scopes, alone, together):
    """alone: of two CTAs that are clusters by themselves; together: of two that form one."""
    for cluster, kinds in ((1, alone), (2, together)):
        got, report = outcome(*scoped(edits, *scopes), cluster=cluster)
        assert {f.kind for f in report.findings} == kinds, (cluster, report.findings)
        assert kinds or (got == np.arange(128) + 7).all()


VOLATILE = (("st.release.gpu", "st.volatile"), ("ld.acquire.gpu", "ld.volatile"))
MEMBAR = (
    ("    @%lead st.volatile", "    membar.gl;\n    @%lead st.volatile"),
    ("    mov.u32 %r3, 0;\n", "    membar.gl;\n    mov.u32 %r3, 0;\n"),
)


def test_volatile_flags_order_by_fences_alone():
    got, report = outcome(*VOLATILE, *MEMBAR)
    assert (got == np.arange(128) + 7).all() and not report.findings
    for left_out in (0, 1):
        assert {f.kind for f in outcome(*VOLATILE, MEMBAR[left_out])[1].findings} == RACE
    assert {f.kind for f in outcome(*VOLATILE)[1].findings} == RACE


def test_a_weak_flag_is_a_race():
    """However strongly it is read, or the other way round."""
    assert {f.kind for f in outcome(("st.release.gpu", "st"))[1].findings} == RACE
    look_once = (("ld.acquire.gpu", "ld"), ("    @%p bra LOOK;\n", ""))
    for reader in (0, 1):
        assert {f.kind for f in outcome(*look_once, reader=reader)[1].findings} >= RACE


BACK = "    @%lead st.global.u32 [%out+512], 3;\n"


@pytest.mark.parametrize("reader", [0, 1])
def test_what_another_cta_reads_is_not_to_be_overwritten(reader):
    """Reading first and telling so is in order."""
    read_first = (
        ("    ld.global.u32 %r0, [%rd1];\n    st.global.u32 [%rd1+512], %r0;\n", "    st.global.u32 [%out+516], %r3;\n"),
        ("LOOK:", "    ld.global.u32 %r0, [%out+512];\n    {give}\nLOOK:"),
        ("    mov.u32 %r3, 1;\n", "    {take}\n" + BACK + "    mov.u32 %r3, 1;\n"),
        ("    @!%lead bra THERE;", "    @!%lead bra END;"),
        ("THERE:\n    bar.sync 1, 128; //order\n", ""),
    )
    give = "st.release.gpu.global.u32 [%out+1028], 1;"
    take = "WAITING:\n    @%lead ld.acquire.gpu.global.u32 %r2, [%out+1028];\n    setp.eq.u32 %p, %r2, 0;\n"
    take = "mov.u32 %r2, 1;\n" + take + "    @%p bra WAITING;"
    for hole, kinds in (({"give": "", "take": ""}, RACE), ({"give": give, "take": take}, NONE)):
        edits = [(old, new.format(**hole) if "{" in new else new) for old, new in read_first]
        report = outcome(*edits, reader=reader)[1]
        assert report.completed and {f.kind for f in report.findings} == kinds, report.findings


def test_the_read_only_cache_is_for_what_the_launch_does_not_write():
    """Even if the flag was waited for: the cache is not kept coherent."""
    plain, cached = "    ld.global.u32 %r0, [%rd1];", "    ld.global.nc.u32 %r0, [%rd1];"
    assert not outcome((plain, plain))[1].findings
    (finding,) = outcome((plain, cached))[1].findings
    assert finding.kind == "global_race" and "read-only cache" in finding.message
    own = "    ld.global.nc.u32 %r0, [%rd1+512];\n"
    findings = outcome((plain, own + plain))[1].findings
    assert [f.kind for f in findings] == ["global_race"] and "st.global" in findings[0].instruction


EVERY_CTA = """
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd1, %r1, 8;
    add.u64 %rd1, %out, %rd1;
    @!%lead bra END;
    setp.eq.u32 %p, %r1, {last};
    @%p bra TAKE;
    add.u32 %r2, %r1, 7;
    st.global.u32 [%rd1], %r2;
    mov.u32 %r3, 1;
    {tell} [%rd1+4], %r3;
    bra END;
TAKE:
    mov.u64 %rd2, %out;
    mov.u32 %r4, 0;
LOOK:
    add.u64 %rd3, %rd2, 8;
    ld.acquire.gpu.global.u32 %r5, [%rd3+-4];
    setp.eq.u32 %p, %r5, 0;
    @%p bra LOOK;
    ld.global.u32 %r6, [%rd2];
    add.u32 %r4, %r4, %r6;
    st.relaxed.gpu.global.u32 [%rd2+4], 0; //reset
    add.u64 %rd2, %rd2, 8;
    setp.lt.u64 %p, %rd2, %rd1;
    @%p bra LOOK;
    st.global.u32 [%rd1], %r4;
END:
"""


@pytest.mark.parametrize(("tell", "kinds"), [("release", []), ("relaxed", ["global_race"])])
def test_one_cta_that_reads_the_flags_of_many(tell, kinds):
    last = 150
    body = EVERY_CTA.format(last=last, tell=f"st.{tell}.gpu.global.u32")
    got, report = run(text(body), np.zeros(4, np.uint32), 8 * last + 8, grid=last + 1, filled=True)
    assert got.view(np.uint32)[2 * last] == sum(range(7, last + 7)) and report.completed
    assert [f.kind for f in report.findings] == kinds


@pytest.mark.parametrize("grid", [2, 3, 40])
def test_many_flags_are_read_one_after_another_without_a_write_between(grid):
    """The thread that waits comes last: when it reads the second flag, nothing was written since it read the first."""
    body = EVERY_CTA.format(last=grid - 1, tell="st.release.gpu.global.u32")
    reset = "    st.relaxed.gpu.global.u32 [%rd2+4], 0; //reset\n"
    assert reset in body
    got, report = run(text(body.replace(reset, "")), np.zeros(4, np.uint32), 8 * grid, grid=grid, filled=True)
    assert got.view(np.uint32)[2 * grid - 2] == sum(range(7, grid + 6))
    assert report.completed and not report.findings


COUNTED = """
    @!%lead bra END;
    mov.u32 %r1, %ctaid.x;
    setp.eq.u32 %p, %r1, 0;
    @%p bra GIVE;
    mov.u32 %r4, 0;
LOOK:
    ld.acquire.gpu.global.u32 %r2, [%out+4];
    setp.le.u32 %p, %r2, %r4;
    @%p bra LOOK;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p, %r4, {values};
    @%p bra LOOK;
    st.global.u32 [%out], %r4;
    bra END;
GIVE:
    mov.u32 %r3, {given};
    st.release.gpu.global.u32 [%out+4], %r3;
END:
"""


@pytest.mark.parametrize("values", [2, 50])
def test_a_flag_may_be_waited_for_again_without_a_write_between(values):
    """For each of several values; the flag holds the last of them from the begin."""
    got, report = run(text(COUNTED.format(values=values, given=values)), np.zeros(4, np.uint32), 8, grid=2, filled=True)
    assert got.view(np.uint32)[0] == values and report.completed and not report.findings
    _, report = run(text(COUNTED.format(values=values, given=values - 1)), np.zeros(4, np.uint32), 8, grid=2, filled=True)
    assert [f.kind for f in report.findings] == ["deadlock"]


def test_who_counts_how_often_it_looked_waits_for_ever_too():
    body = COUNTED.format(values=2, given=1).replace("    setp.le.u32", "    add.u32 %r5, %r5, 1;\n    setp.le.u32")
    _, report = run(
        text(body.replace("LOOK:", "    mov.u32 %r5, 0;\nLOOK:", 1)), np.zeros(4, np.uint32), 8, grid=2, filled=True
    )
    assert [f.kind for f in report.findings] == ["deadlock"] and report.steps < 20_000


def test_a_flag_that_never_comes_after_others_is_a_deadlock():
    body = EVERY_CTA.format(last=8, tell="st.release.gpu.global.u32").replace(
        "    bra END;\nTAKE", "NEVER:\n    bra END;\nTAKE"
    )
    body = body.replace("    mov.u32 %r3, 1;", "    setp.eq.u32 %p, %r1, 5;\n    @%p bra NEVER;\n    mov.u32 %r3, 1;")
    _, report = run(text(body), np.zeros(4, np.uint32), 72, grid=9, filled=True)
    assert [f.kind for f in report.findings] == ["deadlock"] and not report.completed
    assert "thread 0 of CTA 8 waits forever for a flag" in report.findings[0].message
