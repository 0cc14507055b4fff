"""The timeline of a trace: what waits for what, and from which events that follows."""

from __future__ import annotations

import re

from mmagen.draw.traced import picture
from mmagen.emulate import Event

FULL, EMPTY = (64, 72), (80, 88)  # mbarriers of two stages
_UNIT = 40


def _trace(k_tiles: int) -> list[Event]:
    """Warp 4 loads, warps 0 to 3 multiply by one wgmma a k tile and release a stage when it is done."""
    found = []
    for k in range(k_tiles):
        stage, phase = k % 2, k // 2
        if phase:
            found += [Event("wait", 4, EMPTY[stage], phase - 1)]
        found += [Event("arrive", 4, FULL[stage], phase), Event("load", 4, FULL[stage], phase)]
        found += [Event("complete", 4, FULL[stage], phase), Event("wait", 0, FULL[stage], phase)]
        found += [Event("multiply", 0), Event("commit", 0), Event("drain", 0, number=0)]
        found += [Event("arrive", 0, EMPTY[stage], phase), Event("complete", 0, EMPTY[stage], phase)]
    return [*found, Event("store", 0)]


def _titles(events: list[Event]) -> list[str]:
    drawn = picture(events, "it", "pipeline-traced")
    assert drawn
    return re.findall(r"<title>([^<]*)</title>", drawn.svg)


def test_waits_and_who_ends_them():
    says = _titles(_trace(4))
    assert "waits for phase 0 of the full mbarrier of stage 0, which a load completes" in says
    assert "waits for phase 0 of the mbarrier at byte 80, which warp 0 completes" in says
    assert [one for one in says if "wgmma" in one] == [f"a wgmma on k tile {k}, from stage {k % 2}" for k in range(4)]
    assert "stores a part of D" in says
    # The third k tile is loaded into the first stage once that is free.
    assert "k tile 2, phase 1: loads in flight" in says


def test_a_stage_that_is_released_late_is_drawn_so():
    early = _trace(4)
    late = early.copy()
    freed = late.index(Event("arrive", 0, EMPTY[0], 0))
    moved = [late.pop(freed), late.pop(freed)]
    after = late.index(Event("arrive", 0, EMPTY[1], 0))  # after the next k tile
    late[after:after] = moved
    released = "k tile 0, phase 0: not yet released"
    assert released in _titles(late) and released not in _titles(early)


def test_a_kernel_without_loads_at_mbarriers_has_no_such_picture():
    assert picture([Event("wait", 0, 64, 0), Event("multiply", 0)], "it", "pipeline-traced") is None
