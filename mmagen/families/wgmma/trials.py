"""Problems that verify emulates because of how a wgmma GEMM distributes its work over CTAs."""

from __future__ import annotations

from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.plan.trials import cluster_problems, narrow_split_problems, split_k_problems, stream_k_problems
from mmagen.spec.model import Problem


def schedule_problems(plan: WgmmaGemmPlan) -> tuple[Problem, ...]:
    """For a last wave that clusters share, parts of K through a workspace, and CTAs of a cluster that lie outside D."""
    scheduler, tile, cluster = plan.scheduler, plan.tile_of_d, plan.cluster_of_d
    found = cluster_problems(tile, cluster, plan.stages)
    if scheduler.workspace_splits is not None:
        sizes = tile, cluster, plan.operands[1].element.bytes, scheduler.workspace_splits
        narrow = narrow_split_problems(*sizes, along_m=plan.swapped) if scheduler.tile_n else ()
        return (*split_k_problems(*sizes), *narrow, *found)
    return (*stream_k_problems(tile, cluster), *found) if scheduler.shares_last_wave else found
