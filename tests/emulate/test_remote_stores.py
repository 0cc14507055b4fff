"""st.async and red.async: stores to other CTAs of a cluster, which complete at an mbarrier there."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import EmulationError
from tests.emulate.test_tma import BAR, WAIT
from tests.support.ptx_hopper import run, text

_SMEM = BAR + 64
_SYNC = """
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
"""
# All threads of a CTA store to the other one, 4 bytes each; the mbarrier expects 512.
SETUP = (
    f"""
    add.u32 %bar, %base, {BAR};
    @%lead mbarrier.init.shared::cta.b64 [%bar], 1;
    @%lead fence.mbarrier_init.release.cluster;
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], BYTES;
    mad.lo.u32 %r1, %tid, SIZE, %base;
    xor.b32 %r20, %rank, 1;
    mapa.shared::cluster.u32 %r21, %r1, %r20;
    mapa.shared::cluster.u32 %r22, %bar, %r20;
    mad.lo.u32 %r2, %rank, 1000, %tid;
INITIAL"""
    + _SYNC
)
STORE = "    st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r21], %r2, [%r22];\n"
RED = "    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r21], %r2, [%r22];\n"
ZERO = "    st.shared.u32 [%r1], %tid;\n"
RESULT = """
    ld.shared.u32 %r4, [%r1];
    mad.lo.u32 %r30, %rank, 128, %tid;
    mad.wide.u32 %rd15, %r30, 4, %out;
    st.global.u32 [%rd15], %r4;
"""
STAY = _SYNC


def kernel(*parts, initial="", size=4, total=512):
    body = SETUP.replace("INITIAL", initial).replace("SIZE", str(size)).replace("BYTES", str(total)) + "".join(parts)
    return text(body, registers="    .reg .f64 %fd<4>;")


def outcome(ptx, cluster=2, data=None):
    given = np.zeros(4, np.uint32) if data is None else data
    got, report = run(ptx, given, 512 * cluster, grid=cluster, cluster=cluster, smem=_SMEM)
    return got.view(np.uint32).reshape(cluster, 128), report


def messages(report, kind):
    return [f.message for f in report.findings if f.kind == kind]


OTHERS = np.array([[1000], [0]]) + np.arange(128)


def test_stores_arrive_when_their_mbarrier_says_so():
    got, report = outcome(kernel(STORE, WAIT, RESULT, STAY))
    assert (got == OTHERS).all() and not report.findings
    for no_wait in ("", "    bar.sync 0;\n", _SYNC):
        _, report = outcome(kernel(STORE, no_wait, RESULT, STAY))
        assert "without having waited for phase 0 of the mbarrier" in messages(report, "async_race")[0]


@pytest.mark.parametrize(
    "form, value, words", [("v2.b32", "{%r2, %r2}", 2), ("v4.u32", "{%r2, %r2, %r2, %r2}", 4), ("b64", "%rd2", 2)]
)
def test_vectors_and_wide_elements(form, value, words):
    store = "    mov.b64 %rd2, {%r2, %r2};\n" + STORE.replace("async", "async.weak").replace("b32", form).replace(
        "%r2,", f"{value},"
    )
    result = RESULT.replace("[%r1]", f"[%r1+{4 * words - 4}]")
    got, report = outcome(kernel(store, WAIT, result, STAY, size=4 * words, total=512 * words))
    assert (got == OTHERS).all() and not report.findings


def test_generic_addresses():
    store = """
    cvt.u64.u32 %rd2, %r21;
    cvta.shared.u64 %rd2, %rd2;
    cvt.u64.u32 %rd3, %r22;
    cvta.shared.u64 %rd3, %rd3;
    st.async.mbarrier::complete_tx::bytes.b32 [%rd2], %r2, [%rd3];
"""
    got, report = outcome(kernel(store, WAIT, RESULT, STAY))
    assert (got == OTHERS).all() and not report.findings


@pytest.mark.parametrize(
    "operation, expected",
    [
        ("add.u32", lambda old, new: old + new),
        ("add.s32", lambda old, new: old + new),
        ("min.u32", np.minimum),
        ("max.s32", np.maximum),
        ("and.b32", np.bitwise_and),
        ("or.b32", np.bitwise_or),
        ("xor.b32", np.bitwise_xor),
        ("inc.u32", lambda old, new: np.where(old >= new, 0, old + 1)),
        ("dec.u32", lambda old, new: np.where((old == 0) | (old > new), new, old - 1)),
    ],
)
def test_reductions(operation, expected):
    initial = "    xor.b32 %r5, %tid, 21;\n    st.shared.u32 [%r1], %r5;\n"
    got, report = outcome(kernel(RED.replace("add.u32", operation), WAIT, RESULT, STAY, initial=initial))
    assert (got == expected(np.arange(128) ^ 21, OTHERS)).all() and not report.findings


def test_many_threads_and_ctas_add_to_one_element():
    """Each thread of both other CTAs adds to the first element of CTA 0, which expects the bytes of all."""
    red = """
    mov.u32 %r20, 0;
    mapa.shared::cluster.u32 %r21, %base, %r20;
    mapa.shared::cluster.u32 %r22, %bar, %r20;
    setp.ne.u32 %q, %rank, 0;
