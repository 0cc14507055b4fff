"""Calls, printf, assertions and traps; integer arithmetic with carry; atomics on vectors and 16-bit floats."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import EmulationError
from tests.support.ptx import kinds, run

DECLARATIONS = """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 $form[40] = {%s};
.global .align 1 .b8 $name[4] = {97, 98, 99};
"""
ONCE_MORE = """
.func (.param .b32 out) once_more (.param .b32 a, .param .b64 b)
{
.reg .pred %p<3>; .reg .b32 %r<9>; .local .align 8 .b8 depot[8]; .reg .b64 %rd<4>;
ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b+4];
mov.u64 %rd1, depot; st.local.u32 [%rd1+4], %r1;
setp.gt.u32 %p1, %r1, 5; @%p1 bra LARGE;
add.s32 %r3, %r1, %r2; st.param.b32 [out+0], %r3; ret;
LARGE: ld.local.u32 %r4, [%rd1+4]; mul.lo.s32 %r3, %r4, 10; st.param.b32 [out+0], %r3; ret;
}
.func (.param .b32 out) twice (.param .b32 a)
{
.reg .b32 %r<9>; .reg .b64 %rd<4>; .local .align 8 .b8 depot[8];
ld.param.u32 %r1, [a]; mov.u64 %rd1, depot; st.local.u32 [%rd1+4], 100;
{ .param .b32 p; st.param.b32 [p], %r1; .param .b64 q; st.param.v2.b32 [q], {0, 1}; .param .b32 v;
  call.uni (v), once_more, (p, q); ld.param.b32 %r2, [v]; }
{ .param .b32 p; st.param.b32 [p], %r2; .param .b64 q; st.param.v2.b32 [q], {0, 2}; .param .b32 v;
  call.uni (v), once_more, (p, q); ld.param.b32 %r2, [v]; }
ld.local.u32 %r3, [%rd1+4]; add.s32 %r2, %r2, %r3; st.param.b32 [out], %r2; ret;
}
"""


def text_of(form: str) -> str:
    return DECLARATIONS % ", ".join(str(code) for code in form.encode())


def printing(stores: str) -> str:
    return (
        ".local .align 8 .b8 args[48]; mov.u64 %rd10, args; cvta.local.u64 %rd11, %rd10; " + stores + "mov.u64 %rd12, $form;"
        "{ .param .b64 p; st.param.b64 [p+0], %rd12; .param .b64 q; st.param.b64 [q+0], %rd11; .param .b32 v;"
        "call.uni (v), vprintf, (p, q); ld.param.b32 %r9, [v+0]; } st.global.u32 [%rd4], %r9;"
    )


def test_functions_are_called_with_their_own_memory():
    body = (
        "{ .param .b32 p; st.param.b32 [p], %r1; .param .b32 v; call.uni (v), twice, (p); ld.param.b32 %r2, [v]; }"
        "st.global.u32 [%rd4], %r2;"
    )
    out, report = run(body, threads=12, outside=ONCE_MORE)

    def once(a: int, b: int) -> int:
        return 10 * a if a > 5 else a + b

    assert out.view("u4")[::2].tolist() == [once(once(n, 1), 2) + 100 for n in range(12)]
    assert report.findings == []


def test_a_guarded_call_and_one_with_too_few_arguments():
    call = "{ .param .b32 p; st.param.b32 [p], 1; .param .b32 v; @%p1 call (v), twice, (p); @%p1 ld.param.b32 %r2, [v]; }"
    body = f"setp.eq.u32 %p1, %r1, 3; mov.u32 %r2, 5; {call} st.global.u32 [%rd4], %r2;"
    assert run(body, threads=5, outside=ONCE_MORE)[0].view("u4")[::2].tolist() == [5, 5, 5, 104, 5]
    with pytest.raises(EmulationError, match=r"k\.ptx:\d+: twice takes 2 parameters and results, not 1"):
        run("{ .param .b32 p; call.uni twice, (p); }", outside=ONCE_MORE)


def test_recursion_and_unknown_functions_stop_where_they_are_reached():
    recursive = ".func again () { call.uni again; ret; }"
    with pytest.raises(EmulationError, match="a call of a function without a body here, of itself"):
        run("call.uni again;", outside=recursive)
    with pytest.raises(EmulationError, match="without a body"):
        run("call.uni malloc, ();", outside=".extern .func malloc ();")
    run("setp.eq.u32 %p1, %r1, 99; @!%p1 bra OVER; call.uni malloc; OVER: mov.u32 %r2, 1;", outside=".extern .func malloc ();")


def test_printf_is_in_the_report():
    stores = (
        "st.local.u32 [%rd10], %r1; mov.f64 %fd1, 0d3FF8000000000000; st.local.f64 [%rd10+8], %fd1; mov.u64 %rd13, $name;"
        "st.local.u64 [%rd10+16], %rd13; st.local.u64 [%rd10+24], -5; st.local.u32 [%rd10+32], 255;"
    )
    out, report = run(printing(stores), threads=2, outside=text_of("t%2d %.2f %s %lld%% %#x\n"))
    assert report.printed == ["t 0 1.50 abc -5% 0xff\n", "t 1 1.50 abc -5% 0xff\n"] and report.findings == []
    assert out.view("u4")[::2].tolist() == [5, 5]


def test_a_failed_assertion_ends_the_launch_and_says_what_failed():
    call = (
        "mov.u64 %rd10, $form; mov.u64 %rd11, $name; { .param .b64 a; st.param.b64 [a], %rd10; .param .b64 b;"
        "st.param.b64 [b], %rd11; .param .b32 c; st.param.b32 [c], 12; .param .b64 d; st.param.b64 [d], %rd11; .param .b64 e;"
        "st.param.b64 [e], 1; call.uni __assertfail, (a, b, c, d, e); }"
    )
    body = f"st.global.u32 [%rd4], 1; setp.lt.u32 %p1, %r1, 4; @%p1 bra OVER; {call} OVER: mov.u32 %r2, 1;"
    report = run(body, threads=6, outside=text_of("i < n"))[1]
    assert not report.completed and kinds(report) == {"assertion"} and report.findings[0].count == 2
    assert "thread 4 of CTA 0 fails the assertion `i < n` in abc (abc:12)" in report.findings[0].message
    report = run(body, threads=4, outside=text_of("i < n"))[1]
    assert report.completed and not report.findings


def test_a_trap_ends_the_launch_with_a_finding():
    body = "mov.u32 %r3, %ctaid.x; setp.ne.u32 %p1, %r3, 1; @%p1 bra OVER; trap; OVER: st.global.u32 [%rd4], 1;"
    report = run(body, threads=32, grid=4, lanes=32)[1]
    assert not report.completed and kinds(report) == {"trap"}
    assert "thread 0 of CTA 1 executes a trap" in report.findings[0].message and report.findings[0].count == 32
    body = "setp.ne.u32 %p1, %r1, 99; @%p1 bra OVER; trap; OVER: st.global.u32 [%rd4], 1;"
    report = run(body)[1]
    assert report.completed and not report.findings


# Carry

WIDE = (1 << 128) - 1


@pytest.mark.parametrize(
    "body, function",
    [
        ("add.cc.u64 %rd20, %rd10, %rd12; addc.u64 %rd21, %rd11, %rd13;", lambda a, b: a + b),
        ("sub.cc.s64 %rd20, %rd10, %rd12; subc.cc.s64 %rd21, %rd11, %rd13;", lambda a, b: a - b),
        (
            "mul.lo.u64 %rd20, %rd10, %rd12; mul.hi.u64 %rd21, %rd10, %rd12; mad.lo.u64 %rd21, %rd11, %rd12, %rd21;"
            "mad.lo.cc.u64 %rd20, %rd10, 1, %rd20; madc.lo.u64 %rd21, %rd10, %rd13, %rd21;",
            lambda a, b: a * b + a % 2**64,
        ),
        (
            "mov.b64 {%r10, %r11}, %rd10; mov.b64 {%r12, %r13}, %rd12; mul.lo.u32 %r20, %r10, %r12; mul.hi.u32 %r21, %r10, %r12;"
            "mad.lo.cc.u32 %r21, %r11, %r12, %r21; madc.hi.u32 %r22, %r11, %r12, 0; mad.lo.cc.u32 %r21, %r10, %r13, %r21;"
            "madc.hi.cc.u32 %r22, %r10, %r13, %r22; addc.u32 %r23, 0, 0; mad.lo.cc.u32 %r22, %r11, %r13, %r22;"
            "madc.hi.u32 %r23, %r11, %r13, %r23; mov.b64 %rd20, {%r20, %r21}; mov.b64 %rd21, {%r22, %r23};",
            lambda a, b: (a % 2**64) * (b % 2**64),
        ),
    ],
)
def test_carries_give_wide_integers(body, function):
    rng = np.random.default_rng(1)
    edges = np.array([0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64 - 2, 0xFFFFFFFF00000000], dtype=np.uint64)
    data = np.concatenate((rng.choice(edges, (64, 4)), rng.integers(0, 2**64, (32, 4), dtype=np.uint64)))
    load = "shl.b64 %rd5, %rd5, 2; add.s64 %rd3, %rd1, %rd5; ld.global.v2.u64 {%rd10, %rd11}, [%rd3];"
    load += "ld.global.v2.u64 {%rd12, %rd13}, [%rd3+16]; shr.b64 %rd5, %rd5, 1; add.s64 %rd4, %rd2, %rd5;"
    out, _ = run(f"{load} {body} st.global.v2.u64 [%rd4], {{%rd20, %rd21}};", 96, data=data, out_bytes=16 * 96)
    results = [int(low) | int(high) << 64 for low, high in out.view("u8").reshape(-1, 2)]
    wide = [(int(a) | int(b) << 64, int(c) | int(d) << 64) for a, b, c, d in data]
    assert results == [function(a, b) & WIDE for a, b in wide]


def test_each_lane_has_its_own_carry_and_keeps_it_across_branches():
    body = """
        setp.lt.u32 %p1, %r1, 8; mov.u32 %r2, 0; add.cc.u32 %r3, 1, %r2; @%p1 bra LOW; mov.u32 %r2, -1; add.cc.u32 %r3, %r2, 1;
        LOW: addc.u32 %r4, 5, 0; st.global.u32 [%rd4], %r4;
    """
    assert run(body, threads=16)[0].view("u4")[::2].tolist() == [5] * 8 + [6] * 8


# Atomics

CLEAR = (
    "st.global.v2.u64 [%rd2], {0, 0}; bar.sync 0; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; mov.b32 %r2, 0x40003C00;"
)


@pytest.mark.parametrize(
    "body, dtype, expected",
    [
        ("red.global.add.v2.f32 [%rd2], {%f1, %f2};", "f4", [20, 40, 0, 0]),
        ("red.relaxed.gpu.global.add.v4.f32 [%rd2], {%f1, %f2, %f2, %f1};", "f4", [20, 40, 40, 20]),
        ("atom.global.add.v2.f32 {%f3, %f4}, [%rd2+8], {%f1, %f2};", "f4", [0, 0, 20, 40]),
        ("red.global.add.noftz.f16x2 [%rd2+4], %r2;", "f2", [0, 0, 20, 40, 0, 0, 0, 0]),
        ("red.global.max.noftz.v2.f16x2 [%rd2], {%r2, %r2};", "f2", [1, 2, 1, 2, 0, 0, 0, 0]),
        ("mov.b16 %rs1, 0x4000; atom.global.add.noftz.f16 %rs2, [%rd2+6], %rs1;", "f2", [0, 0, 0, 40, 0, 0, 0, 0]),
        ("mov.b16 %rs1, 0x4000; red.global.add.noftz.v2.f16 [%rd2], {%rs1, %rs1};", "f2", [40, 40, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_atomics_on_vectors_and_halves(body, dtype, expected):
    out, report = run(CLEAR + body, threads=20, out_bytes=16)
    assert out.view(dtype).tolist() == expected
    assert not [f for f in report.findings if "red" in f.instruction or "atom" in f.instruction]


def test_atomics_return_what_was_there():
    body = CLEAR + "atom.global.add.noftz.bf16x2 %r3, [%rd2], 0x40003F80; st.global.u32 [%rd4+32], %r3;"
    out, _ = run(body, threads=3, out_bytes=80)
    assert out.view("u4")[8:14:2].tolist() == [0, 0x40003F80, 0x40804000] and out.view("u4")[0] == 0x40C04040


def test_global_sums_of_f32_flush_subnormals_and_shared_ones_do_not():
    body = "st.global.u64 [%rd4], 0; mov.b32 %f1, 5; red.global.add.v2.f32 [%rd4], {%f1, %f1};"
    assert run(body, threads=1)[0].view("u4").tolist() == [0, 0]
    body = "mov.b32 %f1, 5; st.global.u64 [%rd4], 5; red.global.add.f32 [%rd4], %f1; st.shared.u32 [smem], 6;"
    body += "red.shared.add.f32 [smem], %f1; ld.shared.u32 %r2, [smem]; st.global.u32 [%rd4+4], %r2;"
    assert run(body, threads=1, shared=16)[0].view("u4").tolist() == [0, 11]


def test_unknown_atomics_on_vectors_are_refused():
    with pytest.raises(EmulationError, match="this atomic operation is not supported"):
        run("red.global.xor.v2.f32 [%rd2], {%f1, %f1};")
