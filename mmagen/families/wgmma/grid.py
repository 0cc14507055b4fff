"""Problems whose tiles are more CTAs than a grid has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mmagen.core.errors import Fault
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.spec.model import Problem

MOST_CTAS = 2**31 - 1  # along x, as the CUDA C++ Programming Guide says of every compute capability


def faults(plan: WgmmaGemmPlan, problems: Iterable[Problem]) -> Iterator[Fault]:
    """Faults of problems with more CTAs in their tiles' clusters than MOST_CTAS, in a kernel that launches a cluster for each
    tile. Persistent kernels, and those with a workspace or groups, launch no more than run at once."""
    scheduler = plan.scheduler
    if scheduler.persistent or scheduler.takes_workspace or scheduler.grouped:
        return
    for i, problem in enumerate(problems):
        clusters = plan.tiles_of(problem)
        if clusters * scheduler.cluster_ctas <= MOST_CTAS:
            continue
        batch = MOST_CTAS // (clusters // problem.batch * scheduler.cluster_ctas)
        fewer = {**problem.model_dump(mode="json"), "batch": max(1, batch)}
        if batch == 0:
            fewer["shape"] = [min(problem.m, plan.tile_of_d[0]), *problem.shape[1:]]
        yield Fault(
            ("problems", i),
            f"{problem.text} has {clusters} tiles, each of a cluster of {scheduler.cluster_ctas} CTAs",
            f"at most {MOST_CTAS} CTAs in a grid, e.g. "
            + (f"a batch of {batch}" if batch else f"{fewer['shape'][0]} rows and a batch of 1"),
            {("problems", i): fewer},
        )
