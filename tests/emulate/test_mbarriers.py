"""mbarriers: phases, parities, arrivals at those of other CTAs and their scopes, and waits that fail."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mmagen.emulate import EmulationError
from mmagen.emulate.sync.mbarriers import Mbarriers
from tests.emulate.test_clusters import STORE, SYNC, found, outcome
from tests.support.ptx_hopper import text

MBARRIER = """
    @%lead mbarrier.init.shared::cta.b64 [%base], 128;
    bar.sync 0;
    mad.lo.u32 %r1, %tid, 4, %base;
    st.shared.u32 [%r1+64], %tid;
    mbarrier.arrive.shared::cta.b64 %rd2, [%base];
WAITING:
    {wait}
    @!%p bra WAITING;
    xor.b32 %r2, %tid, 33;
    mad.lo.u32 %r1, %r2, 4, %base;
    ld.shared.u32 %r0, [%r1+64];
"""


@pytest.mark.parametrize(
    "wait",
    [
        "mbarrier.try_wait.shared::cta.b64 %p, [%base], %rd2;",
        "mbarrier.test_wait.shared::cta.b64 %p, [%base], %rd2;",
        "mbarrier.try_wait.parity.shared::cta.b64 %p, [%base], 0;",
        "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p, [%base], 0;",
    ],
)
def test_an_mbarrier_is_a_barrier(wait):
    got, report = outcome(MBARRIER.format(wait=wait))
    assert (got[0] == np.arange(128) ^ 33).all() and not report.findings


def test_an_mbarrier_that_is_not_waited_for_orders_nothing():
    _, report = outcome(MBARRIER.format(wait="setp.eq.u32 %p, 0, 0;"))
    assert found(report, "shared_race")


def test_an_arrival_too_many_is_found():
    body = MBARRIER.format(wait="mbarrier.try_wait.parity.shared::cta.b64 %p, [%base], 0;")
    _, report = outcome(
        body.replace("mbarrier.arrive.shared::cta.b64 %rd2, [%base];", "mbarrier.arrive.shared::cta.b64 %rd2, [%base], 3;")
    )
    assert "when all 128 arrivals" in found(report, "mbarrier")[0].message


def test_a_parity_is_not_to_be_relied_on_when_the_phase_before_is_not_known_to_be_over():
    """Thread 32 waits for phase 1 alone, which it does not know to be next: it may as well wait for the phase -1."""
    body = """
    @%lead mbarrier.init.shared::cta.b64 [%base], 1;
    bar.sync 0;
    mov.u32 %r0, 0;
    @%lead mbarrier.arrive.shared::cta.b64 _, [%base];
    @%lead mbarrier.arrive.shared::cta.b64 _, [%base];
    setp.ne.u32 %p, %tid, 32;
    {order}
    @%p bra OVER;
WAITING:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%base], 1;
    @!%q bra WAITING;
OVER:
"""
    # Thread 0 knows, having waited for phase 0 itself, and tells it at a barrier.
    wait = "FIRST:\n    mbarrier.try_wait.parity.shared::cta.b64 %q, [%base], 0;\n    @!%q bra FIRST;\n"
    first = f"    @!%lead bra LATER;\n{wait}LATER:\n"
    _, report = outcome(body.format(order=""))
    assert "without knowing that phase 0 has completed" in found(report, "mbarrier")[0].message
    sound = body.replace(
        "    @%lead mbarrier.arrive.shared::cta.b64 _, [%base];\n",
        first.join(["    @%lead mbarrier.arrive.shared::cta.b64 _, [%base];\n", ""]),
        1,
    )
    _, report = outcome(sound.format(order="bar.sync 0;"))
    assert not report.findings


def test_a_test_that_fails_goes_on():
    """Who only tests may do something else meanwhile: here the very arrival that ends the phase, of which that thread knows."""
    got, report = outcome("""
    @%lead mbarrier.init.shared::cta.b64 [%base], 1;
    bar.sync 0;
    mov.u32 %r0, 0;
