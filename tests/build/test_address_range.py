"""Arguments whose sizes in bytes do not fit 64 bits: each call is refused with a status of its own, and nothing is launched."""

from __future__ import annotations

import pytest

from mmagen.verify.emulated.interface import interface_of
from mmagen.verify.emulated.session import tasks
from tests.support.address_range import FAR_APART, TOO_LARGE, ExtremeCalls
from tests.support.selection import representatives

pytestmark = pytest.mark.nvcc

# Other tests of every run compile them too: one tile, mma.sync, further tensors, TMA with copies of what it cannot address, pieces
# in a workspace, groups, weights and a sparse A.
SPECS = (
    "hello_micro",
    "sm80_gemm_classic",
    "sm80_gemm_f16_epilogue",
    "c2_stream",
    "pc1_x6",
    "groups",
    "mx2_u4",
    "sparse_bf16",
)
# A kernel with further tensors, one by TMA or with copies of operands, one of f32 in pieces, and a sparse one.
_IN_EVERY_RUN = ("sm80_gemm_f16_epilogue", "c2_stream", "pc1_x6", "sparse_bf16")
_ACCEPTED = 200  # calls that are launched, of those that can be


@pytest.fixture(scope="module")
def calls_of(compiled):
    """calls_of(name): calls of a spec's library."""
    return lambda name: ExtremeCalls(interface_of(tasks(compiled(name).plan, compiled(name).ptx, (), 1, None)[0]))


@pytest.mark.parametrize("spec", representatives(SPECS, _IN_EVERY_RUN))
def test_sizes_that_do_not_fit_are_refused_and_nothing_is_launched(calls_of, spec):
    calls = calls_of(spec)
    answers = calls.asked(list(calls.all()))
    wrong = [f"{one.changes}: {why}" for one in answers if (why := calls.wrong(one))]
    assert not wrong, "\n".join(wrong[:20])
    refused = [one for one in answers if one.status]
    statuses, launches = calls.run([one.changes for one in refused])
    assert statuses == [one.status for one in refused] and launches == 0
    accepted = [one.changes for one in answers if not one.status]
    assert len(accepted) > 8, "extents and strides that are large, and legal"
    some = accepted[:: len(accepted) // _ACCEPTED + 1]
    statuses, launches = calls.run(some)
    assert not any(statuses) and launches >= len(some)
    seen = {one.status for one in answers}
    assert seen >= {TOO_LARGE[name] for name in calls.matrices(calls.base) if name in TOO_LARGE}
    assert not calls.interface.task.product.loads_by_tma_alone or seen >= {FAR_APART["a"], FAR_APART["b"]}
