"""Member masks of .sync instructions, .aligned instructions, values that shuffles do not define, and setmaxnreg."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from mmagen.emulate import GlobalMemory, Report, launch, parse
from tests.support.ptx import kinds, run

HALF = "setp.lt.u32 %p1, %r1, 16; @!%p1 bra OVER;"
STORE = "OVER: st.global.u32 [%rd4], %r2;"
USES = {
    "shfl": "shfl.sync.idx.b32 %r3, %r1, 3, 31, MASK;",
    "vote": "vote.sync.ballot.b32 %r3, %p1, MASK;",
    "match": "match.any.sync.b32 %r3, %r1, MASK;",
    "redux": "redux.sync.add.s32 %r3, %r1, MASK;",
    "elect": "elect.sync %r3|%p2, MASK;",
    "barrier": "mov.u32 %r3, 0; bar.warp.sync MASK;",
}


def found(body: str, kind: str, **options):
    """The one finding of a kind; it must be the only kind."""
    report = run(body, **options)[1]
    assert kinds(report) == {kind}, [str(f) for f in report.findings]
    return report.findings[0]


# Member masks


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_mask_with_lanes_that_are_elsewhere(use):
    finding = found(f"mov.u32 %r2, 0; {HALF} {use.replace('MASK', '-1')} {STORE}", "member_mask")
    assert "thread 0 of CTA 0 executes it with member mask 0xffffffff; lanes 16 to 31 of its warp" in finding.message
    assert finding.count == 16
    report = run(f"mov.u32 %r2, 0; {HALF} {use.replace('MASK', '0xffff')} {STORE}")[1]
    assert report.findings == [] and report.completed


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_mask_that_lacks_lanes_which_execute_it(use):
    report = run(f"setp.lt.u32 %p1, %r1, 16; {use.replace('MASK', '0xffffff7f')} st.global.u32 [%rd4], 1;")[1]
    finding = next(f for f in report.findings if f.kind == "member_mask")
    assert "thread 7 of CTA 0 executes it with member mask 0xffffff7f, which lacks its own lane 7" in finding.message
    assert finding.count == 1


@pytest.mark.parametrize("use", [use for name, use in USES.items() if name != "shfl"])
def test_lanes_that_have_ended_may_be_named(use):
    report = run(f"setp.gt.u32 %p1, %r1, 20; @%p1 ret; {use.replace('MASK', '-1')} st.global.u32 [%rd4], %r3;")[1]
    assert report.findings == [] and report.completed
    report = run(f"setp.gt.u32 %p1, %r1, 7; {use.replace('MASK', '-1')} st.global.u32 [%rd4], %r3;", threads=40)[1]
    assert report.findings == [] and report.completed


def test_a_guarded_instruction_that_names_all():
    finding = found("setp.lt.u32 %p1, %r1, 4; @%p1 bar.warp.sync -1;", "member_mask")
    assert "lanes 4 to 31" in finding.message and finding.count == 4
    assert run("setp.lt.u32 %p1, %r1, 4; @%p1 bar.warp.sync 15;")[1].findings == []


def test_lanes_that_disagree_about_their_mask():
    body = "setp.lt.u32 %p1, %r1, 4; selp.b32 %r5, 0xff, -1, %p1; vote.sync.ballot.b32 %r3, %p1, %r5;"
    assert "lane 4, named there, with another one: 0xffffffff" in found(body, "member_mask").message


def test_sets_of_a_warp_go_their_own_way():
    """Two halves, each with its own mask in a register, at one instruction: together or one after the other."""
    body = """
        setp.lt.u32 %p1, %r1, 16; selp.b32 %r5, 0x0000ffff, 0xffff0000, %p1; and.b32 %r6, %r1, 1; setp.eq.u32 %p2, %r6, 0;
        @%p1 bra LATE; bra.uni MEET; LATE: mov.u32 %r7, 0; WAIT: add.u32 %r7, %r7, 1; setp.lt.u32 %p3, %r7, 9; @%p3 bra WAIT;
        MEET: vote.sync.ballot.b32 %r2, %p2, %r5; redux.sync.max.u32 %r8, %r1, %r5; elect.sync %r9|%p4, %r5;
        vote.sync.ballot.b32 %r10, %p4, -1; xor.b32 %r2, %r2, %r8; xor.b32 %r2, %r2, %r10; st.global.u32 [%rd4], %r2;
    """
    out, report = run(body)
    leaders = 1 | 1 << 16
    expected = [0x5555 ^ 15 ^ leaders] * 16 + [0x55550000 ^ 31 ^ leaders] * 16
    assert out.view("u4")[::2].tolist() == expected and report.findings == []


def test_a_set_that_arrives_late_is_waited_for():
    """Lanes 0 to 15 pass a barrier of their own, then one of the whole warp, to which the others come later."""
    body = """
        setp.lt.u32 %p1, %r1, 16; mov.u32 %r5, 0xffff; @%p1 bra MEET; mov.u32 %r7, 0; mov.u32 %r5, 0xffff0000;
        WAIT: add.u32 %r7, %r7, 1; setp.lt.u32 %p3, %r7, %r1; @%p3 bra WAIT;
        MEET: bar.warp.sync %r5; shfl.sync.bfly.b32 %r2, %r1, 31, 31, -1; st.global.u32 [%rd4], %r2;
    """
    out, report = run(body)
    assert out.view("u4")[::2].tolist() == list(range(31, -1, -1)) and report.findings == []


# Values that shuffles do not define

REDUCE = "shfl.sync.down.b32 %r3, %r1, 16, 31, 0xffff; add.s32 %r2, %r1, %r3;"


def test_an_undefined_value_that_is_stored():
    body = f"mov.u32 %r2, 0; setp.lt.u32 %p1, %r1, 16; @!%p1 bra END; {REDUCE} st.global.u32 [%rd4], %r2; END: ret;"
    finding = found(body, "undefined_value")
    assert "thread 0 of CTA 0 uses an undefined value: the shfl in PTX line" in finding.message and finding.count == 16


@pytest.mark.parametrize(
    "use",
    [
        "setp.gt.s32 %p2, %r2, 5; @%p2 bra END;",
        "setp.gt.s32 %p2, %r2, 5; @%p2 st.global.u32 [%rd4], 1;",
        "cvt.u64.u32 %rd9, %r2; and.b64 %rd9, %rd9, 0; add.s64 %rd9, %rd9, %rd1; ld.global.u32 %r9, [%rd9];",
        "mov.u32 %r8, %r2; shfl.sync.bfly.b32 %r9, %r8, 1, 31, 0xffff; st.global.u32 [%rd4], %r9;",
    ],
)
def test_an_undefined_value_that_is_used_otherwise(use):
    body = f"setp.lt.u32 %p1, %r1, 16; @!%p1 bra END; {REDUCE} {use} END: ret;"
    assert kinds(run(body)[1]) == {"undefined_value"}


@pytest.mark.parametrize(
    "body",
    [
        # A reduction in half a warp: the upper lanes get undefined values, which nobody uses.
        "setp.lt.u32 %p1, %r1, 16; @!%p1 bra END; mov.u32 %r2, %r1;"
        + "".join(f"shfl.sync.down.b32 %r3, %r2, {n}, 31, 0xffff; add.s32 %r2, %r2, %r3;" for n in (8, 4, 2, 1))
        + "setp.eq.s32 %p2, %r1, 0; @%p2 st.global.u32 [%rd4], %r2; END: ret;",
        # Chosen away, or overwritten.
        f"setp.lt.u32 %p1, %r1, 16; @!%p1 bra END; {REDUCE} selp.b32 %r2, %r1, %r2, %p1; st.global.u32 [%rd4], %r2; END: ret;",
        f"setp.lt.u32 %p1, %r1, 16; @!%p1 bra END; {REDUCE} mov.u32 %r2, 1; st.global.u32 [%rd4], %r2; END: ret;",
        # Beyond the segment a lane reads its own value.
        "shfl.sync.down.b32 %r2, %r1, 16, 31, -1; st.global.u32 [%rd4], %r2;",
    ],
)
def test_shuffles_that_use_only_what_is_defined(body):
    report = run(body)[1]
    assert report.findings == [] and report.completed


def test_a_shuffle_from_a_lane_that_has_ended():
    body = "setp.gt.u32 %p1, %r1, 20; @%p1 ret; shfl.sync.bfly.b32 %r2, %r1, 16, 31, -1; st.global.u32 [%rd4], %r2;"
    finding = found(body, "undefined_value")
    assert "thread 5 of" in finding.message and finding.count == 11


# Aligned instructions


def test_barriers_of_a_part_of_a_warp():
    body = "setp.lt.u32 %p1, %r1, 48; @!%p1 bra ELSE; BARRIER bra END; ELSE: BARRIER END: st.global.u32 [%rd4], 1;"
    finding = found(body.replace("BARRIER", "bar.sync 1, 64;"), "warp_divergence", threads=64)
    assert "thread 32 of CTA 0 executes this .aligned instruction with 16 of its warp's 32 threads" in finding.message
    assert found(body.replace("BARRIER", "bar.arrive 1, 64;"), "warp_divergence", threads=64).thread == 32
    assert run(body.replace("BARRIER", "barrier.sync 1, 64;"), threads=64)[1].findings == []
    assert run("bar.arrive 1, 128; bar.sync 1, 128;", threads=64)[1].findings == []


# setmaxnreg

MOVE = "setmaxnreg.{how}.sync.aligned.u32 {count};"


def roles(producer: str, consumer: str, directives: str = ".maxntid 384") -> Report:
    """A kernel of three warpgroups, of which the first is the producer."""
    text = f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{directives}
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128; setp.lt.u32 %p2, %r1, 32; @%p1 bra PRODUCER;
{consumer}
bra.uni END;
PRODUCER:
{producer}
END: bar.sync 0; ret;
}}
"""
    out = GlobalMemory().allocate("out", np.zeros(1))
    return launch(parse(text, "k.ptx"), "k", grid=2, block=384, params=struct.pack("<Q", out))


