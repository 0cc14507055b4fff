"""The pipeline of a kernel as a timeline: stages, phases, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from mmagen.draw.svg import Picture, bar, document
from mmagen.plan.pipeline import ISSUE, Pipeline, Step, Timeline, timeline

_UNIT, _LANE, _GAP, _NAMES = 40, 22, 4, 190  # pixels of a unit of time, of a lane and between lanes, and of their names
LOAD, WAIT, MULTIPLY, STORE = "#7fb2e5", "#e3e3e3", "#7cc47c", "#f0b060"


def picture(pipeline: Pipeline, of: str, name: str) -> Picture:
    """A lane for who issues loads, for each stage, and for who multiplies."""
    shown = timeline(pipeline, pipeline.stages + 3)
    lanes: list[tuple[str, list[str]]] = [(pipeline.producer, [_issue(pipeline, step) for step in shown.steps])]
    for stage in range(pipeline.stages):
        bars = [bar for step in shown.steps if step.stage == stage for bar in _stage(pipeline, step)]
        lanes.append((f"stage {stage}", bars))
    for consumer, who in enumerate(pipeline.consumers):
        lanes.append((who, list(_consumer(shown, consumer, pipeline))))
    title = (
        f"Pipeline of {pipeline.stages} stages: blue a load, green multiplied, orange the epilogue, grey waiting; labels are k "
        f"tiles as they are multiplied. Order and waits are the kernel's, lengths are assumed: {of}"
    )
    return lanes_picture(name, title, lanes, shown.ends)


def lanes_picture(name: str, title: str, lanes: Sequence[tuple[str, Sequence[str]]], ends: float) -> Picture:
    """lanes: the name of each, and its bars. ends: of time, in units."""
    body = []
    for row, (who, bars) in enumerate(lanes):
        y = row * (_LANE + _GAP)
        body.append(f'<text class="l" x="0" y="{y + 15}">{escape(who)}</text>')
        body.append(f'<g transform="translate({_NAMES} {y})">{"".join(bars)}</g>')
    size = (_NAMES + round(ends * _UNIT) + 2, len(lanes) * (_LANE + _GAP))
    return Picture(name, title, document(title, *size, "".join(body)))


def _issue(pipeline: Pipeline, step: Step) -> str:
    says = f"issues the load of k tile {step.k_tile} of tile {step.tile} into stage {step.stage}"
    if step.number >= pipeline.stages:
        says += f", after {pipeline.empty} for k tile {step.number - pipeline.stages} of all"
    return span(step.issued, step.issued + ISSUE, LOAD, says, "")


def _stage(pipeline: Pipeline, step: Step) -> Iterator[str]:
    what = f"k tile {step.k_tile} of tile {step.tile}, phase {step.phase}"
    yield span(step.issued, step.arrived, LOAD, f"{what}: load in flight", str(step.k_tile))
    if step.begins > step.arrived:
        yield span(step.arrived, step.begins, WAIT, f"{what}: full, and waits to be multiplied", "")
    yield span(step.begins, step.ends, MULTIPLY, f"{what}: multiplied, after {pipeline.full}", str(step.k_tile))
    if step.free > step.ends:
        yield span(step.ends, step.free, WAIT, f"{what}: released once the next k tile's wgmma is issued", "")


def _consumer(shown: Timeline, consumer: int, pipeline: Pipeline) -> Iterator[str]:
    at = 0.0
    steps = [step for step in shown.steps if step.consumer == consumer]
    events = [
        (one.begins, one.ends, MULTIPLY, f"k tile {one.k_tile} of tile {one.tile} from stage {one.stage}", str(one.k_tile))
        for one in steps
    ]
    events += [
        (one.begins, one.ends, STORE, f"epilogue of tile {one.tile}", "D")
        for one in shown.epilogues
        if one.consumer == consumer
    ]
    for begins, ends, fill, says, label in sorted(events):
        if begins > at:
            yield span(at, begins, WAIT, f"waits: {pipeline.full}" + (", or its turn" if pipeline.turns else ""), "")
        yield span(begins, ends, fill, says, label)
        at = ends


def span(begins: float, ends: float, fill: str, says: str, label: str) -> str:
    """A bar of a lane, with what it says on hovering."""
    return bar((begins * _UNIT, 0, (ends - begins) * _UNIT, _LANE), fill, says, label)
