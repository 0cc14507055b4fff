"""Proxy fences by state space, bulk stores that were waited for, tensor maps that the launch writes, the read-only cache."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import EmulationError, TensorMap
from tests.emulate.test_tma import DONE, SETUP, WAIT
from tests.support.ptx import kinds
from tests.support.ptx import run as run_plain
from tests.support.ptx_hopper import run, text

BAR = 16384
# The output is 512 bytes for threads to write, and 512 for what came by TMA.
BEGIN = f"""
{SETUP}
    mul.wide.u32 %rd4, %tid, 4;
    add.u64 %rd4, %rd4, %out;
    shl.b32 %r6, %tid, 2;
    add.u32 %r6, %r6, %base;
    mov.u32 %r20, 0;
    setp.eq.u32 %q, %rank, 0;
"""
WRITE = "    st.global.u32 [%rd4], %tid;\n"
LOAD = """
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 512;
    @%lead cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%base], [%map, {%r20, %r20, %r20}], [%bar];
"""
COME = f"{WAIT}    ld.shared.u32 %r5, [%r6];\n    st.global.u32 [%rd4+512], %r5;\n"
FILL = "    st.shared.u32 [%r6], %tid;\n"
SEND = """
    @%lead cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%map, {%r20, %r20, %r20}], [%base];
    @%lead cp.async.bulk.commit_group;
"""
ALL = "    bar.sync 0;\n"


def fence(space=""):
    return f"    fence.proxy.async{space};\n"


def outcome(*pieces, grid=1, cluster=1):
    """(uint32[128] of what came, the kinds of findings)."""

    def box(address):
        return TensorMap(address, 4, (32, 4, 1), (128, 512), (32, 4, 1), 16)

    got, report = run(
        text(BEGIN + "".join(pieces) + DONE),
        np.zeros(128, np.uint32),
        2048,
        smem=BAR + 64,
        filled=True,
        maps=(lambda i, o: box(o),),
        grid=grid,
        cluster=cluster,
    )
    assert report.completed
    return got.view(np.uint32)[128:256], kinds(report)


FENCES = [("", set()), (".global", set()), (".shared::cta", {"proxy_fence"}), (".shared::cluster", {"proxy_fence"})]


@pytest.mark.parametrize(("space", "found"), FENCES)
def test_global_memory_that_threads_wrote_needs_its_own_fence_before_tma_loads_it(space, found):
    got, seen = outcome(WRITE, fence(space), ALL, LOAD, COME)
    assert seen == found and (got == np.arange(128)).all()
    assert outcome(WRITE, ALL, LOAD, COME)[1] == {"proxy_fence"}


def test_a_fence_of_the_thread_that_loads_does_as_well():
    assert outcome(WRITE, ALL, fence(".global"), LOAD, COME)[1] == set()
    assert outcome(WRITE, fence(".global"), LOAD, COME)[1] == {"global_race"}
    assert outcome(WRITE, fence(".global"), WRITE, ALL, LOAD, COME)[1] == {"proxy_fence"}


UNIDIRECTIONAL = "::generic.{}.sync_restrict::shared::{}.cluster"


@pytest.mark.parametrize(
    ("space", "found"),
    [
        ("", set()),
        (".global", {"proxy_fence"}),
        (".shared::cta", set()),
        # Between accesses by the asynchronous proxy and generic ones behind it, not the other way round.
        (UNIDIRECTIONAL.format("acquire", "cluster"), {"proxy_fence"}),
        (UNIDIRECTIONAL.format("release", "cta"), {"proxy_fence"}),
    ],
)
def test_shared_memory_that_threads_wrote_needs_one_of_shared_memory(space, found):
    waited = "    @%lead cp.async.bulk.wait_group 0;\n"
    assert outcome(FILL, fence(space), ALL, SEND, waited)[1] == found


# Lanes of a warp that write and execute the fence one after another.
HALVES = """
    setp.lt.u32 %p, %lane, {first};
    @%p bra FIRST;
    {fill}
    {second}
    bra TOGETHER;
FIRST:
    {fill}
    fence.proxy.async.shared::cta;
