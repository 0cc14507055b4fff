"""How threads part and meet, and how memory and launches behave."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from mmagen.emulate import EmulationError, GlobalMemory, launch, parse
from tests.support.ptx import HEADER, kernel, kinds, run

M32 = 0xFFFFFFFF


def test_loops_of_different_length():
    body = """
        mov.u32 %r2, 0; mov.u32 %r3, 0;
        LOOP: setp.ge.u32 %p1, %r2, %r1; @%p1 bra DONE; add.s32 %r3, %r3, %r2; add.s32 %r2, %r2, 1; bra.uni LOOP;
        DONE: st.global.u64 [%rd4], %rd5; st.global.u32 [%rd4], %r3;
    """
    out, _ = run(body, threads=70)
    assert out.view("u4")[::2].tolist() == [n * (n - 1) // 2 for n in range(70)]


def test_a_path_that_lies_before_its_branch():
    body = """
        bra.uni START;
        BACK: mov.u32 %r2, 7; bra.uni JOIN;
        START: and.b32 %r3, %r1, 1; setp.eq.s32 %p1, %r3, 0; @%p1 bra BACK; mov.u32 %r2, 9;
        JOIN: vote.sync.ballot.b32 %r4, 1, -1; st.global.u32 [%rd4], %r2; st.global.u32 [%rd4+4], %r4;
    """
    out, _ = run(body)
    assert out.view("u4").reshape(-1, 2).tolist() == [[9 if n % 2 else 7, M32] for n in range(32)]


def test_guards_leave_other_lanes_alone():
    body = (
        "mov.u32 %r2, 5; setp.lt.u32 %p1, %r1, 3; @%p1 mov.u32 %r2, 6; @!%p1 add.s32 %r2, %r2, %r1; st.global.u32 [%rd4], %r2;"
    )
    out, _ = run(body, threads=8)
    assert out.view("u4")[::2].tolist() == [6, 6, 6, 8, 9, 10, 11, 12]


def test_threads_that_end_early():
    out, report = run("st.global.u32 [%rd4], 1; setp.gt.u32 %p1, %r1, 9; @%p1 ret; st.global.u32 [%rd4], 2;", threads=20)
    assert out.view("u4")[::2].tolist() == [2] * 10 + [1] * 10
    assert report.completed


def test_barriers_hand_data_between_warps():
    body = """
        shl.b32 %r2, %r1, 2; mov.u32 %r3, smem; add.s32 %r4, %r3, %r2;
        setp.lt.u32 %p1, %r1, 40; @%p1 bra LATE;
        NOW: st.shared.u32 [%r4], %r1; bra.uni MEET;
        LATE: mov.u32 %r6, 0; WAIT: add.s32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, %r1; @%p2 bra WAIT; bra.uni NOW;
        MEET: bar.sync 0;
        sub.s32 %r5, 95, %r1; shl.b32 %r5, %r5, 2; add.s32 %r5, %r3, %r5; ld.shared.u32 %r7, [%r5]; st.global.u32 [%rd4], %r7;
    """
    out, report = run(body, threads=96, shared=384)
    assert out.view("u4")[::2].tolist() == list(range(95, -1, -1))
    assert not report.findings


def test_named_barriers_count_threads():
    body = """
        mov.u32 %r2, smem; setp.ge.u32 %p1, %r1, 32; @%p1 bra CONSUMER;
        st.shared.u32 [%r2], 42; bar.arrive 1, 64; bra.uni END;
        CONSUMER: bar.sync 1, 64; ld.shared.u32 %r3, [%r2]; st.global.u32 [%rd4], %r3;
        END: mov.u32 %r9, 0;
    """
    out, report = run(body, threads=64, shared=16)
    assert out.view("u4")[64::2].tolist() == [42] * 32
    assert report.completed


def test_barrier_reductions():
    body = "setp.lt.u32 %p1, %r1, 40; bar.red.popc.u32 %r2, 0, %p1; bar.red.or.pred %p2, 0, %p1; st.global.u32 [%rd4], %r2; "
    out, _ = run(body + "selp.u32 %r3, 1, 0, %p2; st.global.u32 [%rd4+4], %r3;", threads=64)
    assert out.view("u4").reshape(-1, 2).tolist() == [[40, 1]] * 64


def test_ctas_have_barriers_of_their_own():
    """One CTA reduces while others wait, and each names the count that is its own."""
    body = """
        mov.u32 %r8, %ctaid.x; mul.lo.u32 %r9, %r8, 32; add.u32 %r9, %r9, 32; setp.ge.u32 %p1, %r1, %r9; @%p1 bra END;
        setp.eq.u32 %p2, %r8, 0; @%p2 bra REDUCES; setp.lt.u32 %p3, %r1, 32; @%p3 bra ARRIVES;
        barrier.sync 3, %r9; bra END; ARRIVES: barrier.arrive 3, %r9; bra END;
        REDUCES: barrier.red.popc.u32 %r7, 3, 32, %p2; END: st.global.u32 [%rd4], %r7;
    """
    report = run("mov.u32 %r7, 0;" + body, threads=128, grid=4)[1]
    assert report.completed and not {"barrier_divergence"} & {one.kind for one in report.findings}


def test_a_barrier_that_threads_have_arrived_at_is_no_fresh_one():
    body = "setp.lt.u32 %p1, %r1, 32; @!%p1 bra ALL; bar.arrive 1, 96; ALL: bar.sync 1; st.global.u32 [%rd4], %r1;"
    assert "barrier_divergence" in {one.kind for one in run(body, threads=64)[1].findings}


def test_warps_meet_at_shuffles():
    body = """
        mov.u32 %r2, 0; setp.lt.u32 %p1, %r1, 16; @%p1 bra LOW; mov.u32 %r2, 100;
        SHUFFLE: add.s32 %r2, %r2, %r1; shfl.sync.bfly.b32 %r3|%p2, %r2, 31, 31, -1; st.global.u32 [%rd4], %r3; ret;
        LOW: mov.u32 %r2, 200; bra.uni SHUFFLE;
    """
    out, report = run(body)
    assert out.view("u4")[::2].tolist() == [131 - n if n < 16 else 200 + 31 - n for n in range(32)]
    assert not report.findings


@pytest.mark.parametrize(
    "mode, amount, clamp, expected",
    [
        ("up", 1, 0, lambda n: max(n - 1, 0)),
        ("down", 4, 31, lambda n: n + 4 if n < 28 else n),
        ("idx", 3, 31, lambda n: 3),
        ("idx", 2, 0x181F, lambda n: n // 8 * 8 + 2),
        ("bfly", 1, 31, lambda n: n ^ 1),
        ("down", 4, 0x181F, lambda n: n + 4 if n % 8 < 4 else n),
    ],
)
def test_shuffles(mode, amount, clamp, expected):
    out, _ = run(f"shfl.sync.{mode}.b32 %r2, %r1, {amount}, {clamp}, -1; st.global.u32 [%rd4], %r2;")
    assert out.view("u4")[::2].tolist() == [expected(n) for n in range(32)]


def test_votes_and_masks():
    body = """
        setp.lt.u32 %p1, %r1, 4; vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1;
        selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 2, 0, %p3; or.b32 %r4, %r2, %r3;
        @%p1 bra FEW; bra.uni END;
        FEW: activemask.b32 %r5; st.global.u32 [%rd4+4], %r5;
        END: redux.sync.add.s32 %r6, %r1, -1; add.s32 %r4, %r4, %r6; st.global.u32 [%rd4], %r4;
    """
    out, _ = run(body)
    words = out.view("u4").reshape(-1, 2)
    assert words[:, 0].tolist() == [497] * 32 and words[:4, 1].tolist() == [15] * 4


def test_special_registers_in_three_dimensions():
    text = (
        HEADER
        + """.entry k(.param .u64 out) { .reg .b32 %r<30>; .reg .b64 %rd<9>; ld.param.u64 %rd1, [out];
        mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y;
        mad.lo.s32 %r6, %r3, %r5, %r2; mad.lo.s32 %r6, %r6, %r4, %r1; mov.u32 %r7, %ctaid.y; mov.u32 %r8, %nctaid.x;
        mov.u32 %r9, %ctaid.x; mad.lo.s32 %r10, %r7, %r8, %r9; mad.lo.s32 %r11, %r10, 24, %r6;
        mul.wide.u32 %rd2, %r11, 4; add.s64 %rd3, %rd1, %rd2; mov.u32 %r12, %laneid; mad.lo.s32 %r13, %r11, 100, %r12;
        st.global.u32 [%rd3], %r13; ret; }"""
    )
    memory = GlobalMemory()
    out = memory.allocate("out", size=4 * 24 * 6)
    report = launch(parse(text), "k", grid=(3, 2), block=(4, 3, 2), params=struct.pack("<Q", out), memory=memory, lanes=64)
    assert memory.read("out", "u4").tolist() == [100 * n + n % 24 for n in range(144)]
    assert report.ctas == 6 and memory.read_rows("out")[1].all()


def test_branches_by_index():
    body = """
        and.b32 %r2, %r1, 3; mov.u32 %r3, 0; TABLE: .branchtargets A, B, A, C; brx.idx %r2, TABLE;
        A: add.u32 %r3, %r3, 10; bra.uni END; B: mov.u32 %r3, 20; C: add.u32 %r3, %r3, 3; END: st.global.u32 [%rd4], %r3;
    """
    out, report = run(body, threads=40)
    assert out.view("u4")[::2].tolist() == [[10, 23, 10, 3][n % 4] for n in range(40)] and not report.findings
    with pytest.raises(EmulationError, match=r"k\.ptx:\d+: thread 2 branches by index 2; there are 2 targets"):
        run("TABLE: .branchtargets A, B; brx.idx %r1, TABLE; A: mov.u32 %r2, 1; B: mov.u32 %r2, 2;")
    with pytest.raises(EmulationError, match="no such label"):
        run("TABLE: .branchtargets A; brx.idx %r1, TABLE;")


# Memory


def test_vectors_narrow_loads_and_extension():
    data = np.array([0x80FF7F01_11223344, 5], dtype=np.uint64)
    body = """
        ld.global.v4.u8 {%rs1, %rs2, %rs3, %rs4}, [%rd1+4]; ld.global.s8 %r2, [%rd1+6]; ld.global.u16 %r3, [%rd1+6];
        cvt.u32.u16 %r4, %rs4; st.global.v4.u32 [%rd2], {%r2, %r3, %r4, %r3}; st.global.u8 [%rd2+12], %rs1;
    """
    out, _ = run(body, threads=1, data=data, out_bytes=16)
    assert out.view("u4").tolist() == [0xFFFFFFFF, 0x80FF, 0x80, 0x8001]


def test_local_memory_and_generic_addresses():
    body = """
        .local .align 8 .b8 depot[16];
        mov.u64 %rd10, depot; cvta.local.u64 %rd11, %rd10; st.local.u32 [%rd10+4], %r1; ld.u32 %r2, [%rd11+4];
        mov.u64 %rd12, smem; cvta.shared.u64 %rd13, %rd12; setp.eq.s32 %p1, %r1, 0; @%p1 st.u32 [%rd13], 7; bar.sync 0;
        ld.u32 %r3, [%rd13]; cvta.to.shared.u64 %rd14, %rd13; cvt.u32.u64 %r4, %rd14; ld.shared.u32 %r5, [%r4];
        add.s32 %r2, %r2, %r3; add.s32 %r2, %r2, %r5; cvta.to.global.u64 %rd15, %rd4; st.u32 [%rd15], %r2;
    """
    out, report = run(body, threads=40, shared=16)
    assert out.view("u4")[::2].tolist() == [n + 14 for n in range(40)]
    assert not report.findings


def test_atomics():
    body = """
        mov.u32 %r2, smem; setp.eq.s32 %p1, %r1, 0; @%p1 st.shared.u32 [%r2], 0; bar.sync 0;
        atom.shared.add.u32 %r3, [%r2], 2; bar.sync 0; ld.shared.u32 %r4, [%r2];
        st.global.u32 [%rd4], %r3; st.global.u32 [%rd4+4], %r4; bar.sync 0; red.global.max.s32 [%rd2], 1000;
    """
    out, report = run(body, threads=33, shared=16)
    words = out.view("u4").reshape(-1, 2)
    assert sorted(words[1:, 0].tolist()) == list(range(2, 66, 2)) and words[:, 1].tolist() == [66] * 33 and words[0, 0] == 1000
    assert not report.findings


def test_variables_of_the_module():
    out, _ = run("mov.u64 %rd10, table; ld.global.u32 %r2, [%rd10+4]; ld.const.u16 %r3, [limits]; add.s32 %r4, %r2, %r3;"
                 "st.global.u32 [%rd4], %r4;", threads=1,
                 outside=".global .align 4 .u32 table[2] = {5, 7}; .const .align 2 .u16 limits[1] = {300};")  # fmt: skip
    assert out.view("u4")[0] == 307


def test_copies_arrive_when_their_thread_waits():
    body = """
        mov.u32 %r2, smem; shl.b32 %r3, %r1, 3; add.s32 %r4, %r2, %r3;
        cp.async.ca.shared.global [%r4], [%rd3], 8; cp.async.commit_group;
        add.s32 %r5, %r4, 256; cp.async.ca.shared.global [%r5], [%rd3], 8, 4; cp.async.commit_group;
        cp.async.wait_group 1; bar.sync 0; xor.b32 %r6, %r3, 8; add.s32 %r6, %r2, %r6; ld.shared.u32 %r7, [%r6];
        cp.async.wait_all; bar.sync 0; ld.shared.v2.u32 {%r8, %r9}, [%r6+256]; add.s32 %r7, %r7, %r8; add.s32 %r7, %r7, %r9;
        st.global.u32 [%rd4], %r7;
    """
    data = np.arange(32, dtype=np.uint64) | (np.uint64(99) << np.uint64(32))
    out, report = run(body, data=data, shared=512)
    assert out.view("u4")[::2].tolist() == [2 * (n ^ 1) for n in range(32)]
    assert not report.findings


def test_ldmatrix_and_mma_through_the_machine():
    body = """
        mov.u32 %r2, smem; shl.b32 %r3, %r1, 4; add.s32 %r4, %r2, %r3; and.b32 %r5, %r1, 15; mul.wide.u32 %rd10, %r5, 16;
        add.s64 %rd11, %rd1, %rd10; ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd11];
        st.shared.v4.u32 [%r4], {%r10, %r11, %r12, %r13}; bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r20, %r21}, [%r4];
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r22}, [%r4];
        mov.f32 %f9, 0f00000000;
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r20, %r21}, {%r22}, {%f9, %f9, %f9, %f9};
        shl.b32 %r6, %r1, 4; cvt.u64.u32 %rd12, %r6; add.s64 %rd13, %rd2, %rd12; st.global.v4.f32 [%rd13], {%f1, %f2, %f3, %f4};
    """
    a = np.random.default_rng(5).integers(-4, 5, (16, 8)).astype(np.float16)
    out, report = run(body, data=a, shared=512, out_bytes=512)
    d = np.zeros((16, 8))
    for t, values in enumerate(out.view("f4").reshape(32, 4)):
        for v, value in enumerate(values):
            d[t // 4 + 8 * (v // 2), 2 * (t % 4) + v % 2] = value
    assert (d == a.astype(float) @ a[:8].astype(float).T).all()
    assert not report.findings


# Launches


def test_a_kernel_that_never_ends():
    _, report = run("LOOP: add.s32 %r1, %r1, 1; bra.uni LOOP;", step_limit=1000)
    assert report.stopped and not report.completed and "within 1,000 steps" in report.findings[0].message


@pytest.mark.parametrize("text", ["tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [t, {%f1, %f2}];", "mov.u32 %r2, %pm3;"])
def test_unknown_instructions_stop_the_run_where_they_are_reached(text):
    with pytest.raises(EmulationError, match=r"k\.ptx:.*" + text.split(".")[0].split(";")[0]):
        run(f"\n\n{text}")
    out, _ = run(f"setp.eq.s32 %p1, %r1, 99; @!%p1 bra OVER; {text} OVER: st.global.u32 [%rd4], 1;", threads=4)
    assert out.view("u4")[::2].tolist() == [1] * 4


def test_launches_that_make_no_sense():
    module = parse(kernel("ret;"), "k.ptx")
    with pytest.raises(EmulationError, match="no entry other; there are: k"):
        launch(module, "other", grid=1, block=1)
    with pytest.raises(EmulationError, match="takes 16 bytes of parameters, not 8"):
        launch(module, "k", grid=1, block=1, params=bytes(8))
    with pytest.raises(EmulationError, match="at most 1024"):
        launch(module, "k", grid=1, block=(1024, 2), params=bytes(16))
    with pytest.raises(EmulationError, match="positive"):
        launch(module, "k", grid=0, block=32, params=bytes(16))


def test_counts_and_progress():
    seen = []
    _, report = run("mov.u32 %r2, 1;", threads=64, grid=4, lanes=128, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(2, 4), (4, 4)]
    assert report.opcodes["mul.wide.u32"] == 8 and report.warp_instructions == 8 * 8


def test_checks_can_be_left_out():
    body = "mov.u32 %r2, smem; st.shared.u32 [%r2], %r1; ld.shared.u32 %r3, [%r2]; st.global.u32 [%rd4], %r3;"
    out, report = run(body, shared=16, checks=False)
    assert not report.findings and not report.traffic
    assert "shared_race" in kinds(run(body, shared=16)[1]) and len(set(out.view("u4")[::2].tolist())) == 1


def test_wide_addresses_of_shared_memory_are_truncated():
    """PTX ISA, "ld": an address is truncated if its register is wider than addresses of the state space. DeepGEMM passes
    generic addresses to stmatrix.shared."""
    body = """
    mov.u64 %rd6, smem; cvta.shared.u64 %rd7, %rd6;
    mul.wide.u32 %rd8, %r1, 16; add.s64 %rd7, %rd7, %rd8;
    setp.ge.u32 %p1, %r1, 8;
    @!%p1 cp.async.ca.shared.global [%rd7], [%rd3], 8;
    cp.async.wait_all; bar.warp.sync -1;
    @!%p1 ld.shared.u64 %rd9, [%rd7];
    @!%p1 st.global.u64 [%rd4], %rd9;
    add.s32 %r2, %r1, 5;
    bar.warp.sync -1;
    stmatrix.sync.aligned.m8n8.x1.shared.b16 [%rd7], {%r2};
    bar.warp.sync -1;
    @!%p1 atom.shared.add.u32 %r3, [%rd7], 1;
    bar.warp.sync -1;
    @!%p1 ld.u32 %r4, [%rd7];
    @!%p1 st.global.u32 [%rd4+128], %r4;
    """
    out, report = run(body, shared=512, out_bytes=256, data=np.arange(64, dtype=np.uint64))
    assert not report.findings, "\n".join(map(str, report.findings))
    assert out.view(np.uint64)[:8].tolist() == list(range(8))
    # Row r of the matrix is written by the threads 4r..4r+3, the first of which has 4r + 5.
    assert out.view(np.uint32)[32:48:2].tolist() == [4 * row + 6 for row in range(8)]


def test_some_ctas_alone_are_executed():
    body = "mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd6, %r2, 8; add.s64 %rd7, %rd2, %rd6; st.global.u32 [%rd7], %r2;"
    out, report = run(body, threads=1, grid=7, out_bytes=56, lanes=32, first_cta=5)
    assert out.view("u4")[::2].tolist() == [M32] * 5 + [5, 6] and report.ctas == 2
