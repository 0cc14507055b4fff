"""Bulk copies and reductions of consecutive bytes, without a tensor map."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import EmulationError
from tests.emulate.test_tma import SETUP, WAIT, copy_out
from tests.support.ptx_hopper import run, text

_SMEM = 16448
LOAD = """
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], BYTES;
    @%lead cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%base], [%in], BYTES, [%bar];
"""
STORE = """
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%lead COPY [%out], [%base], 512;
    @%lead cp.async.bulk.commit_group;
    @%lead cp.async.bulk.wait_group 0;
"""
WRITE = """
    shl.b32 %r1, %tid, 2;
    add.u32 %r1, %r1, %base;
    mad.wide.u32 %rd3, %tid, 4, %in;
    ld.global.b32 %r2, [%rd3];
    st.shared.b32 [%r1], %r2;
"""


def kinds(report) -> set[str]:
    return {f.kind for f in report.findings}


@pytest.mark.parametrize("size", [16, 512, 2048])
def test_a_load_arrives_at_its_mbarrier(size):
    data = np.arange(2048, dtype=np.uint8)
    ptx = text(SETUP + LOAD.replace("BYTES", str(size)) + WAIT + copy_out(size))
    got, report = run(ptx, data, size, smem=_SMEM)
    assert (got == data[:size]).all() and not report.findings
    _, report = run(ptx.replace(WAIT, ""), data, size, smem=_SMEM)
    assert kinds(report) & {"async_race", "uninitialised_shared"}


@pytest.mark.parametrize(
    "edit, kind",
    [
        (("[%in], BYTES", "[%in], 24"), "misaligned"),
        (("[%in], BYTES", "[%in+8], BYTES"), "misaligned"),
        (("[%base], [%in]", "[%base+8], [%in]"), "misaligned"),
        (("[%in], BYTES", "[%in+1792], BYTES"), "global_out_of_bounds"),
        (("[%base], [%in]", "[%base+16000], [%in]"), "shared_out_of_bounds"),
    ],
)
def test_loads_that_make_no_sense(edit, kind):
    ptx = text(SETUP + LOAD.replace(*edit).replace("BYTES", "512") + "    bar.sync 0;\n")
    assert kind in kinds(run(ptx, np.zeros(2048, np.uint8), 16, smem=_SMEM)[1])


def test_a_store_needs_its_fence_and_its_wait():
    data, copy = np.arange(128, dtype=np.uint32), "cp.async.bulk.global.shared::cta.bulk_group"
    body = WRITE + STORE.replace("COPY", copy)
    got, report = run(text(body), data, 512)
    assert (got.view(np.uint32) == data).all() and not report.findings
    assert kinds(run(text(body.replace("fence.proxy.async.shared::cta;", "")), data, 512)[1]) == {"proxy_fence"}
    assert kinds(run(text(body.replace("@%lead cp.async.bulk.wait_group 0;", "")), data, 512)[1]) == {"async_race"}


SEND = """
    xor.b32 %r20, %rank, 1;
    mapa.shared::cluster.u32 %r21, %base, %r20;
    add.u32 %r21, %r21, 2048;
    mapa.shared::cluster.u32 %r22, %bar, %r20;
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 512;
    fence.proxy.async.shared::cta;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    @%lead COPY [%r21], [%base], 512, [%r22];
"""
BETWEEN = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
SUM = "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32"
# Each thread writes 1,000 times its rank, plus its number; the other CTA gets that.
OWN = """
    mad.lo.u32 %r1, %tid, 4, %base;
    mad.lo.u32 %r2, %rank, 1000, %tid;
    st.shared.u32 [%r1], %r2;
"""
INITIAL = "    mov.u32 %r3, 7;\n    st.shared.u32 [%r1+2048], %r3;\n"
RESULT = """
    ld.shared.u32 %r4, [%r1+2048];
    mad.lo.u32 %r30, %rank, 128, %tid;
    mad.wide.u32 %rd15, %r30, 4, %out;
    st.global.u32 [%rd15], %r4;
"""
SYNC = """
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
"""


def between(body, copy=BETWEEN, initial=""):
    return text(SETUP + OWN + initial + SEND.replace("COPY", copy) + body)


def of_pair(ptx):
    got, report = run(ptx, np.zeros(4, np.uint8), 1024, grid=2, cluster=2, smem=_SMEM)
    return got.view(np.uint32).reshape(2, 128), report


@pytest.mark.parametrize("copy, initial, more", [(BETWEEN, "", 0), (SUM, INITIAL, 7)])
def test_a_cta_sends_to_another_one(copy, initial, more):
    got, report = of_pair(between(WAIT + RESULT + SYNC, copy, initial))
    assert (got == np.arange(128) + np.array([[1000], [0]]) + more).all() and not report.findings


@pytest.mark.parametrize(
    "copy, initial, edits, kind, words",
    [
        (BETWEEN, "", [(WAIT, "")], "async_race", "without having waited for phase 0"),
        (SUM, INITIAL, [(WAIT, "")], "async_race", "without having waited for phase 0"),
        # Its own CTA's phase says nothing of the copy that it has sent.
        (BETWEEN, "", [(RESULT, RESULT + "    st.shared.u32 [%r1], %r4;\n")], "async_race", "without having waited for that"),
        (BETWEEN, "", [("fence.proxy.async.shared::cta;", "")], "proxy_fence", "no fence.proxy.async"),
        (SUM, INITIAL, [("fence.proxy.async.shared::cta;", "")], "proxy_fence", "no fence.proxy.async"),
        (SUM, "", [], "uninitialised_shared", "changes"),
        (BETWEEN, "", [(RESULT + SYNC, RESULT)], "cluster_exit", "may have ended"),
        (BETWEEN, "", [("%base, %r20;", "%base, %rank;")], "shared_out_of_bounds", "its own CTA"),
        (BETWEEN, "", [("%bar, %r20;", "%bar, %rank;")], "mbarrier", "the mbarrier of another"),
        (BETWEEN, "", [("[%base], 512, [%r22]", "[%base], 500, [%r22]")], "misaligned", "multiples of 16"),
        (BETWEEN, "", [("[%base], 512, [%r22]", "[%base+16384], 512, [%r22]")], "shared_out_of_bounds", "there are"),
    ],
)
def test_what_is_wrong_with_copies_between_ctas(copy, initial, edits, kind, words):
    ptx = between(WAIT + RESULT + SYNC, copy, initial)
    for old, new in edits:
        assert old in ptx
        ptx = ptx.replace(old, new)
    found = [f.message for f in of_pair(ptx)[1].findings if f.kind == kind]
    assert any(words in message for message in found), found


def test_what_the_ptx_isa_does_not_have():
    for form, words in (
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64", "of these there are .u32"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.s32", "there are .u32"),
    ):
        with pytest.raises(EmulationError, match=words):
            run(text(WRITE + STORE.replace("COPY", form)), np.zeros(128, np.uint32), 512)
    with pytest.raises(EmulationError, match="there is no reduction"):
        of_pair(between(SYNC, SUM.replace("u32", "f32"), INITIAL))