AGAIN:
    mbarrier.test_wait.parity.shared::cta.b64 %p, [%base], 0;
    @%p bra OVER;
    add.u32 %r0, %r0, 1;
    @%lead mbarrier.arrive.shared::cta.b64 _, [%base];
    bra AGAIN;
OVER:
""")
    assert got.flat[0] == 1 and (got <= 2).all() and report.completed


FIRST = "    @!%lead bra WAITING;\nGIVE:\n    st.shared.u32 [%base+64], 7;\n    mbarrier.arrive.shared::cta.b64 _, [%base];\n"
PASSED = """
    @%lead mbarrier.init.shared::cta.b64 [%base], 1;
    bar.sync 0;
{early}
WAITING:
    mbarrier.{wait}.parity.shared::cta.b64 %q, [%base], 0;
    @!%q bra {again};
LEFT:
    ld.shared.u32 %r0, [%base+64];
    bra OVER;
{late}
OVER:
"""
# Thread 0 arrives before the others test, and after that.
EARLY, LATE = {"early": FIRST, "late": ""}, {"early": "    @%lead bra GIVE;\n", "late": FIRST + "    bra WAITING;\n"}


@pytest.mark.parametrize(("wait", "order"), [(wait, order) for wait in ("try_wait", "test_wait") for order in (EARLY, LATE)])
def test_a_wait_is_repeated_until_it_is_over(wait, order):
    """Its result may be false the first time, although the phase has completed by then."""
    got, report = outcome(PASSED.format(wait=wait, again="WAITING", **order))
    assert (got == 7).all() and report.completed and not report.findings
    _, report = outcome(PASSED.format(wait=wait, again="LEFT", **order))
    assert {"shared_race", "uninitialised_shared"} & {f.kind for f in report.findings}, report.findings


@pytest.mark.parametrize("wait", ["try_wait", "test_wait"])
def test_a_wait_is_true_for_who_knows_that_the_phase_is_over(wait):
    """Here by a barrier behind the wait of another thread; it need not be repeated then."""
    got, report = outcome(f"""
    @%lead mbarrier.init.shared::cta.b64 [%base], 1;
    bar.sync 0;
    @!%lead bra THERE;
    mbarrier.arrive.shared::cta.b64 _, [%base];
WAITING:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%base], 0;
    @!%q bra WAITING;
THERE:
    bar.sync 0;
    mbarrier.{wait}.parity.shared::cta.b64 %q, [%base], 0;
    selp.b32 %r0, 1, 0, %q;
""")
    assert (got == 1).all() and report.completed and not report.findings


@pytest.mark.parametrize("wait", ["try_wait", "test_wait"])
def test_waits_without_acquire_are_refused(wait):
    body = PASSED.format(wait=wait, again="WAITING", **EARLY).replace(".parity", ".parity.relaxed.cta")
    with pytest.raises(EmulationError, match="without acquire are not supported"):
        outcome(body)


def test_a_wait_that_may_fail_hides_no_deadlock():
    body = PASSED.format(wait="try_wait", again="WAITING", **EARLY)
    assert found(outcome(body.replace("[%base], 1;\n    bar", "[%base], 2;\n    bar"))[1], "deadlock")


# CTA 1 writes into the shared memory of CTA 0 and arrives at its mbarrier, or at the cluster's barrier.
GIVEN_AWAY = (
    """
    @%lead mbarrier.init.shared::cta.b64 [%base], 128;
    @%lead fence.mbarrier_init.release.cluster;
"""
    + SYNC
    + """
    shl.b32 %r3, %tid, 2;
    add.u32 %r3, %r3, %base;
    mov.u32 %r4, 0;
    mapa.shared::cluster.u32 %r5, %r3, %r4;
    mapa.shared::cluster.u32 %r6, %base, %r4;
    setp.eq.u32 %p, %rank, 1;
    mov.u32 %r0, 0;
    @!%p bra TAKE;
    st.shared::cluster.u32 [%r5+64], %tid;
"""
)
BY_MBARRIER = """
    mbarrier.arrive{release}.shared::cluster.b64 _, [%r6];
    bra LEFT;
