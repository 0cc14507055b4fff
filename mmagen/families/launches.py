"""The numbers of a GEMM's launches on a device, for the families whose plans are GEMMs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from mmagen.families import library
from mmagen.families.peak.rates import rate, scalar_rate
from mmagen.mma import catalogue
from mmagen.plan.copies import call_of
from mmagen.plan.cost import KernelShape, predicted_us
from mmagen.plan.devices import Device
from mmagen.plan.launch import Numbers, launch, occupancy
from mmagen.plan.plans import GemmPlan
from mmagen.spec.cost import Cost

_MOST_CTAS = 32  # of an SM
G = TypeVar("G", bound=GemmPlan)


def numbers(plan: GemmPlan, device: Device, ptxas: Mapping[str, int], estimate: Callable[[GemmPlan], int]) -> list[Numbers]:
    """Those of each choice and of the problems that it is chosen for. ptxas: registers by the name of a compiled kernel ("" for
    a single one); estimate: of a kernel that is not in it."""
    found = []
    chosen = [library.choose(plan, problem).name if plan.configs else "" for problem in plan.problems]
    choices = [(config.name, config.kernel, config.plan, config.cost) for config in plan.configs] or [("", "", plan, None)]
    for name, kernel, one, cost in choices:
        operation = catalogue.known(one.atom.name)
        residency = occupancy(one, ptxas.get(kernel) or estimate(one))
        mine = [problem for problem, by in zip(plan.problems, chosen, strict=True) if by == name]
        launches = tuple((problem, launch(one, problem, device, residency.ctas)) for problem in mine)
        target = f"sm_{device.capability}{'a' if one.atom.arch_specific else ''}"
        per_cycle = rate(operation, target) if operation else scalar_rate(one.atom.type_a.word, target)
        if per_cycle:  # a product of two elements may take several
            per_cycle //= one.accumulation.products
        predicted = tuple(predicted_us(KernelShape.of(one), cost, call_of(plan, problem)) for problem in mine) if cost else ()
        elsewhere = cost is not None and not _may_be_of(device, one.scheduler.cluster_ctas, cost)
        unit = "tensor cores" if operation else "FMA units"
        found.append(
            Numbers(name, device, residency, kernel in ptxas, per_cycle, unit, launches, predicted, elsewhere=elsewhere)
        )
    return found


def _may_be_of(device: Device, group: int, cost: Cost) -> bool:
    """Does the device run as many CTAs at once, in clusters of `group`, as the one that the coefficients were fitted on?"""
    return any(device.at_once(group, per_sm) == cost.ctas for per_sm in range(1, _MOST_CTAS + 1))
