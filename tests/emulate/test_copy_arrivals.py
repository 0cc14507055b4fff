"""cp.async.mbarrier.arrive: an arrival when a thread's copies are complete (PTX ISA, "cp.async.mbarrier.arrive")."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import Output, run_ptx

# Warp 0 copies 32 words; warp 1 waits for them and stores each one thread's copy as another thread.
KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
.shared .align 16 .b8 smem[128];
.shared .align 8 .b64 bar;
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .pred %p, %q; .reg .b32 %r<9>; .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; mov.u32 %r3, smem;
  setp.ne.u32 %p, %r1, 0;
  @!%p mbarrier.init.shared::cta.b64 [bar], COUNT;
  bar.sync 0;
  setp.ge.u32 %p, %r1, 32;
  @%p bra READ;
  mul.wide.u32 %rd3, %r2, 4; add.s64 %rd3, %rd1, %rd3;
  mad.lo.u32 %r4, %r2, 4, %r3;
  cp.async.ca.shared.global [%r4], [%rd3], 4;
  ARRIVE
  bra END;
READ:
  WAIT
  xor.b32 %r5, %r2, 31; mad.lo.u32 %r5, %r5, 4, %r3;
  ld.shared.u32 %r6, [%r5];
  mul.wide.u32 %rd4, %r2, 4; add.s64 %rd4, %rd2, %rd4;
  st.global.u32 [%rd4], %r6;
END:
  ret;
}
"""
NOINC = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];"
COUNTED = "cp.async.mbarrier.arrive.shared.b64 [bar]; mbarrier.arrive.shared::cta.b64 _, [bar];"
WAIT = "L: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0; @!%q bra L;"


def run(arrive, count=32, wait=WAIT):
    text = KERNEL.replace("COUNT", str(count)).replace("ARRIVE", arrive).replace("WAIT", wait)
    return run_ptx(text, None, [np.arange(32, dtype=np.uint32), Output(32, np.uint32)], grid=1, block=64)


@pytest.mark.parametrize("arrive", [NOINC, COUNTED])
def test_a_phase_completes_when_the_copies_are_there(arrive):
    launched = run(arrive)
    assert launched.ok, launched.findings
    assert launched.arrays[1].tolist() == list(range(31, -1, -1))


def test_what_is_missing_is_found():
    early = run(NOINC, wait="")
    assert {finding.kind for finding in early.findings} & {"shared_race", "uninitialised_shared", "cp_async_unwaited"}
    assert "31 of 32 arrivals" in str(
        run(NOINC.replace("cp", "@!%p cp").replace("@!%p", "setp.ne.u32 %q, %r1, 5;\n @%q")).findings
    )
    # An arrival that is not counted in advance and not among those of the init is one too many or too few.
    assert {f.kind for f in run("cp.async.mbarrier.arrive.shared.b64 [bar];").findings} == {"deadlock"}
    unarrived = run("mbarrier.arrive.shared::cta.b64 _, [bar];")
    assert {finding.kind for finding in unarrived.findings} == {"cp_async_unwaited"}
    later = run(NOINC.replace("[bar];", "[bar];\n cp.async.ca.shared.global [%r4], [%rd3+4], 4;").replace("+4], 4", "], 4"))
    assert later.findings


WAIT_ALL = "cp.async.wait_all;"


def test_a_thread_may_wait_for_its_copies_by_itself_besides():
    launched = run(f"{NOINC}\n {WAIT_ALL}")  # what others learn from the mbarrier is no less for that
    assert launched.ok, launched.findings
    assert launched.arrays[1].tolist() == list(range(31, -1, -1))


@pytest.mark.parametrize(
    "arrive",
    [
        f"{WAIT_ALL}\n mbarrier.arrive.shared::cta.b64 _, [bar];\n cp.async.ca.shared.global [%r4], [%rd3], 4;\n {WAIT_ALL}",
        f"{NOINC}\n cp.async.ca.shared.global [%r4], [%rd3], 4;\n {WAIT_ALL}",
        f"{NOINC}\n {WAIT_ALL}\n st.shared.u32 [%r4], %r2;",
    ],
)
def test_what_comes_behind_the_arrival_is_not_of_the_phase(arrive):
    assert {finding.kind for finding in run(arrive).findings} & {"shared_race", "cp_async_unwaited"}


STORE = """
  setp.ne.u32 %p, %r1, 32; @%p bra END;
  cp.async.bulk.global.shared::cta.bulk_group [%rd2], [smem], 128;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
  bra END;
"""


@pytest.mark.parametrize(
    ("writes", "waited", "found"),
    [
        (NOINC, "", {"proxy_fence"}),
        (f"fence.proxy.async;\n {NOINC}", "", {"proxy_fence"}),
        (f"{NOINC}\n fence.proxy.async;", "", {"proxy_fence"}),
        (f"{NOINC}\n {WAIT_ALL}\n fence.proxy.async;", "", {"proxy_fence"}),
        (NOINC, "fence.proxy.async;", set()),
        (f"{WAIT_ALL}\n fence.proxy.async;\n {NOINC}", "", set()),
    ],
    ids=["none", "before the arrival", "behind it", "behind the wait", "of the reader", "of what has come"],
)
def test_copies_are_of_the_generic_proxy(writes, waited, found):
    """A bulk store reads what they have written (PTX ISA, "Async proxy")."""
    launched = run(writes, wait=f"{WAIT}\n {waited}\n{STORE}")
    assert {finding.kind for finding in launched.findings} == found
    assert launched.arrays[1].tolist() == list(range(32))
