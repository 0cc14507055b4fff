"""Several kernels in one library: its plan, and the selection by problem. library_faults.py has what its configs must satisfy.

Each config is planned as a spec of its own: the library's, with some keys overridden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from mmagen.core.errors import Fault, SpecFaults
from mmagen.families import library_faults
from mmagen.families.entries import Entry, entries
from mmagen.plan import pages, sentences
from mmagen.plan.copies import call_of
from mmagen.plan.cost import Call, KernelShape, predicted_us
from mmagen.plan.maps import Map, of_product
from mmagen.plan.model import LaunchShape
from mmagen.plan.plans import Config, GemmPlan
from mmagen.spec.model import Problem, Spec

PlanOne = Callable[[Spec], Any]
G = TypeVar("G", bound=GemmPlan)


def plan(spec: Spec, sha: str, plan_one: PlanOne) -> GemmPlan:
    """The plan of a gemm with configs. Raises SpecFaults with all its faults.

    plan_one: plans the spec of one config, by the family of its atom.
    """
    if faults := [*library_faults.of_groups(spec)]:
        raise SpecFaults(tuple(faults))
    plans: list[GemmPlan] = []
    found: list[tuple[Fault, ...]] = []
    choices = entries(spec)
    for one in spec_of_each(spec):
        try:
            plans.append(replace(plan_one(one), spec_sha=sha))
            found.append(())
        except SpecFaults as error:
            found.append(error.faults)
    if faults := [*library_faults.of_spec(spec), *dict.fromkeys(library_faults.placed(spec, found))]:
        raise SpecFaults(tuple(faults))
    if faults := [*library_faults.disagreements(spec, plans)]:
        raise SpecFaults(tuple(faults))
    if faults := [*library_faults.of_clusters(choices, plans)]:
        raise SpecFaults(tuple(faults))
    plans = [_launchable(choice, one) for choice, one in zip(choices, plans, strict=True)]
    configs = tuple(
        Config(choice.name, choice.when, one, choice.cost, choice.kernel) for choice, one in zip(choices, plans, strict=True)
    )
    last = configs[-1].plan
    reading = tuple(dict.fromkeys(entry for one in plans for entry in one.text.reading))
    text = sentences.of_library(
        replace(last.text, reading=reading), spec, last.atom, last.epilogue.out, len(spec.configs or ())
    )
    return replace(last, spec=spec, configs=configs, text=text)


def spec_of_each(spec: Spec) -> list[Spec]:
    """The spec of each choice."""
    return [spec.model_copy(update={**choice.overrides, "configs": None}) for choice in entries(spec)]


def _launchable(choice: Entry, plan: GemmPlan) -> GemmPlan:
    """The plan of a choice, with all launches of its kernel."""
    if not (choice.launch and choice.config.clusters):
        return plan
    return plan.launched(tuple(map(LaunchShape.of, choice.config.clusters)), LaunchShape.of(choice.launch))


def choose(plan: GemmPlan, problem: Problem, workspace: bool = True, room: bool = True) -> Config:
    """The config for a problem, as in choice.cuh: the first whose rule holds, else of those without a rule the one with the
    least predicted time. workspace: has the call one, or none? room: as large a one as it asks for, or too small a one for copies
    of operands?"""
    for config in plan.configs:
        if config.when and config.when.holds(*problem.shape):
            return config
    return ranked(plan, problem, workspace, room)[0][1]


def ranked(plan: GemmPlan, problem: Problem, workspace: bool = True, room: bool = True) -> list[tuple[float, Config]]:
    """(predicted microseconds, config) of the configs without a rule, fastest first; NaN where costs are not known. workspace,
    room: as choose() has them."""
    others = [config for config in plan.configs if config.when is None]
    if any(config.cost is None for config in others):
        return [(math.nan, others[-1])]
    call = call_of(plan, problem) if workspace and room else Call.of(plan, problem)  # without, operands are not copied
    shapes = [KernelShape.of(one.plan) for one in others]
    shapes = shapes if workspace else [one.without_workspace for one in shapes]
    times = [(predicted_us(shape, one.cost, call), one) for shape, one in zip(shapes, others, strict=True) if one.cost]
    return sorted(times, key=lambda pair: pair[0])


# --- Parts, context and page -----------------------------------------------------------------------------------------


def parts(plan: GemmPlan) -> tuple[str, ...]:
    """Additional folders of templates/project for a library, and for further arguments."""
    return (*(["library"] if plan.configs else []), *(["further"] if plan.arguments else []))


def context(plan: GemmPlan, config: str) -> dict[str, Any]:
    """Template variables of a gemm besides the plan. config: the selected kernel of a library, or ""."""
    return {
        "decisions": sentences.DECISIONS,
        "who": f"{plan.name}, config {config}" if config else plan.name,
        "scope": f"{plan.name}::{config}" if config else plan.name,
        "type": f"{config}::Config" if config else "Config",
        "choices": plan.configs,
        "fixed_shape": False,
    }


def page(
    plan: G,
    sections: Callable[[G], list[pages.Section]],
    columns: Sequence[tuple[str, Callable[[G], str]]],
) -> list[pages.Section]:
    """The sections of one kernel, or of a library: the selection table, the problems, and each kernel.

    sections: makes those of one plan of the calling family. columns: columns of a library's table besides atom, tile and
    stages.
    """
    if not plan.configs:
        return [*sections(plan), ("Problems of verify", [(f"{i}", p.text) for i, p in enumerate(plan.problems)])]
    timed = any(config.cost for config in plan.configs if config.when is None)
    ruled = not timed or any(config.when for config in plan.configs)
    rows: list[pages.Row] = [
        ("config", *(("when",) if ruled else ()), "atom", "CTA tile", "stages", *(title for title, _ in columns))
    ]
    kernels = cast("tuple[G, ...]", plan.kernels)  # all of one family, which _disagreements ensures
    for config, one in zip(plan.configs, kernels, strict=True):
        rule = config.when.text if config.when else "least predicted time" if config.cost else "otherwise"
        what = (one.atom.name, pages.extents(one.tile), str(one.stages))
        rows.append((config.name, *((rule,) if ruled else ()), *what, *(show(one) for _, show in columns)))
    shown: dict[str, G] = {}
    for config, one in zip(plan.configs, kernels, strict=True):  # a kernel once, for the first cluster that it is launched in
        shown.setdefault(config.kernel, one)
    each = [(f"{name}: {title}", rows) for name, one in shown.items() for title, rows in sections(one)]
    ways = [*(["the first rule that holds"] if ruled else []), *(["the least predicted time"] if timed else [])]
    return [(f"Selection: {', else '.join(ways)}", rows), ("Problems of verify", _choices(plan)), *each]


def _choices(plan: GemmPlan) -> list[pages.Row]:
    """A row for each problem: the config that is chosen and, where the predicted time decides, the times of the fastest."""
    most = 3
    timed = any(config.cost for config in plan.configs if config.when is None)
    rows: list[pages.Row] = [("", "problem", "config", *(("predicted, us",) if timed else ()))]
    for i, problem in enumerate(plan.problems):
        chosen, times = choose(plan, problem), ""
        if timed and chosen.when is None:
            times = ", ".join(f"{one.name} {us:.4g}" for us, one in ranked(plan, problem)[:most])
        rows.append((f"{i}", problem.text, chosen.name, *((times,) if timed else ())))
    return rows


def maps(plan: GemmPlan) -> list[Map]:
    """The maps of owners of each compiled kernel."""
    if not plan.configs:
        return of_product(plan)
    return [one for name, kernel in plan.by_kernel.items() for one in of_product(cast(GemmPlan, kernel), name)]
