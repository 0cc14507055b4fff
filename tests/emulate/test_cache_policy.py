"""Cache policies and prefetches."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import EmulationError
from mmagen.emulate.ops.cache_policy import is_policy
from tests.support.ptx import kinds, run

NORMAL, FIRST, LAST, UNCHANGED = (n << 56 for n in (0x10, 0x12, 0x14, 0x16))
WHOLE = 0xF << 52
USES = [
    "ld.global.L2::cache_hint.u32 %r2, [%rd3], POLICY;",
    "st.global.L2::cache_hint.v2.u32 [%rd4], {%r1, %r1}, POLICY;",
    "red.global.add.L2::cache_hint.u32 [%rd2], 1, POLICY;",
    "atom.global.add.L2::cache_hint.u32 %r2, [%rd2], 1, POLICY;",
    "red.global.add.L2::cache_hint.v2.f32 [%rd2], {%f1, %f1}, POLICY;",
    "cp.async.cg.shared.global.L2::cache_hint [smem], [%rd1], 16, POLICY; cp.async.wait_all;",
    "cp.async.cg.shared.global.L2::cache_hint.L2::128B [smem], [%rd1], 16, 8, POLICY; cp.async.wait_all;",
]
BEGIN = "st.global.u64 [%rd4], 0; mov.f32 %f1, 0f3F800000;"


def test_which_words_are_policies():
    # CUTLASS's CacheHintSm90; libcu++'s constants of whole fractions.
    assert all(map(is_policy, (NORMAL, FIRST | WHOLE, LAST | WHOLE, NORMAL | WHOLE, UNCHANGED | WHOLE)))
    wrong = (
        0,
        1,
        0x12F0,
        FIRST | WHOLE | 1,
        FIRST | WHOLE | 1 << 51,
        0x22 << 56 | WHOLE,
        0x02 << 56 | WHOLE,
        0x92 << 56 | WHOLE,
    )
    assert not any(map(is_policy, (*wrong, 0x12F00000, (FIRST | WHOLE) >> 4, 0x1AF0 << 48, 0x18 << 56 | 1)))


@pytest.mark.parametrize("use", USES)
def test_constants(use):
    for policy in (NORMAL, FIRST | WHOLE, LAST | WHOLE):
        report = run(BEGIN + use.replace("POLICY", hex(policy)), threads=1, shared=16, data=np.zeros(2, np.uint64))[1]
        assert report.findings == []
    report = run(BEGIN + use.replace("POLICY", hex(LAST | WHOLE | 1 << 61)), threads=1, shared=16, data=np.zeros(2, np.uint64))[
        1
    ]
    assert kinds(report) == {"cache_policy"}
    assert "has the cache policy 0x34f0000000000000, which createpolicy does not make" in report.findings[0].message


@pytest.mark.parametrize(
    "body, policy",
    [
        ("createpolicy.fractional.L2::evict_first.b64 %rd9, 1.0;", FIRST | WHOLE),
        ("createpolicy.fractional.L2::evict_last.b64 %rd9;", LAST | WHOLE),
        ("mov.f32 %f1, 0f3F000000; createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd9, %f1;", LAST | 7 << 52),
        ("createpolicy.fractional.L2::evict_normal.L2::evict_first.b64 %rd9, 0.25;", NORMAL | 1 << 56 | 3 << 52),
        ("mov.u64 %rd8, 0x16f0000000000000; createpolicy.cvt.L2.b64 %rd9, %rd8;", UNCHANGED | WHOLE),
        ("createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd9, [%rd1], 0x100000, 0x200000;", None),
        ("createpolicy.range.L2::evict_last.b64 %rd9, [%rd1], 0x10000000, 0x10000000;", None),
    ],
)
def test_createpolicy(body, policy):
    out, report = run(body + "st.global.L2::cache_hint.u64 [%rd4], %rd9, %rd9;", threads=3)
    assert report.findings == [] and set(out.view("u8").tolist()) == {policy or int(out.view("u8")[0])}


def test_policies_that_make_no_sense():
    for fraction in ("0.0", "1.5"):
        report = run(f"createpolicy.fractional.L2::evict_last.b64 %rd9, {fraction};")[1]
        assert kinds(report) == {"cache_policy"} and report.findings[0].count == 32
    report = run("createpolicy.range.L2::evict_last.b64 %rd9, [%rd1], 4097, 4096;", threads=1)[1]
    assert "exceeds its total size" in report.findings[0].message
    body = "setp.eq.u32 %p1, %r1, 5; selp.b64 %rd9, 77, 0x1000000000000000, %p1; st.global.L2::cache_hint.u32 [%rd4], 0, %rd9;"
    report = run(body)[1]
    assert "thread 5 of CTA 0 has the cache policy 0x000000000000004d" in report.findings[0].message


def test_priorities_and_sizes_of_loads_do_not_matter():
    body = """
        ld.global.L1::no_allocate.L2::128B.u32 %r2, [%rd3]; ld.global.L1::evict_last.L2::64B.u32 %r3, [%rd3];
        ld.global.L2::256B.v2.u32 {%r4, %r5}, [%rd3]; prefetch.global.L2 [%rd3+4096]; prefetch.global.L2::evict_last [%rd3];
        prefetchu.L1 [%rd3]; cp.async.bulk.prefetch.L2.global [%rd1], 64; applypriority.global.L2::evict_normal [%rd1], 128;
        add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; st.global.L1::no_allocate.u32 [%rd4], %r2;
    """
    out, report = run(body)
    assert report.findings == [] and out.view("u4")[::2].tolist() == [3 * n for n in range(32)]


def test_prefetches_by_tma_are_aligned_and_of_tensor_maps():
    report = run("add.u64 %rd9, %rd1, 8; cp.async.bulk.prefetch.L2.global [%rd9], 40;", threads=1)[1]
    assert [f.kind for f in report.findings] == ["misaligned"] and report.findings[0].count == 2
    with pytest.raises(EmulationError):
        run("prefetch.tensormap [%rd1];", threads=1)
