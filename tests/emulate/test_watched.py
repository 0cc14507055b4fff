"""What vector clocks find in shared memory, access by access: each kernel is right but for one thing, and is without it."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import EmulationError, TensorMap
from tests.support.ptx_hopper import run, text

BAR = 1024
# Threads have a word each, %r1; warp 0 is %p, warp 1 is %q.
BEGIN = f"""
    .reg .pred %one, %last;
    add.u32 %bar, %base, {BAR};
    @%lead mbarrier.init.shared::cta.b64 [%bar], 1;
    @%lead fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    shl.b32 %r1, %tid, 2;
    add.u32 %r1, %r1, %base;
    setp.eq.u32 %p, %warp, 0;
    setp.eq.u32 %q, %warp, 1;
    setp.eq.u32 %one, %tid, 1;
    setp.eq.u32 %last, %tid, 31;
    mov.u32 %r20, 0;
"""
WRITE = "    st.shared.u32 [%r1], %tid;\n"
WIDE = """
    shl.b32 %r4, %tid, 4;
    add.u32 %r4, %r4, %base;
    @%p st.shared.v4.u32 [%r4], {%tid, %tid, %tid, %tid};
"""
COPY = """
    mul.wide.u32 %rd3, %tid, 4;
    add.u64 %rd3, %rd3, %in;
    cp.async.ca.shared.global [%r1], [%rd3], 4;
"""
FENCE = "    fence.proxy.async.shared::cta;\n"
ALL = "    bar.sync 0;\n"
WARP = "    bar.warp.sync -1;\n"
READ = "    @%p ld.shared.u32 %r2, [%r1];\n"
FIRST = "ld.shared.u32 %r2, [%base];\n"
SEND = """
    @%lead cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%map, {%r20, %r20, %r20}], [%base];
    @%lead cp.async.bulk.commit_group;
"""
SENT = "    @%lead cp.async.bulk.wait_group.read 0;\n"
LOAD = """
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 512;
    add.u64 %rd2, %map, 128;
    @%lead cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%base], [%rd2, {%r20, %r20, %r20}], [%bar];
WAITING:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
    @!%p bra WAITING;
"""
TOGETHER = "    barrier.cluster.arrive.release.aligned;\n    barrier.cluster.wait.acquire.aligned;\n"
# name: (the kernel in pieces, which piece is left out, the kind of finding, a word of its message)
KERNELS = {
    "overwritten after a read": (
        [WRITE, ALL, READ, ALL, "    @%q st.shared.u32 [%r1+-128], %tid;\n"],
        3,
        "shared_race",
        "thread 0 read",
    ),
    "overwritten by one of two readers": (
        [WRITE, ALL, f"    @%lead {FIRST}    @%one {FIRST}", WARP, "    @%one st.shared.u32 [%base], %tid;\n"],
        3,
        "shared_race",
        "read",
    ),
    "overwritten by one who read with others": (
        [WRITE, ALL, f"    @%p {FIRST}", WARP, "    @%last st.shared.u32 [%base], %tid;\n"],
        3,
        "shared_race",
        "read",
    ),
    "written after another wrote": ([WRITE, ALL, "    @%q st.shared.u32 [%r1+-128], %tid;\n"], 1, "shared_race", "wrote"),
    "sent without all fences": ([WRITE, FENCE, ALL, SEND, SENT], 1, "proxy_fence", "asynchronously"),
    "sent without all fences of a warp": ([WIDE, FENCE, WARP, SEND, SENT], 1, "proxy_fence", "asynchronously"),
    "sent without a warp's others": ([WIDE, FENCE, WARP, SEND, SENT], 2, "shared_race", "thread 1 wrote"),
    "sent with a write after the fence": ([WRITE, FENCE, WRITE, FENCE, ALL, SEND, SENT], 3, "proxy_fence", "asynchronously"),
    "read before its copy came": ([COPY, "    cp.async.wait_all;\n", READ], 1, "cp_async_unwaited", "in flight"),
    "sent before it was written": ([WRITE, FENCE, ALL, SEND, SENT], 0, "uninitialised_shared", "nothing wrote"),
    "loaded over what threads wrote": ([WRITE, FENCE, ALL, LOAD], 1, "proxy_fence", "overwrites"),
    "loaded over what threads read": ([WRITE, FENCE, ALL, READ, ALL, LOAD], 4, "shared_race", "read"),
    "loaded over what is being sent": ([WRITE, FENCE, ALL, SEND, SENT, LOAD], 4, "async_race", "a bulk store"),
}


def outcome(pieces, cluster=1):
    def box(address):
        return TensorMap(address, 4, (32, 4, 1), (128, 512), (32, 4, 1), 16)

    _, report = run(
        text(BEGIN + "".join(pieces) + TOGETHER, maps=2),
        np.zeros(128, np.uint32),
        512,
        smem=BAR + 64,
        filled=True,
        maps=(lambda i, o: box(o), lambda i, o: box(i)),
        grid=cluster,
        cluster=cluster,
    )
    return report


@pytest.mark.parametrize("name", KERNELS)
def test_one_thing_makes_the_difference(name):
    pieces, without, kind, word = KERNELS[name]
    whole = outcome(pieces)
    assert whole.completed and not whole.findings
    found = outcome(pieces[:without] + pieces[without + 1 :]).findings
    assert [f for f in found if f.kind == kind and word in f.message], found


def test_all_write_one_word():
    (finding,) = outcome(["    st.shared.u32 [%base], %tid;\n"]).findings
    assert finding.kind == "shared_race" and "together with" in finding.message


@pytest.mark.parametrize("waits", [True, False])
def test_what_another_cta_reads_is_not_to_be_overwritten(waits):
    away = """
    setp.eq.u32 %p, %rank, 1;
    mov.u32 %r3, 0;
    mapa.shared::cluster.u32 %r4, %r1, %r3;
    @%p ld.shared::cluster.u32 %r2, [%r4];
