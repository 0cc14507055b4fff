"""The pipeline of a kernel without cp.async, as a timeline of what its first CTA did in the emulator: a k tile waits in registers
while the one before is multiplied, and is then stored to the other stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mmagen.draw.svg import Picture
from mmagen.draw.timeline import LOAD, STORE, WAIT, lanes_picture, span
from mmagen.draw.warps import ISSUE, LATENCY, Fill, Warps, per_tile, written
from mmagen.emulate import Event

_STORE = 0.2  # in products of a k tile


@dataclass
class _Loaded:
    """A k tile in the registers of the warps: when its loads begin, when the last of them arrives, and when it leaves them."""

    begins: float
    arrived: float = 0.0
    stored: float = 0.0


@dataclass
class _Replay(Warps):
    """loaded, fills: by the number of the k tile."""

    loaded: dict[int, _Loaded] = field(default_factory=dict)
    landed: dict[tuple[int, int], float] = field(default_factory=dict)  # when the loads of (warp, k tile) arrive
    storing: set[tuple[int, int]] = field(default_factory=set)

    def load(self, one: Event) -> None:
        """A warp issues loads from global memory."""
        mine = one.warp, one.number
        if mine in self.landed:
            return
        self.pause(one.warp)
        at = self.now[one.warp]
        self.now[one.warp] += ISSUE
        self.landed[mine] = at + ISSUE + LATENCY
        there = self.loaded.setdefault(one.number, _Loaded(at))
        there.begins, there.arrived = min(there.begins, at), max(there.arrived, self.landed[mine])
        self.bars[one.warp].append(span(at, at + ISSUE, LOAD, f"issues its loads of k tile {one.number}", ""))

    def store(self, one: Event) -> None:
        """It stores what they brought: the first store waits for that."""
        mine = one.warp, one.number
        if mine not in self.storing:
            self.storing.add(mine)
            self.pause(one.warp)
            if self.landed[mine] > self.now[one.warp]:
                self.waits(one.warp, self.landed[mine], f"waits for its loads of k tile {one.number}, to store them")
            at = self.now[one.warp]
            self.now[one.warp] += _STORE
            says = f"stores its part of k tile {one.number} to shared memory"
            self.bars[one.warp].append(span(at, at + _STORE, STORE, says, ""))
            self.fills.setdefault(one.number, Fill(one.number, at))
        fill, ends = self.fills[one.number], self.now[one.warp]
        fill.places.add(one.mbarrier)
        fill.begins, fill.arrived = min(fill.begins, ends - _STORE), max(fill.arrived, ends)
        self.loaded[one.number].stored = max(self.loaded[one.number].stored, ends)

    def registers(self) -> list[str]:
        """Bars of the k tiles that are on their way through registers."""
        bars = []
        for number, one in self.loaded.items():
            bars.append(span(one.begins, one.arrived, LOAD, f"k tile {number}: loads in flight to registers", str(number)))
            if one.stored > one.arrived:
                bars.append(span(one.arrived, one.stored, WAIT, f"k tile {number}: in registers, until it is stored", ""))
        return bars


def picture(events: Sequence[Event], of: str, name: str) -> Picture | None:
    """A lane for the registers that k tiles wait in, for each stage and for each warp; None for a kernel without products of what
    threads load to registers and store to shared memory."""
    kind = "mma" if any(one.kind == "mma" for one in events) else "scalar"
    events = _mainloop(events)
    k_tiles = len({one.number for one in events if one.kind == "put"})
    products = per_tile(events, kind, k_tiles)
    if not products:
        return None
    events = [one for one in events if one.kind != "read" or one.number < k_tiles]  # an epilogue may load, too
    replay = _Replay(kind, products, written(events, "put"))
    steps = {"read": replay.load, "put": replay.store, "fetch": replay.fetch, kind: replay.multiply}
    ends = replay.run(events, steps)
    stages = replay.stages("stored from registers")
    lanes = [("registers", replay.registers())]
    lanes += [(f"stage {number}", bars) for number, bars in enumerate(stages)]
    lanes += [(f"warp {warp}", replay.bars[warp]) for warp in sorted(products)]
    title = (
        f"Pipeline of the first CTA as the emulator executed it, {len(stages)} stages filled from registers: blue loads, orange "
        f"stores to shared memory, green multiplied, grey waiting; labels are k tiles in the order of their loads. Order and "
        f"waits are what happened, lengths are assumed: {of}"
    )
    return lanes_picture(name, title, lanes, ends)


def _mainloop(events: Sequence[Event]) -> list[Event]:
    """What each warp does before its epilogue, which begins where it stores to shared memory without having loaded anything since
    its last stores: its sums. read and put get the number of their k tile."""
    found: list[Event] = []
    tile: Counter[int] = Counter()
    loaded, stored, over = set(), set(), set()
    for one in events:
        if one.warp in over:
            continue
        if one.kind == "read":
            loaded.add(one.warp)
        elif one.kind == "put" and one.warp not in loaded:
            over.add(one.warp)
            continue
        elif one.kind == "put":
            stored.add(one.warp)
        elif one.kind == "sync" and one.warp in stored:
            tile[one.warp] += 1
            loaded.discard(one.warp)
            stored.discard(one.warp)
        found.append(replace(one, number=tile[one.warp]) if one.kind in ("read", "put") else one)
    return found
