"""The pipeline of a kernel whose threads copy by cp.async, as a timeline of what its first CTA did in the emulator: groups of
copies, waits for them, barriers, and products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mmagen.draw.svg import Picture
from mmagen.draw.timeline import LOAD, lanes_picture, span
from mmagen.draw.warps import ISSUE, LATENCY, Fill, Warps, per_tile, written
from mmagen.emulate import Event


@dataclass
class _Replay(Warps):
    """fills: by the number of their group."""

    open: set[tuple[int, int]] = field(default_factory=set)  # (warp, group) with copies
    landed: dict[tuple[int, int], float] = field(default_factory=dict)

    def copy(self, one: Event) -> None:
        """A warp issues copies of its open group."""
        self.pause(one.warp)
        fill = self.fills.setdefault(one.number, Fill(len(self.fills), self.now[one.warp]))
        fill.places.add(one.mbarrier)
        self.open.add((one.warp, one.number))

    def group(self, one: Event) -> None:
        """It closes the group."""
        if (one.warp, one.number) not in self.open:
            return  # an empty group behind the last k tile
        at, fill = self.now[one.warp], self.fills[one.number]
        self.now[one.warp] += ISSUE
        self.landed[one.warp, one.number] = at + ISSUE + LATENCY
        fill.arrived = max(fill.arrived, at + ISSUE + LATENCY)
        self.bars[one.warp].append(span(at, at + ISSUE, LOAD, f"has issued its copies of k tile {fill.number}", ""))

    def wait(self, one: Event) -> None:
        """It waits for all groups below a number."""
        mine = [(at, number) for (warp, number), at in self.landed.items() if warp == one.warp and number < one.number]
        ends, number = max(mine, default=(0.0, 0))
        if ends > self.now[one.warp]:
            self.waits(one.warp, ends, f"cp.async.wait_group: waits for its copies of k tile {self.fills[number].number}")


def picture(events: Sequence[Event], of: str, name: str) -> Picture | None:
    """A lane for each stage and for each warp; None for a kernel without products of what cp.async copies."""
    kind = "mma" if any(one.kind == "mma" for one in events) else "scalar"
    if kind == "scalar":
        events = _before_epilogue(events)
    k_tiles = len({one.number for one in events if one.kind == "copy"})
    products = per_tile(events, kind, k_tiles)
    if not products:
        return None
    replay = _Replay(kind, products, written(events, "copy"))
    steps = {"copy": replay.copy, "group": replay.group, "landed": replay.wait, "fetch": replay.fetch, kind: replay.multiply}
    ends = replay.run(events, steps)
    stages = replay.stages("copies in flight")
    lanes = [(f"stage {number}", bars) for number, bars in enumerate(stages)]
    lanes += [(f"warp {warp}", replay.bars[warp]) for warp in sorted(products)]
    title = (
        f"Pipeline of the first CTA as the emulator executed it, {len(stages)} stages filled by cp.async: blue copies, green "
        f"multiplied, grey waiting; labels are k tiles in the order of their copies. Order and waits are what happened, lengths "
        f"are assumed: {of}"
    )
    return lanes_picture(name, title, lanes, ends)


def _before_epilogue(events: Sequence[Event]) -> list[Event]:
    """Without what a warp does from its first store to shared memory on: there it puts its sums, which it scales by products."""
    found, over = [], set()
    for one in events:
        if one.kind == "put":
            over.add(one.warp)
        elif one.warp not in over:
            found.append(one)
    return found
