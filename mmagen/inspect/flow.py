"""Pictures of a gemm as it runs: copies of an operand tile, the pipeline as a timeline, clusters and raster order. SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from mmagen.inspect.pictures import Picture, colour, document, owners
from mmagen.mma.ownership import Ownership
from mmagen.plan.launch import Numbers
from mmagen.plan.maps import Map
from mmagen.plan.model import GmemCopy, Operand
from mmagen.plan.pipeline import ISSUE, Pipeline, Step, Timeline, WorkTile, timeline, work_tiles
from mmagen.spec.model import Problem

_MOST_TILES = 24  # rows and columns of tiles that a picture of the raster order shows
_TILE = 26  # pixels
_MOST_ALONG, _MOST_ACROSS = 64, 128  # elements of a tile whose copy is drawn
_UNIT, _LANE, _GAP, _NAMES = 40, 22, 4, 190  # pixels of a unit of time, of a lane and between lanes, and of their names
_LOAD, _WAIT, _MULTIPLY, _STORE = "#7fb2e5", "#e3e3e3", "#7cc47c", "#f0b060"
_MATRIX = 256  # pixels, at most, of the longer side of a tile whose boxes are drawn


def pictures(pipeline: Pipeline, of: str, prefix: str, launches: Numbers | None) -> list[Picture]:
    """of: the kernel, for titles; prefix: of names; launches: on a device, of which the largest is drawn."""
    found = [one for operand in pipeline.operands for one in _copies(operand, pipeline, of, prefix)]
    found.append(_timeline(pipeline, of, f"{prefix}pipeline"))
    if launches and launches.launches:
        problem, largest = max(launches.launches, key=lambda pair: pair[1].tiles[0] * pair[1].tiles[1])
        at_once = largest.at_once // pipeline.scheduler.cluster_ctas
        found.append(_raster(pipeline, of, f"{prefix}raster", problem, at_once))
    return found


# --- Copies from global to shared memory -----------------------------------------------------------------------------


def _copies(operand: Operand, pipeline: Pipeline, of: str, prefix: str) -> Iterator[Picture]:
    if operand.tma:
        yield _boxes(operand, pipeline, of, f"{prefix}{operand.letter}-copy")
    for name, by in operand.gmem_copies:
        table = copied(operand, by)
        vectors = f"vectors of {by.vector} elements" if by.vector > 1 else "single elements"
        title = f"{name.lower()} copy of {operand.letter} to shared memory, {vectors}: {of}"
        covers = _in_modes(operand, by.along * by.vector, by.across)
        shown = _in_modes(operand, min(operand.extent_along, _MOST_ALONG), min(operand.extent_across, _MOST_ACROSS))
        window = {mode: (0, extent) for mode, extent in zip("MNK", shown, strict=True)}
        yield owners(f"{prefix}{operand.letter}-copy-{name.lower()}", Map(title, covers, (table,)), table, window)


def copied(operand: Operand, by: GmemCopy) -> Ownership:
    """Who copies which element. Values count the elements of a thread's vectors, these along the contiguous mode first."""
    elements: list[list[int]] = [[] for _ in range(by.threads)]
    width = by.along * by.vector
    for first_across in range(0, operand.extent_across, by.across):
        for first in range(0, operand.extent_along, width):
            for thread in range(by.threads):
                along, across = first + thread % by.along * by.vector, first_across + thread // by.along
                for v in range(by.vector):
                    mn, k = (across, along + v) if operand.contiguous_k else (along + v, across)
                    elements[thread].append(mn * operand.extent_k + k)
    return Ownership(operand.letter, operand.extent_mn, operand.extent_k, tuple(map(tuple, elements)))


def _in_modes(operand: Operand, along: int, across: int) -> tuple[int, int, int]:
    """Extents along M, N and K."""
    mn, k = (across, along) if operand.contiguous_k else (along, across)
    return (mn, 1, k) if operand.letter == "A" else (1, mn, k)


