"""Threads of a cluster that arrive at an mbarrier again before they know that the phase of their last arrival has completed are
found in any schedule."""

from __future__ import annotations

import pytest

from tests.emulate.test_clusters import SYNC, found, outcome

ROUNDS = 4
# Thread 0 of both CTAs arrives in each round at the mbarrier at %base of CTA 0. At %base + 8, CTA 0 may answer to CTA 1.
BODY = f"""
    mov.u32 %r0, 0;
    mov.u32 %r10, 0;
    mov.u32 %r12, 0;
    @!%lead bra READY;
    mbarrier.init.shared::cta.b64 [%base], {{arrivals}};
    mbarrier.init.shared::cta.b64 [%base+8], 1;
    fence.mbarrier_init.release.cluster;
READY:
    {SYNC}
    mapa.shared::cluster.u32 %r3, %base, 0;
    mapa.shared::cluster.u32 %r4, %base, 1;
    @!%lead bra OVER;
ROUND:
    setp.eq.u32 %p, %rank, 1;
    {{early}}
    mbarrier.arrive.shared::cluster.b64 _, [%r3];
    {{again}}
    @%p bra OTHER;
    {{late}}
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%base], %r12;
    @!%q bra WAIT;
    {{answer}}
    bra NEXT;
OTHER:
    {{listen}}
NEXT:
    {{between}}
    xor.b32 %r12, %r12, 1;
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p, %r10, {ROUNDS};
    @%p bra ROUND;
OVER:
    bar.warp.sync -1;
    {SYNC}
"""
LISTEN = """
LISTEN:
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%base+8], %r12;
    @!%q bra LISTEN;
"""
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%base+8], 1;"
ANSWER = "mbarrier.arrive.shared::cluster.b64 _, [%r4+8];"
BYTES = "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r4+8], {};"
WITHOUT = {"arrivals": 2, "again": "", "early": "", "late": "", "answer": "", "listen": "", "between": ""}


def _found(**parts):
    _, report = outcome(BODY.format(**WITHOUT | parts), grid=2, cluster=2)
    assert report.completed
    return [one for one in found(report, "mbarrier") if "arrives again" in one.message]


def test_a_thread_that_does_not_wait_for_its_last_phase_is_found():
    (finding,) = _found()
    assert finding.cta == 1 and finding.thread == 0
    assert "without knowing that phase 0, in which it arrived before, has completed" in finding.message


@pytest.mark.parametrize(
    ("answer", "listen"),
    [(ANSWER, LISTEN), (BYTES.format(1), EXPECT + LISTEN)],
    ids=["an arrival", "bytes"],
)
def test_a_wait_for_one_that_has_waited_is_enough(answer, listen):
    assert not _found(answer=answer, listen=listen)


def test_an_answer_from_before_its_own_arrival_tells_nothing():
    assert _found(early=f"@!%p {ANSWER}", listen=LISTEN)


def test_who_knows_of_all_arrivals_of_a_phase_knows_that_it_completes():
    assert not _found(late=ANSWER, listen=LISTEN)


def test_a_thread_whose_phases_need_both_of_its_arrivals_is_no_fault():
    again = "mbarrier.arrive.shared::cluster.b64 _, [%r3];"
    assert not _found(arrivals=4, again=again, answer=ANSWER, listen=LISTEN)


def test_the_barrier_of_the_cluster_tells_what_its_threads_know():
    """All threads of both CTAs take part in each round."""
    arrive = "mbarrier.arrive.shared::cluster.b64 _, [%r3];"
    body = BODY.replace("@!%lead bra OVER;", "").replace(arrive, f"@%lead {arrive}")
    _, report = outcome(body.format(**WITHOUT | {"between": SYNC}), grid=2, cluster=2)
    assert report.completed and not report.findings
