"""The timeline of a trace of cp.async: groups, waits for them, barriers and products, and from which events that follows."""

from __future__ import annotations

import re
from dataclasses import replace

from mmagen.draw import traced
from mmagen.draw.copied import picture
from mmagen.emulate import Event

STAGES, SIZE, PER_TILE, WARPS = 3, 1024, 2, 2


def _each(kind: str, place: int = 0, number: int = 0) -> list[Event]:
    return [Event(kind, warp, place + 64 * warp, number) for warp in range(WARPS)]


def _trace(k_tiles: int) -> list[Event]:
    """All warps copy k tile k to stage k % STAGES as group k, two groups ahead, and multiply by two mma.syncs a k tile."""
    found = []
    for k in range(STAGES - 1):
        found += _each("copy", k % STAGES * SIZE, k) + _each("group", number=k)
    for k in range(k_tiles):
        found += _each("landed", number=k + 1) + _each("sync")
        more = k + STAGES - 1
        if more < k_tiles:
            found += _each("copy", more % STAGES * SIZE, more)
        found += _each("group", number=more)
        found += (_each("fetch", k % STAGES * SIZE + 128) + _each("mma")) * PER_TILE
    return [*found, *_each("fetch", 128)]  # an epilogue in the first stage


def _lanes(events: list[Event]) -> list[list[str]]:
    drawn = picture(events, "it", "pipeline-traced")
    assert drawn
    return [re.findall(r"<title>([^<]*)</title>", lane) for lane in drawn.svg.split('<g transform="translate(190')[1:]]


def test_k_tiles_are_in_the_stages_that_they_are_copied_to():
    lanes = _lanes(_trace(5))
    assert len(lanes) == STAGES + WARPS
    for stage, says in enumerate(lanes[:STAGES]):
        tiles = [int(number) for number in re.findall(r"k tile (\d+): copies in flight", " ".join(says))]
        assert tiles == [k for k in range(5) if k % STAGES == stage]
        assert [one for one in says if "multiplied" in one] == [f"k tile {k}: read to registers, and multiplied" for k in tiles]


def test_a_warp_waits_for_its_copies_and_then_multiplies():
    says = _lanes(_trace(5))[STAGES]
    assert says[:3] == [
        "has issued its copies of k tile 0",
        "has issued its copies of k tile 1",
        "cp.async.wait_group: waits for its copies of k tile 0",
    ]
    assert [one for one in says if "mma.sync" in one] == [f"mma.sync on k tile {k}" for k in range(5)]


def test_a_late_warp_is_waited_for_at_the_barrier():
    events = _trace(3)
    at = events.index(Event("sync", 0, 0))
    late, even = [Event("mma", 1)] * 3, [Event("mma", 0)] * 3  # of warp 1 before the barrier, so that all have as many
    says = _lanes(events[:at] + late + events[at:] + even)
    assert "barrier 0: waits for warp 1" in says[STAGES] and not any("barrier" in one for one in says[STAGES + 1])


def test_scalar_products_are_multiplied_up_to_the_epilogue():
    scalar = [replace(one, kind="scalar") if one.kind == "mma" else one for one in _trace(4)]
    epilogue = [*_each("put"), *_each("sync"), *_each("fetch"), *_each("scalar")]
    says = _lanes(scalar + epilogue)[STAGES]
    assert [one for one in says if "scalar" in one] == [f"scalar products on k tile {k}" for k in range(4)]
    assert says == [one.replace("mma.sync", "scalar products") for one in _lanes(_trace(4))[STAGES]]


def test_other_kernels_have_no_such_picture():
    assert picture([Event("load", 0, 64), Event("multiply", 0)], "it", "x") is None
    assert picture([one for one in _trace(3) if one.kind != "mma"], "it", "x") is None
    assert traced.picture(_trace(3), "it", "x") is None