def dec(count: int) -> str:
    return MOVE.format(how="dec", count=count)


def inc(count: int) -> str:
    return MOVE.format(how="inc", count=count)


@pytest.mark.parametrize(
    "producer, consumer, directives",
    [
        (dec(40), inc(232), ".maxntid 384"),
        (dec(24), inc(240), ".maxntid 384, 1, 1 .minnctapersm 1"),
        (dec(24), inc(72), ".maxntid 384 .minnctapersm 3"),
        (dec(24), inc(152), ".maxntid 384 .maxnreg 128"),
        ("", inc(232), ""),
        ("", inc(168), ".reqntid 384"),
        (dec(40), inc(160), ".maxntid 384"),  # ptxas 13.0 compiles it for 160 at launch
    ],
)
def test_registers_that_the_producer_releases_suffice(producer, consumer, directives):
    report = roles(producer, consumer, directives)
    assert report.findings == [] and report.completed


@pytest.mark.parametrize(
    "producer, consumer, directives",
    [("", inc(232), ".maxntid 384"), (dec(40), inc(240), ".maxntid 384"), (dec(24), inc(184), ".maxntid 384 .maxnreg 128")],
)
def test_registers_that_nobody_releases_are_waited_for_forever(producer, consumer, directives):
    report = roles(producer, consumer, directives)
    assert not report.completed and "deadlock" in kinds(report)
    finding = next(f for f in report.findings if f.kind == "deadlock")
    assert ("waits forever for " in finding.message and "of 168 for" in finding.message) or "of 128 for" in finding.message
    assert "have to release theirs with setmaxnreg.dec first" in finding.message


