"""The pipeline of a kernel as a timeline of what its first CTA did in the emulator: loads, phases of mbarriers, products, stores.

Who waits for whom is what happened. The emulator knows no times: a load, a k tile and a store are given lengths, and each event
begins when all that it waited for has ended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from mmagen.draw.svg import Picture
from mmagen.draw.timeline import LOAD, MULTIPLY, STORE, WAIT, lanes_picture, span
from mmagen.emulate import Event

_ISSUE, _LATENCY, _STORE = 0.1, 1.5, 0.3  # in products of a k tile
_WARPGROUP = 4  # warps
_KINDS = ("load", "arrive", "complete", "wait", "multiply", "commit", "drain", "store")  # cp.async's are in copied.py
Phase = tuple[int, int]  # (byte of the mbarrier, number)


@dataclass
class _Fill:
    """One k tile in a stage: when its loads begin and have arrived, when it is multiplied, and when the stage is free again."""

    number: int
    begins: float
    arrived: float = 0.0
    multiplied: tuple[float, float] | None = None
    free: float | None = None
    waits_for: Phase | None = None


@dataclass
class _Replay:
    """stages: the mbarriers that k tiles arrive at. Times by warp: now, until which wgmmas run, and when groups of them end."""

    stages: list[int]
    products: dict[int, float]
    now: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    until: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    groups: dict[int, list[float]] = field(default_factory=dict)
    there: dict[int, list[tuple[float, str]]] = field(default_factory=dict)
    done: dict[Phase, tuple[float, str]] = field(default_factory=dict)
    fills: dict[Phase, _Fill] = field(default_factory=dict)
    bars: dict[int, list[str]] = field(default_factory=dict)
    holds: dict[int, Phase] = field(default_factory=dict)  # the k tile that a warpgroup multiplies
    emptied: dict[int, Phase] = field(default_factory=dict)  # what a warp waited for last

    def name(self, mbarrier: int) -> str:
        """Of an mbarrier."""
        if mbarrier in self.stages:
            return f"full mbarrier of stage {self.stages.index(mbarrier)}"
        return f"mbarrier at byte {mbarrier}"

    def run(self, one: Event) -> None:
        """One event after the other."""
        getattr(self, f"_{one.kind}")(one)

    def _load(self, one: Event) -> None:
        at, phase = self.now[one.warp], (one.mbarrier, one.number)
        self.now[one.warp] += _ISSUE
        self.there.setdefault(one.mbarrier, []).append((at + _ISSUE + _LATENCY, "a load"))
        if one.mbarrier not in self.stages:
            return
        if phase not in self.fills:
            self.fills[phase] = _Fill(len(self.fills), at, waits_for=self.emptied.get(one.warp))
        says = f"issues a load of k tile {self.fills[phase].number} into stage {self.stages.index(one.mbarrier)}"
        self._bar(one.warp, span(at, at + _ISSUE, LOAD, says, ""))

    def _arrive(self, one: Event) -> None:
        self.there.setdefault(one.mbarrier, []).append((self.now[one.warp], who(one.warp)))

    def _complete(self, one: Event) -> None:
        phase, last = (one.mbarrier, one.number), max(self.there.pop(one.mbarrier, [(0.0, "")]))
        self.done[phase] = last
        if phase in self.fills:
            self.fills[phase].arrived = last[0]

    def _wait(self, one: Event) -> None:
        phase, at = (one.mbarrier, one.number), self.now[one.warp]
        ends, by = self.done.get(phase, (0.0, ""))
        self.emptied[one.warp] = phase
        if phase in self.fills:
            self.holds[one.warp] = phase
        if ends > at:
            self._bar(
                one.warp,
                span(
                    at, ends, WAIT, f"waits for phase {one.number} of the {self.name(one.mbarrier)}, which {by} completes", ""
                ),
            )
            self.now[one.warp] = ends

    def _multiply(self, one: Event) -> None:
        begins = max(self.now[one.warp], self.until[one.warp])
        ends = self.until[one.warp] = begins + self.products[one.warp]
        phase = self.holds.get(one.warp)
        if phase is None:
            return
        fill = self.fills[phase]
        first, last = fill.multiplied or (begins, ends)
        fill.multiplied = min(first, begins), max(last, ends)
        says = f"a wgmma on k tile {fill.number}, from stage {self.stages.index(phase[0])}"
        self._bar(one.warp, span(begins, ends, MULTIPLY, says, ""))

    def _commit(self, one: Event) -> None:
        self.groups.setdefault(one.warp, []).append(self.until[one.warp])

    def _drain(self, one: Event) -> None:
        ended = self.groups.get(one.warp, [])[: len(self.groups.get(one.warp, [])) - one.number]
        if ended:
            for warp in range(one.warp, one.warp + _WARPGROUP):
                self.now[warp] = max(self.now[warp], ended[-1])

    def _store(self, one: Event) -> None:
        at = self.now[one.warp]
        self.now[one.warp] += _STORE
        self._bar(one.warp, span(at, at + _STORE, STORE, "stores a part of D", ""))

    def _bar(self, warp: int, text: str) -> None:
        self.bars.setdefault(warp, []).append(text)

    @property
    def ends(self) -> float:
        return max([*self.now.values(), *self.until.values()], default=0.0)


def who(warp: int) -> str:
    """In words."""
    return f"warp {warp}" if warp >= 0 else "another CTA of the cluster"


def picture(events: Sequence[Event], of: str, name: str) -> Picture | None:
    """A lane for each warp that issues loads, for each stage, and for the first warp of each warpgroup that multiplies; None for
    a kernel whose k tiles do not arrive at mbarriers."""
    stages = _stages(events)
    if not stages:
        return None
    events = [one for one in events if one.kind in _KINDS]
    multiplied = Counter(one.warp for one in events if one.kind == "multiply")
    waited = Counter(one.warp for one in events if one.kind == "wait" and one.mbarrier in stages)
    replay = _Replay(stages, {warp: waited[warp] / count for warp, count in multiplied.items()})
    for one in events:
        replay.run(one)
    loading = sorted({one.warp for one in events if one.kind == "load" and one.mbarrier in stages and one.warp >= 0})
    lanes = [(f"{who(warp)}: loads", replay.bars.get(warp, [])) for warp in loading]
    for stage, mbarrier in enumerate(stages):
        lanes.append(
            (
                f"stage {stage}",
                [bar for phase, fill in replay.fills.items() if phase[0] == mbarrier for bar in _bars(phase, fill, replay)],
            )
        )
    lanes += [(f"warps {warp}-{warp + _WARPGROUP - 1}: wgmma", replay.bars.get(warp, [])) for warp in sorted(multiplied)]
    title = (
        f"Pipeline of the first CTA as the emulator executed it, {len(stages)} stages: blue a load, green multiplied, orange "
        f"stores, grey waiting; labels are k tiles of the CTA. Order and waits are what happened, lengths are assumed: {of}"
    )
    return lanes_picture(name, title, lanes, replay.ends)


def _stages(events: Sequence[Event]) -> list[int]:
    """The mbarriers with loads that a warp waits for right before it multiplies, in the order of their places."""
    loaded = {one.mbarrier for one in events if one.kind == "load"}
    last: dict[int, int] = {}
    found = set()
    for one in events:
        if one.kind == "wait":
            last[one.warp] = one.mbarrier
        elif one.kind == "multiply" and last.get(one.warp) in loaded:
            found.add(last[one.warp])
    return sorted(found)


def _bars(phase: Phase, fill: _Fill, replay: _Replay) -> list[str]:
    what = f"k tile {fill.number}, phase {phase[1]}"
    bars = [span(fill.begins, fill.arrived, LOAD, f"{what}: loads in flight", str(fill.number))]
    if fill.multiplied:
        begins, ends = fill.multiplied
        if begins > fill.arrived:
            bars.append(span(fill.arrived, begins, WAIT, f"{what}: full, and waits to be multiplied", ""))
        bars.append(span(begins, ends, MULTIPLY, f"{what}: multiplied", str(fill.number)))
    after = replay.fills.get((phase[0], phase[1] + 1))
    free = replay.done.get(after.waits_for, (0.0, ""))[0] if after and after.waits_for else 0.0
    if fill.multiplied and free > fill.multiplied[1]:
        bars.append(span(fill.multiplied[1], free, WAIT, f"{what}: not yet released", ""))
    return bars
