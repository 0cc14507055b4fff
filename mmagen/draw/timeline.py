"""The pipeline of a kernel as a timeline: stages, phases, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from mmagen.draw.svg import Picture, bar, document
from mmagen.plan.pipeline import ISSUE, Pipeline, Step, Timeline, timeline

_UNIT, _LANE, _GAP, _NAMES = 40, 22, 4, 190  # pixels of a unit of time, of a lane and between lanes, and of their names
_LOAD, _WAIT, _MULTIPLY, _STORE = "#7fb2e5", "#e3e3e3", "#7cc47c", "#f0b060"


def picture(pipeline: Pipeline, of: str, name: str) -> Picture:
    """A lane for who issues loads, for each stage, and for who multiplies."""
    shown = timeline(pipeline, pipeline.stages + 3)
    lanes: list[tuple[str, list[str]]] = [(pipeline.producer, [_issue(pipeline, step) for step in shown.steps])]
    for stage in range(pipeline.stages):
        bars = [bar for step in shown.steps if step.stage == stage for bar in _stage(pipeline, step)]
        lanes.append((f"stage {stage}", bars))
    for consumer, who in enumerate(pipeline.consumers):
        lanes.append((who, list(_consumer(shown, consumer, pipeline))))
    body = []
    for row, (who, bars) in enumerate(lanes):
        y = row * (_LANE + _GAP)
        body.append(f'<text class="l" x="0" y="{y + 15}">{escape(who)}</text>')
        body.append(f'<g transform="translate({_NAMES} {y})">{"".join(bars)}</g>')
    title = (
        f"Pipeline of {pipeline.stages} stages: blue a load, green multiplied, orange the epilogue, grey waiting; labels are k "
        f"tiles as they are multiplied. Order and waits are the kernel's, lengths are assumed: {of}"
    )
    size = (_NAMES + round(shown.ends * _UNIT) + 2, len(lanes) * (_LANE + _GAP))
    return Picture(name, title, document(title, *size, "".join(body)))


def _issue(pipeline: Pipeline, step: Step) -> str:
    says = f"issues the load of k tile {step.k_tile} of tile {step.tile} into stage {step.stage}"
    if step.number >= pipeline.stages:
        says += f", after {pipeline.empty} for k tile {step.number - pipeline.stages} of all"
    return _span(step.issued, step.issued + ISSUE, _LOAD, says, "")


def _stage(pipeline: Pipeline, step: Step) -> Iterator[str]:
    what = f"k tile {step.k_tile} of tile {step.tile}, phase {step.phase}"
    yield _span(step.issued, step.arrived, _LOAD, f"{what}: load in flight", str(step.k_tile))
    if step.begins > step.arrived:
        yield _span(step.arrived, step.begins, _WAIT, f"{what}: full, and waits to be multiplied", "")
    yield _span(step.begins, step.ends, _MULTIPLY, f"{what}: multiplied, after {pipeline.full}", str(step.k_tile))
    if step.free > step.ends:
        yield _span(step.ends, step.free, _WAIT, f"{what}: released once the next k tile's wgmma is issued", "")


def _consumer(shown: Timeline, consumer: int, pipeline: Pipeline) -> Iterator[str]:
    at = 0.0
    steps = [step for step in shown.steps if step.consumer == consumer]
    events = [
        (one.begins, one.ends, _MULTIPLY, f"k tile {one.k_tile} of tile {one.tile} from stage {one.stage}", str(one.k_tile))
        for one in steps
    ]
    events += [
        (one.begins, one.ends, _STORE, f"epilogue of tile {one.tile}", "D")
        for one in shown.epilogues
        if one.consumer == consumer
    ]
    for begins, ends, fill, says, label in sorted(events):
        if begins > at:
            yield _span(at, begins, _WAIT, f"waits: {pipeline.full}" + (", or its turn" if pipeline.turns else ""), "")
        yield _span(begins, ends, fill, says, label)
        at = ends


def _span(begins: float, ends: float, fill: str, says: str, label: str) -> str:
    return bar((begins * _UNIT, 0, (ends - begins) * _UNIT, _LANE), fill, says, label)