"""
    last = "    @%q bra END;\n" + WAIT + RESULT.replace("[%r1]", "[%base]") + "END:\n"
    ptx = kernel(red, RED.replace("    red", "    @%q red"), last, STAY, initial=ZERO, total=1024)
    got, report = outcome(ptx, cluster=3)
    assert (got[0] == sum(1000 * rank + thread for rank in (1, 2) for thread in range(128))).all()
    assert not report.findings
    mixed = ptx.replace("red.async.relaxed.cluster", "st.async").replace("bytes.add.u32", "bytes.u32")
    assert "another thread stores too" in " ".join(messages(outcome(mixed, cluster=3)[1], "async_race"))


@pytest.mark.parametrize(
    "parts, initial, kind, words",
    [
        # What the other CTA reads or writes must be over before the store is issued.
        ((ZERO, STORE, WAIT, RESULT, STAY), "", "shared_race", "overwrites"),
        ((STORE, STORE, WAIT, RESULT, STAY), "", "async_race", "without having waited for phase 0"),
        ((STORE, RED, WAIT, RESULT, STAY), "", "async_race", "without having waited for phase 0"),
        ((RED, WAIT, RESULT, STAY), "", "uninitialised_shared", "changes"),
        ((STORE,), "", "cluster_exit", "may have ended"),
        ((STORE.replace("[%r22]", "[%bar]"), WAIT, RESULT, STAY), "", "mbarrier", "the mbarrier of another"),
        ((STORE.replace("[%r21]", "[%r21+2]"), WAIT, STAY), "", "misaligned", "not a multiple of 4"),
        ((STORE.replace("[%r21]", "[%r21+16640]"), WAIT, STAY), "", "shared_out_of_bounds", "there are"),
        ((STORE.replace("[%r22]", "[%r22+8]"), WAIT, STAY), "", "mbarrier", "nothing initialised"),
        ((RED.replace("%r21", "%r1").replace("%r22", "%bar"), WAIT, STAY), ZERO, "shared_out_of_bounds", "its own CTA's"),
        ((STORE, WAIT.replace("try_wait.parity.", "try_wait.parity.acquire.cta."), RESULT, STAY), "", "async_race", "reads"),
    ],
)
def test_what_is_wrong(parts, initial, kind, words):
    found = messages(outcome(kernel(*parts, initial=initial))[1], kind)
    assert any(words in message for message in found), found


def test_bytes_must_be_announced():
    _, report = outcome(kernel(STORE, WAIT, RESULT, STAY, total=1024))
    assert "512 announced bytes never arrive" in messages(report, "deadlock")[0]
    _, report = outcome(kernel(STORE, WAIT, RESULT, STAY, total=256))
    assert "256 more bytes arrived" in messages(report, "deadlock")[0]


def test_a_store_needs_a_cluster_and_global_memory_a_newer_gpu():
    own = STORE.replace("%r21", "%r1").replace("%r22", "%bar")
    assert "needs a cluster" in messages(outcome(kernel(own, STAY), cluster=1)[1], "mbarrier")[0]
    with pytest.raises(EmulationError, match="need sm_100"):
        outcome(kernel("    st.async.release.gpu.global.b32 [%out], %r2;\n", STAY))
    with pytest.raises(EmulationError, match="there is no reduction"):
        outcome(kernel(RED.replace("add.u32", "inc.s32"), STAY))


def test_its_own_cta_is_a_place_too():
    own = STORE.replace("%r21", "%r1").replace("%r22", "%bar")
    got, report = outcome(kernel(own, WAIT, RESULT, STAY))
    assert (got == OTHERS[::-1]).all() and not report.findings


def test_tma_reads_what_came_by_the_generic_proxy_after_a_fence():
    """st.async belongs to the generic proxy, unlike TMA's copies: to TMA it needs a fence."""
    out = """
    bar.sync 0;
    mul.wide.u32 %rd6, %rank, 512;
    add.u64 %rd6, %out, %rd6;
    @%lead cp.async.bulk.global.shared::cta.bulk_group [%rd6], [%base], 512;
    @%lead cp.async.bulk.commit_group;
    @%lead cp.async.bulk.wait_group 0;
"""
    for fence in ("fence.proxy.async;", "fence.proxy.async.shared::cta;"):
        got, report = outcome(kernel(STORE, WAIT, f"    {fence}\n", out, STAY))
        assert (got == OTHERS).all() and not report.findings
    for fence in ("", "    fence.proxy.async.global;\n"):
        _, report = outcome(kernel(STORE, WAIT, fence, out, STAY))
        assert "no fence.proxy.async between" in messages(report, "proxy_fence")[0]


def test_complete_tx_by_a_thread():
    body = "    @%lead mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r22], 512;\n"
    _, report = outcome(kernel(body, WAIT, STAY))
    assert not report.findings
    _, report = outcome(kernel(body.replace("512", "500"), WAIT, STAY))
    assert "12 announced bytes never arrive" in messages(report, "deadlock")[0]
