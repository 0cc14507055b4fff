"""Atomic operations on shared memory: in any order among themselves, but not with the accesses before and after them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.ptx_hopper import run, text

INIT = "    @%lead st.shared.u32 [%base], 0;\n"
CHANGE = "    atom.shared.add.u32 %r1, [%base], 1;\n"
READ = "    ld.shared.u32 %r2, [%base];\n    mad.wide.u32 %rd1, %tid, 4, %out;\n    st.global.u32 [%rd1], %r2;\n"
BARRIER = "    bar.sync 0;\n"
# A kernel with an mbarrier is checked by vector clocks, others by epochs.
CLOCKS = "    add.u32 %bar, %base, 512;\n    @%lead mbarrier.init.shared::cta.b64 [%bar], 1;\n    bar.sync 0;\n"


def outcome(*parts, clocks, threads=128):
    ptx = text((CLOCKS if clocks else "") + "".join(parts))
    got, report = run(ptx, np.zeros(4, np.uint32), 4 * threads, block=threads)
    return got.view(np.uint32), [str(finding) for finding in report.findings]


@pytest.mark.parametrize("clocks", [False, True])
def test_atomic_operations_between_barriers_are_right(clocks):
    got, found = outcome(INIT, BARRIER, CHANGE, CHANGE, BARRIER, READ, BARRIER, INIT, clocks=clocks)
    assert (got == 256).all() and not found


@pytest.mark.parametrize("clocks", [False, True])
@pytest.mark.parametrize(
    "parts, words",
    [
        ((INIT, CHANGE, BARRIER, READ), "changes"),
        ((INIT, BARRIER, CHANGE, READ), "by an atomic operation"),
        ((INIT, BARRIER, CHANGE, INIT, BARRIER, READ), "by an atomic operation"),
    ],
)
def test_a_missing_barrier_is_a_race(parts, words, clocks):
    found = outcome(*parts, clocks=clocks)[1]
    assert any("shared_race" in one and words in one for one in found), found


@pytest.mark.parametrize("clocks", [False, True])
@pytest.mark.parametrize("read", ["ld.volatile.shared.u32", "ld.relaxed.cta.shared.u32"])
def test_a_thread_may_look_at_what_others_change(read, clocks):
    parts = INIT, BARRIER, CHANGE, READ.replace("ld.shared.u32", read)
    assert not outcome(*parts, clocks=clocks)[1]


@pytest.mark.parametrize("clocks", [False, True])
def test_a_thread_knows_of_its_own_and_a_warp_of_its_lanes(clocks):
    own = "    mad.lo.u32 %base, %tid, 4, %base;\n    st.shared.u32 [%base], 0;\n"
    assert not outcome(own, CHANGE, READ, clocks=clocks)[1]
    parts = INIT, BARRIER, CHANGE, "    bar.warp.sync -1;\n", READ
    assert not outcome(*parts, clocks=clocks, threads=32)[1]
    assert outcome(*parts, clocks=clocks, threads=64)[1]
