"""Warps that copy k tiles to the stages of shared memory and multiply them, as lanes of a timeline of what the emulator executed:
what cp.async (copied.py) and copies through registers (register_staged.py) have in common.

Who waits for what is what happened. The emulator knows no times: a copy and a k tile are given lengths, and each event begins when
all that it waited for has ended.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from mmagen.draw.timeline import LOAD, MULTIPLY, WAIT, span
from mmagen.emulate import Event

ISSUE, LATENCY = 0.1, 1.5  # of a copy, in products of a k tile
_NAMES = {"mma": "mma.sync", "scalar": "scalar products"}


@dataclass
class Fill:
    """One k tile in a stage. places: where warps begin to write it; arrived: when all of it is there; read: when the first warp
    loads it from there; multiplied: when the last one is through with it."""

    number: int
    begins: float
    places: set[int] = field(default_factory=set)
    arrived: float = 0.0
    read: float | None = None
    multiplied: float | None = None


@dataclass
class Warps:
    """kind: of the events that multiply, mma or scalar. per_tile: of those, of a warp on a k tile. written: the numbers of what
    comes to each place, in order. fills: by these numbers. Times by warp."""

    kind: str
    per_tile: dict[int, int]
    written: dict[int, list[int]]
    now: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    fills: dict[int, Fill] = field(default_factory=dict)
    multiplied: Counter[int] = field(default_factory=Counter)
    bars: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    running: dict[int, tuple[int, float]] = field(default_factory=dict)  # the k tile that a warp multiplies, and since when

    def __post_init__(self) -> None:
        self._places = sorted(self.written)

    def sync(self, together: Sequence[Event]) -> None:
        """Warps go past a barrier when the last of them is there."""
        ends, last = max((self.now[one.warp], one.warp) for one in together)
        for one in together:
            if ends > self.now[one.warp]:
                self.waits(one.warp, ends, f"barrier {one.number}: waits for warp {last}")

    def fetch(self, one: Event) -> None:
        """A warp that multiplies loads from a stage: the k tile that came there last."""
        if one.warp not in self.per_tile:
            return
        here = bisect_right(self._places, one.mbarrier) - 1
        there = [number for number in self.written[self._places[here]] if number in self.fills] if here >= 0 else []
        if there and self.multiplied[one.warp] < self.per_tile[one.warp] * len(self.fills):
            fill, at = self.fills[there[-1]], self.now[one.warp]
            fill.read = at if fill.read is None else min(fill.read, at)

    def multiply(self, one: Event) -> None:
        """k tiles are multiplied in the order in which they were copied."""
        number, per_tile = self.multiplied[one.warp], self.per_tile[one.warp]
        tile, at = number // per_tile, self.now[one.warp]
        if self.running.get(one.warp, (tile, 0.0))[0] != tile:
            self.pause(one.warp)
        self.running.setdefault(one.warp, (tile, at))
        self.multiplied[one.warp] += 1
        self.now[one.warp] = at + 1 / per_tile
        fill = next((one for one in self.fills.values() if one.number == tile), None)
        if fill:
            fill.multiplied = max(fill.multiplied or 0.0, self.now[one.warp])

    def waits(self, warp: int, ends: float, says: str) -> None:
        """Until then."""
        self.pause(warp)
        self.bars[warp].append(span(self.now[warp], ends, WAIT, says, ""))
        self.now[warp] = ends

    def pause(self, warp: int) -> None:
        """The products of a k tile, so far, become a bar."""
        if warp in self.running:
            tile, begins = self.running.pop(warp)
            says = f"{_NAMES[self.kind]} on k tile {tile}"
            self.bars[warp].append(span(begins, self.now[warp], MULTIPLY, says, str(tile)))

    def stages(self, copy: str) -> list[list[str]]:
        """Bars of each stage, in the order of their places. copy: what fills them."""
        by_stage: defaultdict[int, list[Fill]] = defaultdict(list)
        for fill in self.fills.values():
            by_stage[min(fill.places)].append(fill)
        return [
            [bar for fill, after in pairwise([*by_stage[place], None]) if fill for bar in _bars(fill, after, copy)]
            for place in sorted(by_stage)
        ]

    def run(self, events: Sequence[Event], steps: Mapping[str, Callable[[Event], None]]) -> float:
        """Replay the events, in order, and say when the last one ends. steps: what to do with those of a kind; others than these
        and barriers are left out."""
        for kind, together in groupby(events, key=lambda one: one.kind):
            if kind == "sync":
                self.sync(list(together))
            elif kind in steps:
                for one in together:
                    steps[kind](one)
        for warp in list(self.running):
            self.pause(warp)
        return max(self.now.values())


def per_tile(events: Sequence[Event], kind: str, k_tiles: int) -> dict[int, int]:
    """Products of each warp on a k tile; empty unless all k tiles have equally many."""
    products = Counter(one.warp for one in events if one.kind == kind)
    if not k_tiles or any(count % k_tiles for count in products.values()):
        return {}
    return {warp: count // k_tiles for warp, count in products.items()}


def written(events: Sequence[Event], kind: str) -> dict[int, list[int]]:
    """The numbers of such events by place, each once."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for one in events:
        if one.kind == kind and one.number not in found[one.mbarrier]:
            found[one.mbarrier].append(one.number)
    return found


def _bars(fill: Fill, after: Fill | None, copy: str) -> Iterator[str]:
    """after: the next k tile in the stage."""
    what = f"k tile {fill.number}"
    yield span(fill.begins, fill.arrived, LOAD, f"{what}: {copy}", str(fill.number))
    if fill.read is None or fill.multiplied is None:
        return
    if fill.read > fill.arrived:
        yield span(fill.arrived, fill.read, WAIT, f"{what}: there, and waits to be read", "")
    ends = min(fill.multiplied, after.begins) if after else fill.multiplied
    if ends > fill.read:
        yield span(fill.read, ends, MULTIPLY, f"{what}: read to registers, and multiplied", str(fill.number))
