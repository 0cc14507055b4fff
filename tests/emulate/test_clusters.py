"""Clusters and named barriers by themselves: who sees what, who waits for whom."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import EmulationError
from tests.support.ptx_hopper import run, text

SYNC = """
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
"""
STORE = """
    mov.u32 %r30, %ctaid.x;
    mad.lo.u32 %r30, %r30, 128, %tid;
    mul.wide.u32 %rd15, %r30, 4;
    add.u64 %rd15, %out, %rd15;
    st.global.u32 [%rd15], %r0;
"""


def outcome(body, *, grid=1, cluster=1, block=128, data=None, smem=1024):
    """(uint32[CTA, 128] of the register r0, the report)."""
    got, report = run(
        text(body + STORE),
        np.zeros(4, np.uint32) if data is None else data,
        512 * grid,
        grid=grid,
        cluster=cluster,
        block=block,
        smem=smem,
        filled=True,
    )
    return got.view(np.uint32).reshape(grid, 128), report


def found(report, kind):
    return [f for f in report.findings if f.kind == kind]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cluster_ctarank", [0, 1, 2, 3] * 2),
        ("cluster_nctarank", [4] * 8),
        ("clusterid.x", [0] * 4 + [1] * 4),
        ("nclusterid.x", [2] * 8),
        ("cluster_ctaid.x", [0, 1, 2, 3] * 2),
        ("cluster_nctaid.x", [4] * 8),
        ("clusterid.y", [0] * 8),
        ("cluster_nctaid.z", [1] * 8),
    ],
)
def test_registers_of_clusters(name, values):
    got, _ = outcome(f"    mov.u32 %r0, %{name};\n", grid=8, cluster=4)
    assert (got == np.array(values)[:, None]).all()


EXCHANGE = """
    mad.lo.u32 %r1, %tid, 4, %base;
    xor.b32 %r2, %rank, 1;
    mapa.shared::cluster.u32 %r3, %r1, %r2;
    mad.lo.u32 %r4, %rank, 1000, %tid;
    st.shared::cluster.u32 [%r3], %r4;
"""


def test_memory_of_another_cta():
    got, report = outcome(EXCHANGE + SYNC + "    ld.shared.u32 %r0, [%r1];\n" + SYNC, grid=4, cluster=2)
    assert (got == np.array([1000, 0, 1000, 0])[:, None] + np.arange(128)).all() and not report.findings


def test_reading_it_from_another_cta():
    body = EXCHANGE.replace("[%r3]", "[%r1]") + SYNC + "    ld.shared::cluster.u32 %r0, [%r3];\n" + SYNC
    got, report = outcome(body, grid=2, cluster=2)
    assert (got == np.array([1000, 0])[:, None] + np.arange(128)).all() and not report.findings


def test_without_the_cluster_barrier_it_is_a_race():
    _, report = outcome(EXCHANGE + "    bar.sync 0;\n    ld.shared.u32 %r0, [%r1];\n" + SYNC, grid=2, cluster=2)
    assert "of CTA 1 wrote, with no barrier between" in found(report, "shared_race")[0].message


def test_a_cta_must_stay_while_others_write_to_it():
    _, report = outcome(EXCHANGE + "    mov.u32 %r0, 0;\n", grid=2, cluster=2)
    assert found(report, "cluster_exit")


def test_there_is_no_such_cta():
    _, report = outcome(
        EXCHANGE.replace("mapa.shared::cluster.u32 %r3, %r1, %r2", "mapa.shared::cluster.u32 %r3, %r1, 2") + SYNC,
        grid=2,
        cluster=2,
    )
    assert found(report, "shared_out_of_bounds")


def test_the_rank_of_an_address():
    got, _ = outcome(
        "    mapa.shared::cluster.u32 %r1, %base, 1;\n    getctarank.shared::cluster.u32 %r0, %r1;\n", grid=2, cluster=2
    )
    assert (got == 1).all()
    got, _ = outcome("    getctarank.shared::cluster.u32 %r0, %base;\n", grid=2, cluster=2)
    assert (got == np.array([[0], [1]])).all()


def test_a_grid_is_whole_clusters():
    with pytest.raises(EmulationError, match="no whole number of clusters of 2"):
        outcome("    mov.u32 %r0, 0;\n", grid=3, cluster=2)


def test_the_largest_clusters_have_16_ctas():
    got, report = outcome("    mov.u32 %r0, %rank;\n", grid=32, cluster=16)
    assert (got == np.arange(32)[:, None] % 16).all() and not report.findings
    with pytest.raises(EmulationError, match="clusters of 17 x 1 x 1 CTAs: they have 1 to 16 CTAs"):
        outcome("    mov.u32 %r0, %rank;\n", grid=17, cluster=17)


def test_arrive_and_wait_may_lie_apart_but_not_twice():
    arrive, wait = SYNC.strip().splitlines()
    _, report = outcome(arrive + "\n    mov.u32 %r0, 1;\n" + wait, grid=2, cluster=2)
    assert not report.findings
    _, report = outcome(arrive + "\n" + arrive + "\n" + wait, grid=2, cluster=2)
    assert "again before it waited" in found(report, "barrier_divergence")[0].message


def test_relaxed_arrivals_order_nothing_but_what_a_fence_before_released():
    relaxed = SYNC.replace("arrive.release", "arrive.relaxed")
    tail = "    ld.shared.u32 %r0, [%r1];\n" + SYNC
    _, report = outcome(EXCHANGE + relaxed + tail, grid=2, cluster=2)
    assert found(report, "shared_race")
    _, report = outcome(EXCHANGE + "    fence.acq_rel.cluster;\n" + relaxed + tail, grid=2, cluster=2)
    assert not report.findings


def test_a_cta_that_ended_is_not_waited_for():
    """One half of the cluster leaves at once."""
    _, report = outcome(
        "    mov.u32 %r0, 7;\n    setp.eq.u32 %p, %rank, 1;\n    @%p bra OUT;\n" + SYNC + "OUT:\n", grid=2, cluster=2
    )
    assert report.completed


def test_a_cta_without_a_cluster_maps_addresses_to_itself():
    """By mapa, of rank 0; there is no other rank."""
    body = """
    shl.b32 %r3, %tid, 2;
    add.u32 %r3, %r3, %base;
    mapa.shared::cluster.u32 %r4, %r3, {rank};
    st.shared::cluster.u32 [%r4], %tid;
    ld.shared.u32 %r0, [%r3];
