"""A ring of stages in small: a producer warp, a warpgroup that multiplies, two CTAs that share an operand. Right as it is;
every wait, fence and arrival that is taken out of it is missed."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from mmagen.emulate import TensorMap
from tests.support.ptx_hopper import run, sums_of, text

K_TILES, STAGES, N = 5, 2, 8
A_BYTES, B_BYTES = 64 * 32, N * 32
STAGE = 4096  # A at its begin, B 2048 bytes further
BARS = STAGES * STAGE  # full, then empty
_D = ", ".join(f"%d{i}" for i in range(4))

BODY = f"""
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    mov.u32 %r12, 0;
    mov.u32 %r20, 0;
    mul.wide.u32 %rd6, %rank, 128;
    add.u64 %rd7, %map, 128;
    add.u32 %bar, %base, {BARS};
    @!%lead bra READY;
    mbarrier.init.shared::cta.b64 [%bar], 1;
    mbarrier.init.shared::cta.b64 [%bar+8], 1;
    mbarrier.init.shared::cta.b64 [%bar+16], 2;
    mbarrier.init.shared::cta.b64 [%bar+24], 2;
    fence.mbarrier_init.release.cluster;
READY:
    barrier.cluster.arrive.release.aligned; //start
    barrier.cluster.wait.acquire.aligned; //start
    setp.eq.u32 %p, %warp, 4;
    @%p bra PRODUCER;
    mov.f32 %d0, 0f00000000;
    mov.f32 %d1, %d0;
    mov.f32 %d2, %d0;
    mov.f32 %d3, %d0;
CONSUME:
    shl.b32 %r13, %r11, 3;
    add.u32 %r13, %bar, %r13;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%r13], %r12; //full
    @!%q bra FULL;
    shl.b32 %r14, %r11, 12;
    add.u32 %r14, %base, %r14;
    shr.u32 %r14, %r14, 4;
    cvt.u64.u32 %rd2, %r14;
    or.b64 %rd2, %rd2, {(16 << 32) | (3 << 62)};
    add.u64 %rd3, %rd2, 128;
    wgmma.fence.sync.aligned;
    setp.ne.b32 %p, 1, 0;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{_D}}}, %rd2, %rd3, %p, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0; //over
    setp.lt.u32 %p, %tid, 2;
    mapa.shared::cluster.u32 %r15, %r13, %tid;
    @%p mbarrier.arrive.shared::cluster.b64 _, [%r15+16]; //read
    xor.b32 %r11, %r11, 1;
    setp.eq.u32 %p, %r11, 0;
    selp.u32 %r16, 1, 0, %p;
    xor.b32 %r12, %r12, %r16;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p, %r10, {K_TILES};
    @%p bra CONSUME;
    mad.wide.u32 %rd5, %rank, {64 * N * 4}, %out;
    mad.wide.u32 %rd5, %tid, 16, %rd5;
    st.global.v4.f32 [%rd5], {{{_D}}};
    bra END;
PRODUCER:
    setp.ne.u32 %p, %lane, 0;
    @%p bra END;
    mov.u16 %h0, 3;
PRODUCE:
    shl.b32 %r13, %r11, 3;
    add.u32 %r13, %bar, %r13;
    xor.b32 %r17, %r12, 1;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%r13+16], %r17; //empty
    @!%q bra EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], {A_BYTES + B_BYTES};
    shl.b32 %r14, %r11, 12;
    add.u32 %r14, %base, %r14;
    shl.b32 %r18, %r10, 4;
    shl.b32 %r19, %rank, 6;
    cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%map, {{%r18, %r19, %r20}}], [%r13];
    shl.b32 %r19, %rank, 2;
    shl.b32 %r21, %rank, 7;
    add.u32 %r14, %r14, %r21;
    add.u32 %r14, %r14, 2048;
    cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r14], [%rd7, {{%r18, %r19, %r20}}], [%r13], %h0;
    xor.b32 %r11, %r11, 1;
    setp.eq.u32 %p, %r11, 0;
    selp.u32 %r16, 1, 0, %p;
    xor.b32 %r12, %r12, %r16;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p, %r10, {K_TILES};
    @%p bra PRODUCE;
