"""discard.L2: the bytes hold nothing afterwards, and the instruction writes them as far as bounds and races go."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import POISON, EmulationError
from tests.support.ptx import kinds, run

FULL = "st.global.u64 [%rd4], %rd5;"  # 16 threads write 128 bytes
FIRST = "setp.eq.u32 %p1, %r1, 0;"


@pytest.mark.parametrize("form", ["discard.global.L2", "discard.L2"])
def test_nothing_is_left_of_the_bytes(form):
    out, report = run(f"{FULL} bar.sync 0; {FIRST} @%p1 {form} [%rd2], 128;", threads=16, out_bytes=256)
    assert report.findings == [] and (out == POISON).all()


def test_reading_them_is_a_finding_until_they_are_written_again():
    read = "ld.global.u64 %rd6, [%rd2+8];"
    body = f"{FULL} bar.sync 0; {FIRST} @%p1 discard.global.L2 [%rd2], 128; bar.sync 0;"
    report = run(f"{body} @%p1 {read}", threads=16)[1]
    assert kinds(report) == {"uninitialised_global"} and "out[8], which nothing wrote" in report.findings[0].message
    out, report = run(f"{body} {FULL}", threads=16)
    assert report.findings == [] and out.view("u8").tolist() == [8 * thread for thread in range(16)]


def test_it_is_a_write():
    def found(body, **options):
        return kinds(run(body, **options)[1])

    assert found("discard.global.L2 [%rd2+64], 128;", threads=1, out_bytes=256) == {"misaligned"}
    assert found("discard.global.L2 [%rd2+128], 128;", threads=1, out_bytes=192) == {"global_out_of_bounds"}
    assert found("discard.global.L2 [%rd1], 128;", threads=1, data=np.zeros(16, np.uint64)) == {"read_only"}
    # The second CTA reads what the first one discards.
    body = (
        "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 0; @%p1 discard.global.L2 [%rd2], 128; @!%p1 ld.global.u64 %rd6, [%rd2];"
    )
    assert "global_race" in found(body, grid=2, threads=1, out_bytes=128)


def test_other_sizes_are_refused():
    with pytest.raises(EmulationError, match="discard takes 128 bytes"):
        run("discard.global.L2 [%rd2], 64;")