"""
    got, report = outcome(body.format(rank="%rank"))
    assert (got == np.arange(128)).all() and not report.findings
    assert found(outcome(body.format(rank=1))[1], "shared_out_of_bounds")


NAMED = """
    setp.lt.u32 %p, %tid, 64;
    shr.u32 %r5, %tid, 6;
    add.u32 %r5, %r5, 1;
    mad.lo.u32 %r1, %tid, 4, %base;
    st.shared.u32 [%r1], %tid;
    bar.sync %r5, 64;
    xor.b32 %r2, %tid, {mask};
    mad.lo.u32 %r1, %r2, 4, %base;
    ld.shared.u32 %r0, [%r1];
"""


def test_named_barriers_order_their_own_threads_only():
    got, report = outcome(NAMED.format(mask=63))
    assert (got[0] == np.arange(128) ^ 63).all()
    # No mbarrier and no cluster: the kernel is watched by the barriers that threads pass.
    assert not report.findings
    got, report = outcome(SYNC + NAMED.format(mask=63), grid=2, cluster=2)
    assert not report.findings
    _, report = outcome(SYNC + NAMED.format(mask=64), grid=2, cluster=2)
    assert found(report, "shared_race")


def test_who_arrives_without_waiting_is_known_to_who_waits():
    body = (
        SYNC
        + """
    mad.lo.u32 %r1, %tid, 4, %base;
    st.shared.u32 [%r1], %tid;
    setp.lt.u32 %p, %tid, 64;
    @%p bra GIVER;
    barrier.sync 1, 128;
    ld.shared.u32 %r0, [%r1-256];
    bra OVER;
GIVER:
    barrier.arrive 1, 128;
    mov.u32 %r0, 0;
OVER:
"""
    )
    got, report = outcome(body, grid=2, cluster=2)
    assert (got[:, 64:] == np.arange(64)).all() and not report.findings


def test_one_lane_is_elected_and_registers_are_moved():
    got, report = outcome("""
    setmaxnreg.dec.sync.aligned.u32 40;
    griddepcontrol.launch_dependents;
    griddepcontrol.wait;
    elect.sync _|%p, -1;
    selp.u32 %r0, 1, 0, %p;
""")
    assert (got[0] == (np.arange(128) % 32 == 0)).all() and not report.findings
