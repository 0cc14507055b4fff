"""The pipeline of a wgmma GEMM: which warpgroup loads, which multiply, and what each waits for."""

from __future__ import annotations

from mmagen.families.wgmma.model import TILE_N, WgmmaGemmPlan
from mmagen.plan.pipeline import Pipeline


def pipeline(plan: WgmmaGemmPlan) -> Pipeline:
    """That of sm90_warpgroup.cuh, sm90_cooperative.cuh or sm90_pingpong.cuh."""
    roles, turns = plan.roles, plan.roles.schedule == "pingpong"
    own_producer = roles.schedule != "warpgroup"
    numbers = [str(number) for number in range(roles.consumers)]
    together = f"warpgroup {numbers[0]}" if len(numbers) == 1 else f"warpgroups {', '.join(numbers)}"
    return Pipeline(
        operands=plan.operands,
        stages=plan.stages,
        scheduler=plan.scheduler,
        tile_of_d=plan.tile_of_d,
        producer=f"producer, warpgroup {roles.consumers}" if own_producer else "thread 0 loads",
        consumers=tuple(f"consumer, warpgroup {number}" for number in numbers) if turns else (f"consumer, {together}",),
        full="the mbarrier full",
        empty="the mbarrier empty" if own_producer else "__syncthreads",
        ahead=plan.stages,
        turns=turns,
        # Of A in registers and of promoted sums each k tile is waited for (sm90_mainloop_rs.cuh, sm90_mainloop_promoted.cuh).
        late=plan.mainloop.header in ("sm90_mainloop_ss", TILE_N.header),
        own_producer=own_producer,
        transposed=plan.swapped,
    )