TOGETHER:
"""


SENT = SEND + "    @%lead cp.async.bulk.wait_group 0;\n"


@pytest.mark.parametrize("first", [1, 16, 31])
def test_lanes_may_execute_the_fence_one_after_another(first):
    parts = {"first": first, "fill": FILL.strip()}
    fenced = HALVES.format(**parts, second="fence.proxy.async.shared::cta;")
    assert outcome(fenced, ALL, SENT)[1] == set()
    assert outcome(HALVES.format(**parts, second=""), ALL, SENT)[1] == {"proxy_fence"}
    # What is written behind the fence is not fenced, whoever is late.
    assert outcome(fenced, "    setp.eq.u32 %p, %lane, 3;\n    @%p " + FILL.strip(), "\n", ALL, SENT)[1] == {"proxy_fence"}


def test_a_fence_of_another_lane_comes_after_a_barrier_or_is_none():
    first_of_warp = "    setp.eq.u32 %p, %lane, 0;\n    @%p fence.proxy.async.shared::cta;\n"
    assert outcome(FILL, first_of_warp, ALL, SENT)[1] == {"proxy_fence"}
    assert outcome(FILL, "    bar.warp.sync 0xffffffff;\n", first_of_warp, ALL, SENT)[1] == set()


@pytest.mark.parametrize(
    ("space", "found"),
    [("", set()), (".shared::cluster", set()), (".shared::cta", {"proxy_fence"}), (".global", {"proxy_fence"})],
)
def test_shared_memory_of_another_cta_needs_one_of_the_cluster(space, found):
    away = """
    mov.u32 %r7, 0;
    mapa.shared::cluster.u32 %r8, %r6, %r7;
    @!%q st.shared::cluster.u32 [%r8], %tid;
"""
    mine = SEND.replace("@%lead", "@%p").join(["    and.pred %p, %lead, %q;\n", "    @%p cp.async.bulk.wait_group 0;\n"])
    assert outcome(away, fence(space), DONE, mine, grid=2, cluster=2)[1] == found


# CTA 1 writes, and CTA 0 loads when it has seen the flag, word 256 of the output.
GIVE = """
    mov.u32 %r9, %ctaid.x;
    setp.eq.u32 %q, %r9, 0;
    @%q bra TAKE;
