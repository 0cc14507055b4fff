"""The timeline of a trace of copies through registers: loads, stores, barriers and products, and from which events that follows."""

from __future__ import annotations

import re

import pytest

from mmagen.draw import copied, traced
from mmagen.draw.register_staged import picture
from mmagen.emulate import Event

SIZE, PER_TILE, WARPS = 1024, 2, 2


def _each(kind: str, place: int = 0) -> list[Event]:
    return [Event(kind, warp, place + 64 * warp) for warp in range(WARPS)]


def _trace(k_tiles: int, product: str = "mma") -> list[Event]:
    """All warps load k tile k + 1 before they multiply k tile k, store it to the other stage, and sum up in an epilogue."""
    found = [*_each("read"), *_each("put"), *_each("sync")]
    for k in range(k_tiles):
        more = k + 1 < k_tiles
        found += _each("read") * more + (_each("fetch", k % 2 * SIZE + 128) + _each(product)) * PER_TILE
        found += (_each("put", (k + 1) % 2 * SIZE) + _each("sync")) * more
    return [*found, *_each("sync"), *_each("put"), *_each("sync"), *_each("fetch", 128), *_each("scalar"), *_each("read")]


def _lanes(events: list[Event]) -> list[list[str]]:
    drawn = picture(events, "it", "pipeline-traced")
    assert drawn
    return [re.findall(r"<title>([^<]*)</title>", lane) for lane in drawn.svg.split('<g transform="translate(190')[1:]]


@pytest.mark.parametrize(("product", "says"), [("mma", "mma.sync"), ("scalar", "scalar products")])
def test_a_k_tile_goes_through_registers_to_its_stage_and_is_multiplied(product, says):
    registers, *stages, first, second = _lanes(_trace(4, product))
    assert [one for one in registers if "flight" in one] == [f"k tile {k}: loads in flight to registers" for k in range(4)]
    assert len(stages) == 2
    for stage, bars in enumerate(stages):
        tiles = [k for k in range(4) if k % 2 == stage]
        assert [one for one in bars if "stored" in one] == [f"k tile {k}: stored from registers" for k in tiles]
        assert [one for one in bars if "multiplied" in one] == [f"k tile {k}: read to registers, and multiplied" for k in tiles]
    assert first == second
    assert first[:4] == [
        "issues its loads of k tile 0",
        "waits for its loads of k tile 0, to store them",
        "stores its part of k tile 0 to shared memory",
        "issues its loads of k tile 1",
    ]
    # The epilogue's products and loads are none of the pipeline's.
    assert [one for one in first if says in one] == [f"{says} on k tile {k}" for k in range(4)]
    assert not any("k tile 4" in one for one in first)


def test_a_late_warp_is_waited_for_at_the_barrier():
    events = _trace(2)
    at = [n for n, one in enumerate(events) if one.kind == "sync"][WARPS]  # the barrier behind the stores of k tile 1
    late = [Event("mma", 1)] * 2, [Event("mma", 0)] * 2  # of warp 0 behind it, so that both have as many
    *_, first, second = _lanes(events[:at] + late[0] + events[at : at + WARPS] + late[1] + events[at + WARPS :])
    assert "barrier 0: waits for warp 1" in first and "barrier 0: waits for warp 1" not in second


def test_other_kernels_have_no_such_picture():
    assert picture([Event("load", 0, 64), Event("multiply", 0)], "it", "x") is None
    assert picture([one for one in _trace(3) if one.kind not in ("mma", "scalar")], "it", "x") is None
    uneven = _trace(3)
    uneven.insert(0, Event("mma", 0))
    assert picture(uneven, "it", "x") is None
    assert traced.picture(_trace(3), "it", "x") is None and copied.picture(_trace(3), "it", "x") is None