@pytest.mark.parametrize(
    "producer, consumer, kind, message",
    [
        (dec(40), inc(232) + inc(160), "register_count", "asks for 160 registers, fewer than the 232 that it has"),
        (dec(176), "", "register_count", "asks for 176 registers, more than the 168 that it has at launch"),
        (dec(40) + dec(48), "", "register_count", "more than the 40 that it has"),
        (dec(16), "", "register_count", "takes 24 to 256, in steps of 8"),
        (dec(44), "", "register_count", "takes 24 to 256, in steps of 8"),
        (f"@%p2 bra END; {dec(40)}", "", "warp_divergence", "without some threads of its warpgroup"),
    ],
)
def test_register_counts_that_make_no_sense(producer, consumer, kind, message):
    report = roles(producer, consumer)
    assert any(f.kind == kind and message in f.message for f in report.findings), [str(f) for f in report.findings]


# Which lane is elected


@pytest.mark.parametrize(("options", "lane"), [({}, 4), ({"elects_last": True}, 23)])
def test_the_elected_lane(options, lane):
    """PTX does not say which one it is: a kernel may rely neither on the first nor on the last."""
    elect = "elect.sync %r2|%p2, 0x00fffff0; selp.u32 %r2, %r2, 99, %p2; st.global.u32 [%rd4], %r2;"
    body = f"st.global.u64 [%rd4], 99; add.s32 %r3, %r1, -4; setp.lt.u32 %p1, %r3, 20; @!%p1 bra END; {elect} END: ret;"
    out, report = run(body, **options)
    expected = np.where(np.arange(32) == lane, lane, 99)
    assert (out.view(np.uint32)[::2] == expected).all() and report.findings == []
