"""Pictures of a gemm as it runs: copies of an operand tile, the pipeline as a timeline, clusters and raster order. SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmagen.draw import timeline
from mmagen.draw.maps import owners
from mmagen.draw.svg import Picture, bar, colour, document
from mmagen.mma.ownership import Ownership
from mmagen.plan.launch import Numbers
from mmagen.plan.maps import Map, stored
from mmagen.plan.model import GmemCopy, Operand
from mmagen.plan.pipeline import Pipeline, WorkTile, work_tiles
from mmagen.spec.model import Problem

_MOST_TILES = 24  # rows and columns of tiles that a picture of the raster order shows
_TILE = 26  # pixels
_MOST_ALONG, _MOST_ACROSS = 64, 128  # elements of a tile whose copy is drawn
_MATRIX = 256  # pixels, at most, of the longer side of a tile whose boxes are drawn


def pictures(pipeline: Pipeline, of: str, prefix: str, launches: Numbers | None) -> list[Picture]:
    """of: the kernel, for titles; prefix: of names; launches: on a device, of which the largest is drawn."""
    found = [one for operand in pipeline.operands for one in _copies(operand, of, prefix)]
    found.append(timeline.picture(pipeline, of, f"{prefix}pipeline"))
    if launches and launches.launches:
        problem, largest = max(launches.launches, key=lambda pair: pair[1].tiles[0] * pair[1].tiles[1])
        at_once = largest.at_once // pipeline.scheduler.cluster_ctas
        found.append(_raster(pipeline, of, f"{prefix}raster", problem, largest.tiles, at_once))
    return found


# --- Copies from global to shared memory -----------------------------------------------------------------------------


def _copies(operand: Operand, of: str, prefix: str) -> Iterator[Picture]:
    if operand.tma:
        yield _boxes(operand, of, f"{prefix}{operand.letter}-copy")
    for name, by in operand.gmem_copies:
        table = copied(operand, by)
        vectors = f"vectors of {by.vector} elements" if by.vector > 1 else "single elements"
        place = stored(operand)
        assert place.table.stage
        title = f"{name.lower()} copy of {operand.letter} to shared memory, {vectors}{place.table.stage.note}: {of}"
        covers = _in_modes(operand, by.along * by.vector, by.across)
        shown = _in_modes(operand, min(operand.extent_along, _MOST_ALONG), min(operand.extent_across, _MOST_ACROSS))
        window = {mode: (0, extent) for mode, extent in zip("MNK", shown, strict=True)}
        of_copy = Map(title, covers, (table,))
        yield owners(f"{prefix}{operand.letter}-copy-{name.lower()}", of_copy, table, window, place.as_it_lies)


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


def _boxes(operand: Operand, of: str, name: str) -> Picture:
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
            cells.append(bar((x * scale, y * scale, wide * scale, high * scale), colour(cta * 8), says, f"{panel},{number}"))
    multicast = f", each multicast to {share} CTAs" if share > 1 else ""
    rows, columns = f"{operand.mode.lower()} downwards", "k to the right"
    title = (
        f"TMA boxes of {operand.letter} ({operand.mode},K), {operand.extent_mn} x {operand.extent_k} ({rows}, {columns})"
        f"{multicast}; labels are panel, box: {of}"
    )
    size = (operand.extent_k * scale + 2, operand.extent_mn * scale + 2)
    drawn = f'<g transform="translate(1 1)">{"".join(cells)}</g>'
    return Picture(name, title, document(title, round(size[0]), round(size[1]), drawn))


# --- Clusters and raster order ---------------------------------------------------------------------------------------


def _raster(pipeline: Pipeline, of: str, name: str, problem: Problem, launched: tuple[int, int, int], at_once: int) -> Picture:
    """Tiles of D, labelled with the place of their cluster in the order, coloured by wave. launched: along M, N and the batch."""
    m, n = (-(-extent // tile) for extent, tile in zip(problem.shape, pipeline.tile_of_d[:2], strict=False))
    if pipeline.scheduler.widths:  # the call has selected one
        m, n, _ = launched
    rows, columns = (n, m) if pipeline.transposed else (m, n)
    cells = [_tile(one, at_once, pipeline) for one in work_tiles(pipeline.scheduler, rows, columns, _MOST_TILES)]
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
    return bar((one.n * _TILE, one.m * _TILE, _TILE, _TILE), colour(wave * 3), says, str(one.order))


def all_of(pipelines: Sequence[tuple[str, Pipeline]], name: str, numbers: Sequence[Numbers]) -> list[Picture]:
    """Those of each kernel. pipelines: by the name of the config, "" for a single kernel; name: of the spec."""
    by_kernel = {one.kernel: one for one in numbers}
    return [
        picture
        for kernel, pipeline in pipelines
        for picture in pictures(pipeline, kernel or name, f"{kernel}-" if kernel else "", by_kernel.get(kernel))
    ]
