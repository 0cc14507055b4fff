"""Warps that a later phase of an mbarrier may overtake are found in any schedule: a ring of one stage, of which each consumer
warp waits for every filling."""

from __future__ import annotations

import pytest

from tests.emulate.test_clusters import found, outcome

ROUNDS = 4
# %bar: a filling is there; %bar + 8: it has been read. Warps 0 and 1 read, warp 3 fills, and warp 2 may announce.
BODY = f"""
    add.u32 %bar, %base, 64;
    mov.u32 %r10, 0;
    mov.u32 %r12, 0;
    mov.u32 %r0, 0;
    @!%lead bra READY;
    mbarrier.init.shared::cta.b64 [%bar], {{fillers}};
    mbarrier.init.shared::cta.b64 [%bar+8], {{readers}};
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    setp.eq.u32 %p, %warp, 3;
    @%p bra FILL;
    setp.eq.u32 %p, %warp, 2;
    @%p bra ANNOUNCE;
READ:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%bar], %r12;
    @!%q bra READ;
    {{release}}
    xor.b32 %r12, %r12, 1;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p, %r10, {ROUNDS};
    @%p bra READ;
    bra OVER;
ANNOUNCE:
    {{announce}}
    bra OVER;
FILL:
    setp.ne.u32 %p, %lane, 0;
    @%p bra OVER;
    xor.b32 %r13, %r12, 1;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%bar+8], %r13;
    @!%q bra EMPTY;
    {{fill}}
    xor.b32 %r12, %r12, 1;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p, %r10, {ROUNDS};
    @%p bra FILL;
OVER:
    bar.warp.sync -1;
"""
_ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%bar{}];"
FILL = _ARRIVE.format("")
EVERY_WARP = ("setp.eq.u32 %p, %lane, 0;\n@%p " + _ARRIVE.format("+8"), 2)
FIRST_WARP = ("@%lead " + _ARRIVE.format("+8"), 1)
AFTER_A_BARRIER = ("bar.sync 1, 64;\n" + FIRST_WARP[0], 1)
BEFORE_A_BARRIER = (FIRST_WARP[0] + "\nbar.sync 1, 64;", 1)

# Another warp announces the bytes of each copy; the warp that waits for the readers issues it.
ANNOUNCED = f"""
    setp.ne.u32 %p, %lane, 0;
    @%p bra OVER;
AGAIN:
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%bar], %r12;
    @!%q bra FULL;
    xor.b32 %r12, %r12, 1;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p, %r10, {ROUNDS};
    @%p bra AGAIN;
"""
COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%base], [%in], 16, [%bar];"


def _report(release, *, announce="", fill=FILL):
    text, readers = release
    _, report = outcome(BODY.format(release=text, readers=readers, announce=announce, fill=fill, fillers=1))
    assert report.completed
    return report


@pytest.mark.parametrize("release", [EVERY_WARP, AFTER_A_BARRIER])
def test_a_phase_that_waits_for_every_warp_overtakes_none(release):
    assert not _report(release).findings


@pytest.mark.parametrize("release", [FIRST_WARP, BEFORE_A_BARRIER])
def test_a_warp_that_does_not_release_what_it_waits_for_may_be_overtaken(release):
    """It makes no difference to the emulator's own schedule, in which all warps come to each wait in time. With a barrier
    behind the release the second warp is late by one phase at most, and still finds another parity."""
    (finding, *_) = found(_report(release), "mbarrier")
    assert "phase 0 (parity 0)" in finding.message and "nothing keeps phase 1 from completing" in finding.message
    assert finding.thread == 32, "the warp that may be late is named, not one that releases what it waits for"
    assert "try_wait" in finding.instruction


def test_a_thread_that_announces_the_bytes_of_another_is_no_fault():
    """The copy follows the wait for the readers; the arrival does not."""
    assert not _report(EVERY_WARP, announce=ANNOUNCED, fill=COPY).findings
    assert not _report(AFTER_A_BARRIER, announce=ANNOUNCED, fill=COPY).findings


@pytest.mark.parametrize("release", [EVERY_WARP, FIRST_WARP])
def test_a_thread_that_copies_what_it_announces(release):
    fill = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 16;\n" + COPY
    assert bool(found(_report(release, fill=fill), "mbarrier")) == (release == FIRST_WARP)


def test_a_wait_that_two_phases_have_overtaken_is_found():
    """Both phases end before the other threads, which wait, go on."""
    _, report = outcome("""
    @%lead mbarrier.init.shared::cta.b64 [%base], 1;
    bar.sync 0;
    mov.u32 %r0, 0;
    @!%lead bra FIRST;
    mbarrier.arrive.shared::cta.b64 _, [%base];
FIRST:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%base], 0;
    @!%q bra FIRST;
    @%lead mbarrier.arrive.shared::cta.b64 _, [%base];
""")
    (finding,) = found(report, "mbarrier")
    assert "phase 2 completes" in finding.message
