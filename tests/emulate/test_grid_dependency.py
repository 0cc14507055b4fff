"""Launches that may begin while the kernel before still writes: what must not be touched before griddepcontrol.wait."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import TensorMap
from tests.emulate.test_tma import DONE, SETUP, WAIT, load
from tests.support.ptx import kinds
from tests.support.ptx_hopper import run, text

GRID = "    griddepcontrol.wait;\n"
ONE = "    @%lead griddepcontrol.wait;\n"
ALL = "    bar.sync 0;\n"
ADDRESS = "    mul.wide.u32 %rd1, %tid, 4;\n    add.u64 %rd2, %rd1, %in;\n    add.u64 %rd3, %rd1, %out;\n"
READ, WRITE = "    ld.global.u32 %r1, [%rd2];\n", "    st.global.u32 [%rd3], %tid;\n"
TELL = "    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 0;\n"
SMEM = 16384 + 64


def seen(*pieces, overlaps=True, cluster=1):
    _, report = run(
        text(ADDRESS + "".join(pieces)),
        np.zeros(1024, np.uint32),
        4096,
        overlaps=overlaps,
        filled=True,
        smem=SMEM,
        maps=(lambda i, o: TensorMap(i, 4, (32, 32, 1), (128, 4096), (32, 4, 1), 128),),
        grid=cluster,
        cluster=cluster,
    )
    assert report.completed
    return kinds(report)


@pytest.mark.parametrize(
    "pieces",
    [
        [GRID, READ, WRITE],
        ["    griddepcontrol.launch_dependents;\n", GRID, READ],
        [ONE, ALL, READ, WRITE],
        [SETUP, ONE, load(512, (0, 0, 0)), WAIT, WRITE, DONE],
        [SETUP, ONE, TELL, WAIT, READ, DONE],
    ],
)
def test_after_the_wait_of_any_thread_that_one_has_synchronised_with(pieces):
    assert seen(*pieces) == set()


@pytest.mark.parametrize(
    "pieces",
    [
        [READ, GRID],
        [WRITE, GRID],
        [READ],
        [ALL, ONE, READ],
        [SETUP, load(512, (0, 0, 0)), WAIT, GRID, DONE],
        [SETUP, ONE, READ, TELL, WAIT, DONE],
        ["    griddepcontrol.launch_dependents;\n", READ],
        ["    @%lead red.global.add.u32 [%out], 1;\n", GRID],
    ],
)
def test_what_is_touched_before_is_found(pieces):
    assert seen(*pieces) == {"grid_dependency"}
    assert seen(*pieces, overlaps=False) == set()


@pytest.mark.parametrize(("meets", "found"), [(DONE, set()), ("", {"grid_dependency"})])
def test_a_cluster_may_wait_in_one_cta(meets, found):
    wait = "    setp.eq.u32 %p, %rank, 0;\n    @%p griddepcontrol.wait;\n"
    assert seen(wait, meets, READ, DONE, cluster=2) == found