"""
    found = outcome([WRITE, TOGETHER, away, TOGETHER * waits, "    @!%p st.shared.u32 [%r1], %tid;\n"], cluster=2).findings
    assert {f.kind for f in found} == (set() if waits else {"async_race"})


@pytest.mark.parametrize(
    ("body", "kind", "word"),
    [
        ("    barrier.cluster.wait.acquire.aligned;\n", "barrier_divergence", "without having arrived"),
        (f"    @%lead mbarrier.init.shared::cta.b64 [%base+{BAR + 12}], 1;\n", "mbarrier", "misaligned or out of bounds"),
        (f"    @%lead mbarrier.init.shared::cta.b64 [%base+{BAR + 64}], 1;\n", "mbarrier", "misaligned or out of bounds"),
        (f"    @%lead mbarrier.init.shared::cta.b64 [%base+{BAR + 16}], 0;\n", "mbarrier", "for 0 arrivals"),
    ],
)
def test_barriers_that_are_used_wrongly(body, kind, word):
    assert [f for f in outcome([body]).findings if f.kind == kind and word in f.message]


@pytest.mark.parametrize(("place", "kind"), [("%base+64", "misaligned"), ("%base+896", "shared_out_of_bounds")])
def test_boxes_that_cannot_be_there(place, kind):
    found = outcome([WRITE, FENCE, ALL, SEND.replace("[%base]", f"[{place}]"), SENT]).findings
    assert [f.kind for f in found] == [kind]


def test_a_tensor_map_lies_at_a_multiple_of_64():
    with pytest.raises(EmulationError, match="not a multiple of 64"):
        outcome([WRITE, FENCE, ALL, "    add.u64 %map, %map, 32;\n", SEND, SENT])


def test_each_thread_may_have_an_mbarrier():
    own = "    add.u32 %r4, %r1, %tid;\n    add.u32 %r4, %r4, %tid;\n    add.u32 %r4, %r4, %tid;\n    add.u32 %r4, %r4, %tid;\n"
    body = f"{own}    mbarrier.init.shared::cta.b64 [%r4], 1;\n{ALL}    mbarrier.arrive.shared::cta.b64 _, [%r4];\n"
    report = outcome([body])
    assert report.completed and not report.findings
