"""The source of a copy in flight: nobody may write it until the copy is known to be complete."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import TensorMap
from tests.emulate.test_tma import SETUP, WAIT
from tests.support.ptx_hopper import run, text

_SMEM = 16448
_BYTES = 512

# Every thread copies four bytes of the output to shared memory by cp.async.
COPY = """
    mad.wide.u32 %rd1, %tid, 4, %out;
    mad.lo.u32 %r1, %tid, 4, %base;
    cp.async.ca.shared.global [%r1], [%rd1], 4KEPT;
"""
OWN = "    st.global.u32 [%rd1], %tid;\n"
OTHER = """
    xor.b32 %r2, %tid, 127;
    mad.wide.u32 %rd2, %r2, 4, %out;
    st.global.u32 [%rd2], %tid;
"""
WAIT_GROUP = "    cp.async.commit_group;\n    cp.async.wait_group 0;\n"
BARRIER = "    bar.sync 0;\n"

LINE = f"""
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {_BYTES};
    @%lead cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%base], [%out], {_BYTES}, [%bar];
"""
BOX = f"""
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {_BYTES};
    mov.u32 %r20, 0;
    mov.u32 %r21, 0;
    @%lead cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%base], [%map, {{%r20, %r21}}], [%bar];
"""
WRITE = "    mad.wide.u32 %rd1, %tid, 4, %out;\n" + OWN
LAST_WRITES = f"    mad.wide.u32 %rd1, %tid, 4, %out;\n    setp.eq.u32 %q, %tid, 127;\n    @%q {OWN.strip()}\n"
# Of the first warp alone, which then tells the others.
WAIT_OF_WARP = f"""
    setp.ne.u32 %q, %warp, 0;
    @%q bra DONE;
{WAIT}
DONE:
"""
STORE = f"""
    @%lead cp.async.bulk.global.shared::cta.bulk_group [%out], [%base+4096], {_BYTES};
    @%lead cp.async.bulk.commit_group;
    @%lead cp.async.bulk.wait_group 0;
"""
FILL = """
    mad.lo.u32 %r1, %tid, 4, %base;
    st.shared.u32 [%r1+4096], %tid;
    fence.proxy.async.shared::cta;
    bar.sync 0;
"""


def found(body, maps=()):
    _, report = run(text(body), np.zeros(_BYTES, np.uint8), _BYTES, smem=_SMEM, filled=True, maps=maps)
    return [(finding.kind, "reads" in finding.message) for finding in report.findings]


RACE = [("async_race", True)]


def one_box(given, out):
    return TensorMap(out, 4, (32, 4), (128,), (32, 4))


@pytest.mark.parametrize("write", [OWN, OTHER, "    atom.global.add.u32 %r3, [%rd1], 1;\n"])
def test_the_source_of_a_cp_async_is_left_alone_until_it_was_waited_for(write):
    copy = COPY.replace("KEPT", "")
    assert found(copy + write + WAIT_GROUP) == RACE
    assert found(copy + WAIT_GROUP + BARRIER + write) == []
    assert found(copy + "    cp.async.commit_group;\n    cp.async.wait_group 1;\n" + BARRIER + write + WAIT_GROUP) == RACE


def test_what_is_not_read_may_be_written():
    zeros = "    mov.u32 %r9, 0;\n" + COPY.replace("KEPT", ", %r9")
    assert found(zeros + OWN + WAIT_GROUP) == []
    half = "    mov.u32 %r9, 2;\n" + COPY.replace("KEPT", ", %r9")
    assert found(half + "    st.global.u16 [%rd1+2], 0;\n" + WAIT_GROUP) == []
    assert found(half + "    st.global.u16 [%rd1], 0;\n" + WAIT_GROUP) == RACE


def test_an_arrival_behind_the_copies_ends_them():
    arrive = "    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%bar];\n"
    setup = SETUP.replace("[%bar], 1", "[%bar], 128")
    assert found(setup + COPY.replace("KEPT", "") + arrive + WAIT + OTHER) == []
    assert found(setup + COPY.replace("KEPT", "") + arrive + OTHER + WAIT) == RACE


@pytest.mark.parametrize("load, maps", [(LINE, ()), (BOX, (one_box,))], ids=["line", "box"])
def test_the_source_of_a_bulk_load_is_left_alone_until_the_phase_is_known_to_have_ended(load, maps):
    assert found(SETUP + load + WRITE + WAIT, maps) == RACE
    assert found(SETUP + load + WAIT + WRITE, maps) == []
    # What one warp has waited for the others do not know before a barrier.
    assert found(SETUP + load + WAIT_OF_WARP + LAST_WRITES, maps) == RACE
    assert found(SETUP + load + WAIT_OF_WARP + BARRIER + LAST_WRITES, maps) == []


@pytest.mark.parametrize("load, maps", [(LINE, ()), (BOX, (one_box,))], ids=["line", "box"])
def test_a_bulk_store_to_the_source_waits_as_well(load, maps):
    assert found(SETUP + FILL + load + STORE + WAIT, maps) == RACE
    assert found(SETUP + FILL + load + WAIT + STORE, maps) == []