"""
FLAG = "    @%lead st.release.gpu.global.u32 [%out+1024], 1;\n    bra END;\nTAKE:\n    @!%lead bra THERE;\nLOOK:\n"
LOOK = "    ld.acquire.gpu.global.u32 %r9, [%out+1024];\n    setp.eq.u32 %p, %r9, 0;\n    @%p bra LOOK;\n"
THERE = f"{LOAD}THERE:\n{COME}END:\n"


@pytest.mark.parametrize(
    ("writer", "reader", "found"),
    [
        (fence(".global"), "", set()),
        ("", fence(".global"), set()),
        (fence(), "", set()),
        ("", "", {"proxy_fence"}),
        (fence(".shared::cta"), fence(".shared::cluster"), {"proxy_fence"}),
    ],
    ids=["writer", "reader", "all spaces", "none", "shared memory"],
)
def test_what_another_cta_wrote_needs_a_fence_on_either_side(writer, reader, found):
    got, seen = outcome(GIVE, WRITE, writer, ALL, FLAG, LOOK, reader, THERE, grid=2)
    assert seen == found and (got == np.arange(128)).all()


@pytest.mark.parametrize(
    ("wait", "found"), [("cp.async.bulk.wait_group 0;", set()), ("cp.async.bulk.wait_group.read 0;", {"async_race"})]
)
def test_a_bulk_store_must_be_waited_for_before_its_memory_is_read(wait, found):
    """Not only until shared memory has been read."""
    read = "    ld.global.u32 %r5, [%rd4];\n    st.global.u32 [%rd4+512], %r5;\n"
    got, seen = outcome(FILL, fence(), ALL, SEND, f"    @%lead {wait}\n", ALL, read)
    assert seen == found and (got == np.arange(128)).all()
    _, seen = outcome(
        GIVE, FILL, fence(), ALL, SEND, f"    @%lead {wait}\n", FLAG, LOOK, f"THERE:\n{ALL}", read, "END:\n", grid=2
    )
    assert seen == found


def test_a_bulk_store_that_was_waited_for_is_no_race_with_a_load_by_tma():
    again = LOAD.replace("[%base]", "[%base+512]") + COME.replace("[%r6]", "[%r6+512]")
    got, seen = outcome(FILL, fence(), ALL, SEND, "    @%lead cp.async.bulk.wait_group 0;\n", again)
    assert seen == set() and (got == np.arange(128)).all()
    assert "async_race" in outcome(FILL, fence(), ALL, SEND, "    @%lead cp.async.bulk.wait_group.read 0;\n", again)[1]


# A copy of the parameter's map, 1024 bytes into the output, by thread 0.
COPY = "".join(
    f"    @%lead ld.param.u64 %rd8, [maps+{n}];\n    @%lead st.global.u64 [%out+{1024 + n}], %rd8;\n" for n in range(0, 128, 8)
)
OTHER = "    add.u64 %map, %out, 1024;\n"
TENSORMAP = "    fence.proxy.tensormap::generic.{}.gpu{};\n"


def test_a_tensor_map_that_the_launch_writes_is_acquired_by_a_fence():
    release, acquire = TENSORMAP.format("release", ""), TENSORMAP.format("acquire", " [%map], 128")
    first = WRITE + fence() + ALL
    got, seen = outcome(first, COPY, OTHER, release, acquire, LOAD, COME)
    assert seen == set() and (got == np.arange(128)).all()
    assert outcome(first, COPY, OTHER, LOAD, COME)[1] == {"proxy_fence"}
    assert outcome(first, OTHER, acquire, COPY, release, LOAD, COME)[1] == {"proxy_fence"}


def test_the_read_only_cache_without_synchronisation():
    """Of what the launch writes, before or after; not of what it only reads."""
    store, load = "st.global.u32 [%rd4], %r1;", "ld.global.nc.u32 %r2, [%rd4];"
    for body in (store + load, load + store):
        findings = run_plain(body)[1].findings
        assert [f for f in findings if f.kind == "global_race" and "read-only cache (.nc)" in f.message], findings
    assert not run_plain("ld.global.nc.u32 %r2, [%rd3];" + store + "ld.global.u32 %r2, [%rd4];")[1].findings


@pytest.mark.parametrize("reader", [0, 1])
def test_what_another_cta_reads_without_synchronisation(reader):
    """One CTA overwrites what the other reads, whichever comes first here."""
    body = f"""
        mov.u32 %r2, %ctaid.x;
        setp.eq.u32 %p1, %r2, {reader};
        @%p1 ld.global.u32 %r4, [%rd4];
        @!%p1 st.global.u32 [%rd4], %r1;
    """
    report = run_plain(body, grid=2)[1]
    assert "global_race" in kinds(report), report.findings


@pytest.mark.parametrize(
    "form",
    [
        "fence.mbarrier_init.relaxed.cluster",
        "fence.mbarrier_init.release.cta",
        "fence.relaxed.gpu",
        "fence.acq_rel.gl",
        "fence.proxy.async.shared",
        "fence.proxy.async.acquire.cluster",
        "membar.gpu",
        "membar.proxy.async",
    ],
)
def test_a_fence_that_ptx_does_not_have_is_refused(form):
    """ptxas refuses them as well."""
    with pytest.raises(EmulationError, match=rf"^k\.ptx:\d+: {form.split('.')[0]} has no such form: {form}$"):
        run_plain(f"{form};")


@pytest.mark.parametrize(
    "form",
    [
        "fence.sc.sys",
        "fence.cluster",
        "fence.release.sync_restrict::shared::cta.cluster",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
        "fence.proxy.alias",
        "fence.proxy.tensormap::generic.release.gpu",
        "membar.gl",
        "membar.proxy.alias",
    ],
)
def test_a_fence_that_ptx_has_is_executed(form):
    assert run_plain(f"{form};")[1].completed