END:
    bar.warp.sync -1;
    barrier.cluster.arrive.release.aligned; //end
    barrier.cluster.wait.acquire.aligned; //end
"""


@cache
def operands():
    rng = np.random.default_rng(3)
    k = 16 * K_TILES
    return rng.integers(-3, 4, (128, k)).astype(np.float16), rng.integers(-3, 4, (N, k)).astype(np.float16)


def outcome(*edits):
    """(whether D is right, the report) of the kernel with texts replaced."""
    body = BODY
    for old, new in edits:
        assert old in body, old
        body = body.replace(old, new)
    a, b = operands()
    k = a.shape[1]
    data = np.concatenate([a.reshape(-1), b.reshape(-1)])
    pair = (
        lambda i, o: TensorMap(i, 2, (k, 128, 1), (2 * k, 256 * k), (16, 64, 1), 32),
        lambda i, o: TensorMap(i + 256 * k, 2, (k, N, 1), (2 * k, 2 * k * N), (16, N // 2, 1), 32),
    )
    got, report = run(
        text(body, "    .reg .f32 %d<4>;", maps=2),
        data,
        2 * 64 * N * 4,
        maps=pair,
        grid=2,
        cluster=2,
        block=160,
        smem=BARS + 64,
        filled=True,
    )
    d = np.concatenate([sums_of(part.reshape(128, -1), N) for part in got.view(np.float32).reshape(2, -1)])
    return bool((d == a.astype(np.float64) @ b.astype(np.float64).T).all()), report


def test_as_it_is_it_is_right():
    right, report = outcome()
    assert right and report.completed and not report.findings


WAIT_FULL = "mbarrier.try_wait.parity.shared::cta.b64 %q, [%r13], %r12; //full"
WAIT_EMPTY = "mbarrier.try_wait.parity.shared::cta.b64 %q, [%r13+16], %r17; //empty"
FAULTS = {
    "no full wait": ([(WAIT_FULL, "setp.eq.u32 %q, 0, 0;")], "deadlock", "waits forever"),
    "no full wait after the first": ([(WAIT_FULL, f"setp.ne.u32 %q, %r10, 0;\n    @%q bra GO;\n    {WAIT_FULL}"),
                                      ("    @!%q bra FULL;", "    @!%q bra FULL;\nGO:")], "async_race", "without having waited"),
    "no empty wait": ([(WAIT_EMPTY, "setp.eq.u32 %q, 0, 0;")], "async_race", "overwrites shared byte"),
    "wgmma not waited for": ([("wgmma.wait_group.sync.aligned 0; //over", "")], "async_race", "a wgmma reads"),
    "released a tile early": ([("0; //over", "1; //over")], "async_race", "a wgmma reads"),
    "too many bytes announced": ([(f"{A_BYTES + B_BYTES};", f"{A_BYTES + B_BYTES + 16};")], "deadlock",
                                 "16 announced bytes never arrive"),
    "too few bytes announced": ([(f"{A_BYTES + B_BYTES};", f"{A_BYTES + B_BYTES - 16};")], "deadlock",
                                "16 more bytes arrived than were announced"),
    "half of the bytes announced": ([(f"{A_BYTES + B_BYTES};", f"{A_BYTES};")], "mbarrier", "while copies to it are in flight"),
    "consumer in the wrong phase": ([(WAIT_FULL, "xor.b32 %r17, %r12, 1;\n" + WAIT_FULL.replace("%r12", "%r17"))], "deadlock",
                                    "arrivals are there"),
    "producer in the wrong phase": ([("xor.b32 %r17, %r12, 1;", "mov.u32 %r17, %r12;")], "deadlock",
                                    "0 of 2 arrivals are there"),
    "an arrival too few": ([("setp.lt.u32 %p, %tid, 2;", "setp.lt.u32 %p, %tid, 1;")], "deadlock", "of 2 arrivals are there"),
    "arrivals for one only": ([("[%bar+16], 2", "[%bar+16], 1"), ("[%bar+24], 2", "[%bar+24], 1")], "deadlock", "0 of 1 arrivals"),
    "arrivals never needed": ([("[%bar+16], 2", "[%bar+16], 3"), ("[%bar+24], 2", "[%bar+24], 3")], "deadlock", "2 of 3 arrivals"),
    "no fence after init": ([("fence.mbarrier_init.release.cluster;", ""),
                             ("barrier.cluster.arrive.release.aligned; //start", "barrier.cluster.arrive.relaxed.aligned;")],
                            "proxy_fence", "neither fence.mbarrier_init nor a release"),
    "a fence of the CTA's scope": ([("fence.mbarrier_init.release.cluster;", "fence.acq_rel.cta;"),
                                    ("barrier.cluster.arrive.release.aligned; //start",
                                     "barrier.cluster.arrive.relaxed.aligned;")],
                                   "proxy_fence", "neither fence.mbarrier_init nor a release"),
    "no barrier after init": ([("barrier.cluster.arrive.release.aligned; //start", ""),
                               ("barrier.cluster.wait.acquire.aligned; //start", "")],
                              "mbarrier", ""),
    "no init": ([("mbarrier.init.shared::cta.b64 [%bar+8], 1;", "")], "mbarrier", "which nothing initialised"),
    "a CTA leaves early": ([("barrier.cluster.arrive.release.aligned; //end", ""),
                            ("barrier.cluster.wait.acquire.aligned; //end", "")],
                           "cluster_exit", "may have ended"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name):
    edits, kind, says = FAULTS[name]
    _, report = outcome(*edits)
    assert [f for f in report.findings if f.kind == kind and says in f.message], "\n".join(map(str, report.findings))


def test_barriers_may_be_made_known_by_a_relaxed_arrival():
    right, report = outcome(("barrier.cluster.arrive.release.aligned; //start", "barrier.cluster.arrive.relaxed.aligned;"))
    assert right and not report.findings


def test_any_release_at_cluster_scope_makes_barriers_known():
    """fence.mbarrier_init is the weakest of them: PTX ISA, "membar/fence"."""
    relaxed = ("barrier.cluster.arrive.release.aligned; //start", "barrier.cluster.arrive.relaxed.aligned;")
    for edits in (
        [("fence.mbarrier_init.release.cluster;", "")],
        [("mbarrier_init.release.cluster;", "acq_rel.cluster;"), relaxed],
    ):
        right, report = outcome(*edits)
        assert right and not report.findings


def test_a_relaxed_arrival_at_the_end_orders_nothing():
    _, report = outcome(("barrier.cluster.arrive.release.aligned; //end", "barrier.cluster.arrive.relaxed.aligned;"))
    assert {f.kind for f in report.findings} == {"cluster_exit"}


def test_swizzles_that_differ_give_a_wrong_product():
    right, _ = outcome((f"{(16 << 32) | (3 << 62)}", f"{(16 << 32) | (16 << 16)}"))
    assert not right


def test_a_deadlock_names_barrier_phase_and_threads():
    _, report = outcome((f"{A_BYTES + B_BYTES};", f"{A_BYTES + B_BYTES + 16};"))
    (full,) = [f for f in report.findings if f.kind == "deadlock" and "bytes never arrive" in f.message]
    assert not report.completed
    assert f"thread 0 of CTA 0 waits forever for phase 0 (parity 0) of the mbarrier at shared byte {BARS}" in full.message
    assert "1 of 1 arrivals are there" in full.message and full.instruction.startswith("mbarrier.try_wait")
