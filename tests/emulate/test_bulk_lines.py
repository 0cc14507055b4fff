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


@pytest.mark.parametrize(
    "form, values, before, expected",
    [
        ("add.u32", np.arange(128, dtype=np.uint32), 5, lambda a: a + 5),
        ("add.f32", np.arange(128, dtype=np.float32), 0x3F800000, lambda a: a + np.float32(1)),
        ("min.s32", np.arange(-64, 64, dtype=np.int32), 0, lambda a: np.minimum(a, 0)),
        ("xor.b32", np.arange(128, dtype=np.uint32), 3, lambda a: a ^ 3),
        ("add.noftz.f16", np.arange(256, dtype=np.float16), 0x40003C00, lambda a: a + np.tile(np.float16([1, 2]), 128)),
    ],
)
def test_reductions(form, values, before, expected):
    first = f"    mad.wide.u32 %rd4, %tid, 4, %out;\n    st.global.u32 [%rd4], {before};\n    bar.sync 0;\n"
    copy = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{form}"
    got, report = run(text(first + WRITE + STORE.replace("COPY", copy)), values, 512, filled=True)
    np.testing.assert_array_equal(got.view(values.dtype), expected(values))
    assert not report.findings


def test_copies_between_ctas_are_refused():
    copy = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%base], [%base+64], 16, [%bar];"
    with pytest.raises(EmulationError, match="bulk copies between CTAs"):
        run(text(SETUP + f"    @%lead {copy}\n"), np.zeros(4, np.uint8), 16, smem=_SMEM)
