"""What the plan of a wgmma GEMM has besides those of every GEMM."""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.plan.plans import GemmPlan, Mainloop


@dataclass(frozen=True, kw_only=True)
class WgmmaMainloop(Mainloop):
    """promote: each k tile's sum leaves the tensor core for f32 registers. prefetch: stages brought into L2 ahead of the
    launch, while the kernel before still runs."""

    promote: bool
    prefetch: int


@dataclass(frozen=True, kw_only=True)
class WarpgroupRoles:
    """Which warpgroups load and which multiply.

    schedule: warpgroup, cooperative or pingpong. consumers: warpgroups that multiply. producer_registers,
    consumer_registers: of a thread after setmaxnreg, 0 where none are moved; usable_registers: what a consumer may use
    either way.
    """

    schedule: str
    consumers: int
    producer_registers: int
    consumer_registers: int
    usable_registers: int


@dataclass(frozen=True, kw_only=True)
class WgmmaGemmPlan(GemmPlan):
    """A GEMM whose operands come by TMA and are multiplied by wgmma."""

    mainloop: WgmmaMainloop
    roles: WarpgroupRoles