def _boxes(operand: Operand, pipeline: Pipeline, of: str, name: str) -> Picture:
    """The boxes that TMA loads a tile in, coloured by the CTA of the cluster that loads them."""
    tma = operand.tma
    assert tma
    scale = _MATRIX / max(operand.extent_mn, operand.extent_k)
    share = operand.extent_across // (tma.boxes * tma.box_across)
    cells = []
    for panel in range(tma.panels):
        for number in range(share * tma.boxes):
            cta, line = number // tma.boxes, number * tma.box_across
            x, y, wide, high = panel * operand.line, line, operand.line, tma.box_across
            if not operand.contiguous_k:
                x, y, wide, high = y, x, high, wide
            says = (
                f"CTA {cta} of the {share} that share it: panel {panel}, lines {line} to {line + tma.box_across - 1}, "
                f"{operand.line} x {tma.box_across} elements, {operand.line * tma.box_across * operand.element.bytes:,} B"
            )
            cells.append(_bar((x * scale, y * scale, wide * scale, high * scale), colour(cta * 8), says, f"{panel},{number}"))
    multicast = f", each multicast to {share} CTAs" if share > 1 else ""
    rows, columns = f"{operand.mode.lower()} downwards", "k to the right"
    title = (
        f"TMA boxes of {operand.letter} ({operand.mode},K), {operand.extent_mn} x {operand.extent_k} ({rows}, {columns})"
        f"{multicast}; labels are panel, box: {of}"
    )
    size = (operand.extent_k * scale + 2, operand.extent_mn * scale + 2)
    drawn = f'<g transform="translate(1 1)">{"".join(cells)}</g>'
    return Picture(name, title, document(title, round(size[0]), round(size[1]), drawn))


# --- The pipeline ----------------------------------------------------------------------------------------------------


def _timeline(pipeline: Pipeline, of: str, name: str) -> Picture:
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
    return _bar((begins * _UNIT, 0, (ends - begins) * _UNIT, _LANE), fill, says, label)


def _bar(box: tuple[float, float, float, float], fill: str, says: str, label: str) -> str:
    x, y, wide, high = (round(value, 1) for value in box)
    text = f'<text x="{round(x + wide / 2, 1):g}" y="{round(y + high / 2 + 4, 1):g}">{label}</text>' if label else ""
    shape = f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" fill="{fill}" stroke="#fff"/>'
    return f"<g><title>{escape(says)}</title>{shape}{text}</g>"


# --- Clusters and raster order ---------------------------------------------------------------------------------------


def _raster(pipeline: Pipeline, of: str, name: str, problem: Problem, at_once: int) -> Picture:
    """Tiles of D, labelled with the place of their cluster in the order, coloured by wave."""
    m, n = (-(-extent // tile) for extent, tile in zip(problem.shape, pipeline.tile_of_d[:2], strict=False))
    rows, columns = (n, m) if pipeline.transposed else (m, n)
    tiles = [one for one in work_tiles(pipeline.scheduler, rows, columns) if one.m < _MOST_TILES and one.n < _MOST_TILES]
    cells = [_tile(one, at_once, pipeline) for one in tiles]
    shown = (min(rows, _MOST_TILES), min(columns, _MOST_TILES))
    cut = f", the first {shown[0]} x {shown[1]}" if shown != (rows, columns) else ""
    across, along = pipeline.scheduler.cluster
    clusters = f"clusters of {across} x {along} CTAs" if across * along > 1 else "CTAs"
    turned = "; rows of tiles are columns of D" if pipeline.transposed else ""
    title = (
        f"Order of the {rows} x {columns} tiles of {problem.text}{cut}: labels are the {clusters} in the order in which "
        f"they begin, colours the waves, {at_once} at once{turned}: {of}"
    )
    size = (shown[1] * _TILE + 2, shown[0] * _TILE + 2)
    return Picture(name, title, document(title, *size, f'<g transform="translate(1 1)">{"".join(cells)}</g>'))


def _tile(one: WorkTile, at_once: int, pipeline: Pipeline) -> str:
    wave = one.order // at_once
    says = f"tile ({one.m},{one.n}): number {one.order}, wave {wave}"
    if pipeline.scheduler.cluster_ctas > 1:
        says += f", CTA ({one.rank[0]},{one.rank[1]}) of its cluster"
    return _bar((one.n * _TILE, one.m * _TILE, _TILE, _TILE), colour(wave * 3), says, str(one.order))


def all_of(pipelines: Sequence[tuple[str, Pipeline]], name: str, numbers: Sequence[Numbers]) -> list[Picture]:
    """Those of each kernel. pipelines: by the name of the config, "" for a single kernel; name: of the spec."""
    by_kernel = {one.kernel: one for one in numbers}
    return [
        picture
        for kernel, pipeline in pipelines
        for picture in pictures(pipeline, kernel or name, f"{kernel}-" if kernel else "", by_kernel.get(kernel))
    ]