TAKE:
    mbarrier.try_wait.parity{acquire}.shared::cta.b64 %q, [%base], 0;
    @!%q bra TAKE;
    ld.shared.u32 %r0, [%r3+64];
LEFT:
"""
BY_BARRIER = """
    {fence}
TAKE:
    barrier.cluster.arrive{release}.aligned;
    barrier.cluster.wait{acquire}.aligned;
    @!%p ld.shared.u32 %r0, [%r3+64];
"""


@pytest.mark.parametrize(
    ("release", "acquire", "finds"),
    [
        ("", "", False),  # CUTLASS arrives at other CTAs in this way
        (".release.cluster", ".acquire.cluster", False),
        (".release.cluster", "", False),
        (".release.cta", ".acquire.cluster", True),
        (".release.cluster", ".acquire.cta", True),
        (".relaxed.cluster", ".acquire.cluster", True),
    ],
)
def test_arrivals_at_the_mbarrier_of_another_cta_need_the_scope_of_the_cluster(release, acquire, finds):
    got, report = outcome(GIVEN_AWAY + BY_MBARRIER.format(release=release, acquire=acquire) + SYNC, grid=2, cluster=2)
    assert (got[0] == np.arange(128)).all()
    assert {f.kind for f in report.findings} == ({"shared_race"} if finds else set())


def test_within_a_cta_its_own_scope_is_enough():
    body = PASSED.format(wait="try_wait.acquire.cta", again="WAITING", **EARLY)
    _, report = outcome(body.replace("mbarrier.arrive", "mbarrier.arrive.release.cta"))
    assert report.completed and not report.findings


@pytest.mark.parametrize(
    ("fence", "release", "finds"),
    [
        ("", "", False),
        ("", ".release", False),
        ("", ".relaxed", True),
        ("fence.acq_rel.cluster;", ".relaxed", False),
        ("fence.acq_rel.gpu;", ".relaxed", False),
        ("fence.acq_rel.cta;", ".relaxed", True),
    ],
)
def test_relaxed_arrivals_at_the_barrier_of_a_cluster_need_a_fence_of_its_scope(fence, release, finds):
    body = BY_BARRIER.format(fence=fence, release=release, acquire=".acquire" if release == ".release" else "")
    got, report = outcome(GIVEN_AWAY + body + SYNC, grid=2, cluster=2)
    assert (got[0] == np.arange(128)).all()
    assert {f.kind for f in report.findings} == ({"shared_race"} if finds else set())


# Warp 0 writes or reads, and its first lane arrives for all of it; warp 1 waits.
ELECTED = """
    setp.eq.u32 %q, %lane, 0;
    setp.eq.u32 %p, %warp, 0;
    @%lead mbarrier.init.shared::cta.b64 [%base], {count};
    @%lead mbarrier.init.shared::cta.b64 [%base+8], 1;
    and.b32 %r3, %tid, 31;
    shl.b32 %r3, %r3, 2;
    add.u32 %r3, %r3, %base;
    mov.u32 %r5, 0;
    @%p st.shared.u32 [%r3+128], %lane;
    bar.sync 0;
    @!%p bra TAKE;
    {access}
    {between}
    {guard} mbarrier.arrive.shared::cta.b64 _, [%base];
    bra OVER;
TAKE:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%base], 0;
    @!%p bra TAKE;
    {then}
OVER:
    mov.u32 %r0, %r5;
