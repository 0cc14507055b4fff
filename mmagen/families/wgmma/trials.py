"""Problems that verify emulates because of how a wgmma GEMM distributes its work over CTAs."""

from __future__ import annotations

from mmagen.families.wgmma import decisions
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.plan.trials import (
    WAVE,
    cluster_problems,
    fitted_problems,
    narrow_split_problems,
    split_k_problems,
    stream_k_problems,
)
from mmagen.spec.model import Problem


def schedule_problems(plan: WgmmaGemmPlan) -> tuple[Problem, ...]:
    """For a last wave that clusters share, parts of K through a workspace, and CTAs of a cluster that lie outside D."""
    scheduler, tile, cluster = plan.scheduler, plan.tile_of_d, plan.cluster_of_d
    found = cluster_problems(tile, cluster, plan.most_stages)
    if scheduler.widths:
        tiles = 1 if scheduler.takes_workspace else WAVE
        own = _own_widths(plan)
        found = (*found, *fitted_problems(tile, cluster, own, tiles, along_m=plan.swapped))
        if longer := _one_buffer(plan, own):
            width, k_tiles = longer
            fitted = fitted_problems(tile, cluster, [width], tiles, along_m=plan.swapped, k_tiles=k_tiles)
            with_c = scheduler.launch != scheduler.launches[0]  # all others add beta * C, which TMA loads to the one buffer
            found = (*found, *(one.model_copy(update={"beta": 1.0}) if with_c else one for one in fitted))
    if scheduler.workspace_splits is None:
        return (*stream_k_problems(tile, cluster), *found) if scheduler.shares_last_wave else found
    of_operands = cluster, plan.operands[1].element.bytes, scheduler.workspace_splits
    # K is long enough for the narrowest tile; the two tiles have the largest width of the list.
    least, most = (scheduler.widths[0], scheduler.widths[-1]) if scheduler.widths else (scheduler.tile_n, scheduler.tile_n)
    split = split_k_problems(_narrowed(plan, least), *of_operands)
    narrow = narrow_split_problems(_narrowed(plan, most), *of_operands, along_m=plan.swapped) if most else ()
    return (*split, *narrow, *found)


def _one_buffer(plan: WgmmaGemmPlan, widths: list[tuple[int, int]]) -> tuple[tuple[int, int], int] | None:
    """The first of `widths` with which calls of few k tiles have two buffers of the epilogue and others one, and the least number
    of k tiles of the others; K then goes around the ring of stages more than once."""
    for width in widths:
        most = plan.stages_of(width[0])
        k_tiles = decisions.most_k_tiles_of_two_buffers(most) + 1
        if plan.stages_and_buffers(width[0], 1)[1] != plan.stages_and_buffers(width[0], k_tiles * plan.tile[2])[1]:
            return width, k_tiles
    return None


def _narrowed(plan: WgmmaGemmPlan, columns: int) -> tuple[int, int, int]:
    """The tile of D if the kernel's tile has so many columns; 0: as planned."""
    m, n, k = plan.tile_of_d
    return (columns or m, n, k) if plan.swapped else (m, columns or n, k)


def _own_widths(plan: WgmmaGemmPlan) -> list[tuple[int, int]]:
    """Those of its widths that this launch tries, each with the next narrower one, 0 for none. The launches that have a width take
    turns; each tries one at least."""
    scheduler = plan.scheduler
    lists = [one for one in scheduler.launches if one.widths]
    found = []
    for i, width in enumerate(sorted({width for one in lists for width in one.widths})):
        those = [one for one in lists if width in one.widths]
        if those[i % len(those)] == scheduler.launch:
            found.append(width)
    own = (0, *scheduler.widths)
    return [(width, own[own.index(width) - 1]) for width in found or scheduler.widths[-1:]]
