"""Atomic operations on global memory in kernels without flags: what else may access what they change, and their scopes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.ptx import kinds
from tests.support.ptx_hopper import run, text

FIRST = "    mov.u32 %r9, %ctaid.x;\n    setp.eq.u32 %p, %r9, 0;\n    mov.b32 %r1, 0;\n"


def seen(*lines: str, grid: int = 2) -> set[str]:
    """The kinds of findings of one warp in each CTA; the output is filled."""
    _, report = run(text(FIRST + "".join(lines)), np.zeros(64, np.uint32), 512, filled=True, grid=grid, block=32)
    assert report.completed
    return kinds(report)


ATOMICS = {
    "red": "red{}.global.add.u32 [%out], 1;\n",
    "atom": "atom{}.global.add.u32 %r2, [%out], 1;\n",
    "cas": "atom{}.global.cas.b32 %r2, [%out], 1, 2;\n",
    "vector": "red{}.global.add.v2.f32 [%out], {{%r1, %r1}};\n",
    "generic": "red{}.add.u32 [%out], 1;\n",
}


@pytest.mark.parametrize("atomic", ATOMICS.values(), ids=ATOMICS)
def test_atomic_operations_of_many_ctas_are_no_race(atomic):
    assert seen(atomic.format("")) == set()
    assert seen(atomic.format(".gpu")) == set()
    assert seen(atomic.format(".sys"), atomic.format("")) == set()


@pytest.mark.parametrize("atomic", ATOMICS.values(), ids=ATOMICS)
def test_a_scope_that_does_not_include_the_other_cta_makes_them_one(atomic):
    """Whether each has it, or one of both, which comes first or last."""
    narrow, wide = atomic.format(".cta"), atomic.format("")
    assert seen(narrow) == {"global_race"}
    assert seen(f"    @%p {narrow}", f"    @!%p {wide}") == {"global_race"}
    assert seen(f"    @!%p {wide}", f"    @%p {narrow}") == {"global_race"}
    assert seen(narrow, wide, grid=1) == set()
    assert seen(atomic.format(".cluster")) == {"global_race"}
    # With an order they are what flags are made of: the same with clocks.
    assert seen(atomic.format(".relaxed.gpu")) == seen(atomic.format(".relaxed.cta"), grid=1) == set()
    assert seen(atomic.format(".relaxed.cta")) == seen(atomic.format(".acq_rel.cluster")) == {"global_race"}


@pytest.mark.parametrize("other", ["ld.global.u32 %r2, [%out];\n", "st.global.u32 [%out], 7;\n"], ids=["load", "store"])
@pytest.mark.parametrize("atomic", ATOMICS.values(), ids=ATOMICS)
def test_another_cta_may_not_access_that_otherwise(other, atomic):
    atomic = atomic.format("")
    assert seen(f"    @%p {atomic}", f"    @!%p {other}") == {"global_race"}
    assert seen(f"    @!%p {other}", f"    @%p {atomic}") == {"global_race"}
    assert seen(f"    {atomic}", f"    @%p {other}") == {"global_race"}
    assert seen(atomic, grid=1) == seen(atomic, "    bar.sync 0;\n", other, grid=1) == set()
    assert seen(atomic, other.replace("[%out]", "[%out+256]").replace("st.", "@%p st.")) == set()


@pytest.mark.parametrize("load", ["ld.global.nc.u32", "ldu.global.u32"])
@pytest.mark.parametrize("change", [*ATOMICS.values(), "st.global.u32 [%out], 7;\n", "st.u32 [%out], 7;\n"])
def test_loads_of_what_nothing_may_write(load, change):
    """In whatever order, and by the same thread too."""
    change, read = change.format(""), f"{load} %r2, [%out];\n"
    assert seen(change, read, grid=1) == seen(read, change, grid=1) == {"global_race"}
    assert seen(change, read.replace("[%out]", "[%out+256]"), grid=1) == set()
    # The same with clocks: of a kernel that has a flag.
    flag = "    st.release.gpu.global.u32 [%out+400], 1;\n"
    assert seen(flag, change, read, grid=1) == seen(flag, read, change, grid=1) == {"global_race"}
