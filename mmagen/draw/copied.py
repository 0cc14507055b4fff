"""The pipeline of a kernel whose threads copy by cp.async, as a timeline of what its first CTA did in the emulator: groups of
copies, waits for them, barriers, and mma.sync.

Who waits for what is what happened. The emulator knows no times: a group of copies and a k tile are given lengths, and each event
begins when all that it waited for has ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from mmagen.draw.svg import Picture
from mmagen.draw.timeline import LOAD, MULTIPLY, WAIT, lanes_picture, span
from mmagen.emulate import Event

_ISSUE, _LATENCY = 0.1, 1.5  # in products of a k tile


@dataclass
class _Fill:
    """One k tile in a stage. places: where warps begin to write it; read: when the first warp reads it to registers; multiplied:
    when the last one is through with it."""

    number: int
    begins: float
    places: set[int] = field(default_factory=set)
    arrived: float = 0.0
    read: float | None = None
    multiplied: float | None = None


@dataclass
class _Replay:
    """per_tile: mma.syncs of a warp on a k tile. fills: by the number of their group. Times by warp."""

    per_tile: dict[int, int]
    now: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    fills: dict[int, _Fill] = field(default_factory=dict)
    open: set[tuple[int, int]] = field(default_factory=set)  # (warp, group) with copies
    landed: dict[tuple[int, int], float] = field(default_factory=dict)
    multiplied: Counter[int] = field(default_factory=Counter)
    bars: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    running: dict[int, tuple[int, float]] = field(default_factory=dict)  # the k tile that a warp multiplies, and since when

    def copy(self, one: Event) -> None:
        """A warp issues copies of its open group."""
        self._pause(one.warp)
        fill = self.fills.setdefault(one.number, _Fill(len(self.fills), self.now[one.warp]))
        fill.places.add(one.mbarrier)
        self.open.add((one.warp, one.number))

    def group(self, one: Event) -> None:
        """It closes the group."""
        if (one.warp, one.number) not in self.open:
            return  # an empty group behind the last k tile
        at, fill = self.now[one.warp], self.fills[one.number]
        self.now[one.warp] += _ISSUE
        self.landed[one.warp, one.number] = at + _ISSUE + _LATENCY
        fill.arrived = max(fill.arrived, at + _ISSUE + _LATENCY)
        self.bars[one.warp].append(span(at, at + _ISSUE, LOAD, f"has issued its copies of k tile {fill.number}", ""))

    def wait(self, one: Event) -> None:
        """It waits for all groups below a number."""
        mine = [(at, number) for (warp, number), at in self.landed.items() if warp == one.warp and number < one.number]
        ends, number = max(mine, default=(0.0, 0))
        if ends > self.now[one.warp]:
            self._waits(one.warp, ends, f"cp.async.wait_group: waits for its copies of k tile {self.fills[number].number}")

    def sync(self, together: Sequence[Event]) -> None:
        """Warps go past a barrier when the last of them is there."""
        ends, last = max((self.now[one.warp], one.warp) for one in together)
        for one in together:
            if ends > self.now[one.warp]:
                self._waits(one.warp, ends, f"barrier {one.number}: waits for warp {last}")

    def fetch(self, one: Event, groups: dict[int, list[int]], places: Sequence[int]) -> None:
        """A warp reads a stage: the k tile that came there last. groups: by place, in order."""
        here = bisect_right(places, one.mbarrier) - 1
        there = [number for number in groups[places[here]] if number in self.fills] if here >= 0 else []
        if there and self.multiplied[one.warp] < self.per_tile[one.warp] * len(self.fills):
            fill, at = self.fills[there[-1]], self.now[one.warp]
            fill.read = at if fill.read is None else min(fill.read, at)

    def mma(self, one: Event) -> None:
        """k tiles are multiplied in the order in which they were copied."""
        number, per_tile = self.multiplied[one.warp], self.per_tile[one.warp]
        tile, at = number // per_tile, self.now[one.warp]
        if self.running.get(one.warp, (tile, 0.0))[0] != tile:
            self._pause(one.warp)
        self.running.setdefault(one.warp, (tile, at))
        self.multiplied[one.warp] += 1
        self.now[one.warp] = at + 1 / per_tile
        fill = next((one for one in self.fills.values() if one.number == tile), None)
        if fill:
            fill.multiplied = max(fill.multiplied or 0.0, self.now[one.warp])

    def _waits(self, warp: int, ends: float, says: str) -> None:
        self._pause(warp)
        self.bars[warp].append(span(self.now[warp], ends, WAIT, says, ""))
        self.now[warp] = ends

    def _pause(self, warp: int) -> None:
        """The products of a k tile, so far, become a bar."""
        if warp in self.running:
            tile, begins = self.running.pop(warp)
            self.bars[warp].append(span(begins, self.now[warp], MULTIPLY, f"mma.sync on k tile {tile}", str(tile)))

    def end(self) -> None:
        """Nothing comes any more."""
        for warp in list(self.running):
            self._pause(warp)


def picture(events: Sequence[Event], of: str, name: str) -> Picture | None:
    """A lane for each stage and for each warp; None for a kernel without mma.syncs on what cp.async copies."""
    copies = [one for one in events if one.kind == "copy"]
    products = Counter(one.warp for one in events if one.kind == "mma")
    k_tiles = len({one.number for one in copies})
    if not copies or not products or any(count % k_tiles for count in products.values()):
        return None
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for one in copies:
        if one.number not in groups[one.mbarrier]:
            groups[one.mbarrier].append(one.number)
    places = sorted(groups)
    replay = _Replay({warp: count // k_tiles for warp, count in products.items()})
    for kind, together in groupby(events, key=lambda one: one.kind):
        some = list(together)
        if kind == "sync":
            replay.sync(some)
        for one in some:
            if kind == "copy":
                replay.copy(one)
            elif kind == "group":
                replay.group(one)
            elif kind == "landed":
                replay.wait(one)
            elif kind == "fetch" and one.warp in replay.per_tile:
                replay.fetch(one, groups, places)
            elif kind == "mma":
                replay.mma(one)
    replay.end()
    by_stage: defaultdict[int, list[_Fill]] = defaultdict(list)
    for fill in replay.fills.values():
        by_stage[min(fill.places)].append(fill)
    stages = [by_stage[place] for place in sorted(by_stage)]
    lanes = [
        (f"stage {number}", [bar for fill, after in pairwise([*fills, None]) if fill for bar in _bars(fill, after)])
        for number, fills in enumerate(stages)
    ]
    lanes += [(f"warp {warp}", replay.bars[warp]) for warp in sorted(products)]
    title = (
        f"Pipeline of the first CTA as the emulator executed it, {len(stages)} stages filled by cp.async: blue copies, green "
        f"multiplied, grey waiting; labels are k tiles in the order of their copies. Order and waits are what happened, lengths "
        f"are assumed: {of}"
    )
    return lanes_picture(name, title, lanes, max(replay.now.values()))


def _bars(fill: _Fill, after: _Fill | None) -> list[str]:
    """after: the next k tile in the stage."""
    what = f"k tile {fill.number}"
    bars = [span(fill.begins, fill.arrived, LOAD, f"{what}: copies in flight", str(fill.number))]
    if fill.read is None or fill.multiplied is None:
        return bars
    if fill.read > fill.arrived:
        bars.append(span(fill.arrived, fill.read, WAIT, f"{what}: there, and waits to be read", ""))
    ends = min(fill.multiplied, after.begins) if after else fill.multiplied
    if ends > fill.read:
        bars.append(span(fill.read, ends, MULTIPLY, f"{what}: read to registers, and multiplied", str(fill.number)))
    return bars