"""
READS, WRITES = "ld.shared.u32 %r5, [%r3+128];", "st.shared.u32 [%r3+128], %tid;"


def elected(access, between, then, guard="@%q", count=1):
    _, report = outcome(ELECTED.format(access=access, between=between, then=then, guard=guard, count=count), block=64)
    assert report.completed
    return {f.kind for f in report.findings}


@pytest.mark.parametrize(("access", "then"), [(READS, WRITES), (WRITES, READS), (WRITES, WRITES)])
def test_a_lane_that_arrives_for_its_warp_must_have_met_it(access, then):
    assert elected(access, "", then) == {"shared_race"}
    assert elected(access, "bar.warp.sync -1;", then) == set()
    assert elected(access, "bar.sync 1, 32;", then) == set()
    assert elected(access, "elect.sync _|%q, -1;", then) == set()
    assert elected(access, "", then, guard="", count=32) == set()
    assert elected("bar.warp.sync -1;", access, then) == {"shared_race"}
    # Only the lane that arrives has done anything.
    assert elected("@%q " + access, "", "@%q " + then) == set()


def test_a_later_warp_barrier_includes_what_an_arrival_did_not():
    earlier = "@%q mbarrier.arrive.shared::cta.b64 _, [%base+8];"
    assert elected(READS, f"{earlier} bar.warp.sync -1;", WRITES) == set()
    assert elected(READS, f"bar.warp.sync -1; {READS} {earlier}", WRITES) == {"shared_race"}


def test_announced_bytes_hold_a_phase_up():
    _, report = outcome("""
    @%lead mbarrier.init.shared::cta.b64 [%base], 1;
    bar.sync 0;
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%base], 64;
WAITING:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%base], 0;
    @!%p bra WAITING;
""")
    assert "64 announced bytes never arrive" in found(report, "deadlock")[0].message and not report.completed


@pytest.mark.parametrize(
    ("method", "instruction"), [("init", "mbarrier.init"), ("wait", "mbarrier.try_wait"), ("take_completed", "mbarrier.arrive")]
)
def test_a_defect_of_the_emulator_names_the_instructions(monkeypatch, method, instruction):
    """While a block runs, at its end, and when what it did takes effect."""
    original = getattr(Mbarriers, method)

    def fails(self, *arguments):
        if method == "take_completed" and not self._completed:
            return original(self, *arguments)
        return {}["nothing"]

    monkeypatch.setattr(Mbarriers, method, fails)
    body = MBARRIER.format(wait="mbarrier.try_wait.parity.shared::cta.b64 %p, [%base], 0;")
    lines = text(body + STORE).splitlines()
    at = next(n for n, line in enumerate(lines, 1) if instruction in line)
    with pytest.raises(EmulationError, match=r"KeyError: 'nothing' \(test_mbarriers\.py:\d+\)$") as caught:
        outcome(body)
    first, last = re.fullmatch(r"probe\.ptx:(\d+): .*from here to line (\d+), .*", str(caught.value)).groups()
    assert int(first) <= at <= int(last)


MANY = """
    mov.u32 %r0, 0;
    mov.u32 %r1, 0;
INIT:
    mad.lo.u32 %r2, %r1, 8, %base;
    @%lead mbarrier.init.shared::cta.b64 [%r2], 1;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, {barriers};
    @%p bra INIT;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    add.u32 %r3, %rank, 1;
    rem.u32 %r3, %r3, {ctas};
    mov.u32 %r1, 0;
NEXT:
    mad.lo.u32 %r2, %r1, 8, %base;
    @%lead bra TELL;
WAITING:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p, [%r2], 0;
    @!%p bra WAITING;
    ld.shared.u32 %r5, [%r2+2048];
    add.u32 %r0, %r0, %r5;
    bra TOLD;
TELL:
    mapa.shared::cluster.u32 %r6, %r2, %r3;
    mad.lo.u32 %r7, %rank, 1000, %r1;
    st.shared::cluster.u32 [%r6+2048], %r7;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
TOLD:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, {barriers};
    @%p bra NEXT;
"""


@pytest.mark.parametrize(("ctas", "barriers"), [(2, 50), (8, 12), (16, 9)])
def test_more_mbarriers_than_a_cluster_mostly_has(ctas, barriers):
    """Each thread waits for every mbarrier of its CTA, at which the CTA before arrives after the wait has begun."""
    got, report = outcome(MANY.format(ctas=ctas, barriers=barriers) + SYNC, grid=2 * ctas, cluster=ctas, smem=4096)
    before = (np.arange(2 * ctas) - 1) % ctas
    assert (got[:, 1:] == (barriers * 1000 * before + barriers * (barriers - 1) // 2)[:, None]).all()
    assert report.completed and not report.findings
