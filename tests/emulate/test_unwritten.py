"""Shared memory that nothing wrote: reading it is no fault, using what was read is one."""

from __future__ import annotations

import pytest

from tests.support.ptx import kinds, run

ADDRESS = "mov.u32 %r2, smem; shl.b32 %r3, %r1, 4; add.s32 %r4, %r2, %r3;"  # 16 bytes of each thread
LOAD = ADDRESS + "ld.shared.u32 %r6, [%r4];"
PAIR = ADDRESS + "st.shared.u32 [%r4], %r1; ld.shared.v2.u32 {%r6, %r7}, [%r4];"  # the second half is not written
STORE = "st.global.u32 [%rd4], "
SUMS = "{%f1, %f2, %f3, %f4}"
MMA = f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {SUMS}, {{%r6, %r6, %r6, %r6}}, {{%r1, %r1}}, {SUMS};"
# Rows 0 ... 7 of the first matrix and of the second but for that of lane 13, its row 5.
ROWS = ADDRESS + "setp.ne.u32 %p1, %r1, 13; @%p1 st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1}; bar.sync 0;"


def _report(body, shared=1024):
    return run(body, shared=shared)[1]


@pytest.mark.parametrize(
    "body",
    [
        LOAD,
        LOAD + "add.s32 %r7, %r6, 1; cvt.rn.f32.s32 %f1, %r7; setp.gt.s32 %p1, %r7, 0;",
        LOAD + "mov.u32 %r6, 7;" + STORE + "%r6;",
        LOAD + "setp.lt.u32 %p1, %r1, 99; selp.b32 %r6, %r1, %r6, %p1;" + STORE + "%r6;",
        LOAD + "setp.gt.u32 %p1, %r1, 99; @%p1 " + STORE + "%r6;",
        PAIR + STORE + "%r6;",
        # A loop that loads one value ahead: the last one is not used.
        ADDRESS + "st.shared.u32 [%r4], %r1; mov.u32 %r8, 0; mov.u32 %r6, 0;"
        "LOOP: mov.u32 %r7, %r6; ld.shared.u32 %r6, [%r4]; add.s32 %r4, %r4, 4; add.s32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 2;"
        "@%p1 bra LOOP;" + STORE + "%r7;",
    ],
)
def test_what_is_read_and_not_used(body):
    report = _report(body)
    assert report.findings == [] and report.completed


@pytest.mark.parametrize(
    "use",
    [
        STORE + "%r6;",
        "add.s32 %r7, %r6, 1; mul.lo.s32 %r8, %r7, %r1;" + STORE + "%r8;",
        "st.shared.u32 [%r4], %r6;",
        "cvt.u64.u32 %rd9, %r6; and.b64 %rd9, %rd9, 0; add.s64 %rd9, %rd9, %rd1; ld.global.u32 %r9, [%rd9];",
        "setp.gt.s32 %p1, %r6, 5; @%p1 bra END; END: mov.u32 %r7, 1;",
        "setp.gt.s32 %p1, %r6, 5; @%p1 " + STORE + "1;",
        "setp.gt.s32 %p1, %r6, 5; vote.sync.any.pred %p2, %p1, -1;",
        "redux.sync.add.s32 %r7, %r6, -1;",
        "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;" + MMA,
        "shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1;" + STORE + "%r7;",
    ],
)
def test_what_is_used(use):
    report = _report(LOAD + use)
    assert kinds(report) == {"uninitialised_shared"}, report.findings
    (finding,) = report.findings
    assert "thread 0 of CTA 0 reads shared byte 0, which nothing wrote; PTX line " in finding.message
    assert "ld.shared.u32 %r6" in finding.instruction


def test_half_of_a_vector():
    (finding,) = _report(PAIR + STORE + "%r7;").findings
    assert "reads shared byte 4, which nothing wrote" in finding.message and finding.count == 32


@pytest.mark.parametrize(
    ("trans", "register", "lanes"),
    [
        ("", "%r6", 0),
        ("", "%r7", 4),  # those of row 5: lanes 20 ... 23
        (".trans", "%r6", 0),
        (".trans", "%r7", 8),  # those with elements 4 and 5 of a column: lanes 2, 6, 10, ...
    ],
)
def test_rows_of_a_matrix(trans, register, lanes):
    load = f"ldmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 {{%r6, %r7}}, [%r4];"
    report = _report(ROWS + load + STORE + f"{register};")
    assert [finding.count for finding in report.findings] == [lanes][: bool(lanes)]
    if lanes:
        assert "thread 13 of CTA 0 reads shared byte 208" in report.findings[0].message
    one = "20" if not trans else "2"
    for lane, found in ((one, bool(lanes)), ("0", False)):
        body = f"{ROWS}{load} setp.eq.u32 %p2, %r1, {lane}; @%p2 {STORE}{register};"
        assert bool(_report(body).findings) == found
