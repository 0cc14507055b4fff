"""Several kernels in one library: selection by problem, the properties that they must share, and the library's plan.

Each config is planned as a spec of its own: the library's, with some keys overridden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from mmagen.core.errors import ABSENT, Change, Fault, Key, SpecFaults
from mmagen.families.entries import Entry, entries
from mmagen.plan import pages, sentences
from mmagen.plan.copies import call_of
from mmagen.plan.cost import Call, KernelShape, predicted_us
from mmagen.plan.maps import Map, of_product
from mmagen.plan.model import LaunchShape
from mmagen.plan.plans import Config, GemmPlan
from mmagen.spec.kernel import When
from mmagen.spec.model import Problem, Spec

MOST_AT_LAUNCH = 8  # CTAs of a cluster, which every device with clusters supports

PlanOne = Callable[[Spec], Any]
G = TypeVar("G", bound=GemmPlan)


def plan(spec: Spec, sha: str, plan_one: PlanOne) -> GemmPlan:
    """The plan of a gemm with configs. Raises SpecFaults with all its faults.

    plan_one: plans the spec of one config, by the family of its atom.
    """
    if faults := [*_group_faults(spec)]:
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
    if faults := [*_name_faults(spec), *_rule_faults(spec), *dict.fromkeys(_placed(spec, found))]:
        raise SpecFaults(tuple(faults))
    if faults := [*_disagreements(spec, plans)]:
        raise SpecFaults(tuple(faults))
    if faults := [*_cluster_faults(choices, plans)]:
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


# --- Rules -----------------------------------------------------------------------------------------------------------


# Functions in the namespace of a library: for operands that TMA cannot address, and of those that have a sparse A.
_FUNCTIONS = (
    *("run_unaligned", "copy_operands", "copied_bytes", "take_pitches_of_copies", "without_copies"),
    *("compressed_size", "prune", "compress", "check_metadata", "prune_host", "compress_host", "check_metadata_host"),
)


def _name_faults(spec: Spec) -> Iterator[Fault]:
    """Faults for names that would collide as files or within a namespace."""
    taken = {
        spec.name.lower(): "the library",
        f"{spec.name}_unaligned".lower(): "a file of the library",
        **dict.fromkeys(_FUNCTIONS, "a function of the library"),
    }
    for i, config in enumerate(spec.configs or ()):
        other = taken.setdefault(config.name.lower(), f"configs[{i}]")
        if other != f"configs[{i}]":
            yield Fault(
                ("configs", i, "name"),
                f"{config.name} is already the name of {other}",
                "use another name",
                {("configs", i, "name"): f"{config.name}_{i}"},
            )
    launches: dict[str, Entry] = {}
    for choice in entries(spec):
        if choice.launch is None:
            continue
        before = launches.setdefault(choice.name.lower(), choice)
        own = f"configs[{choice.index}].clusters[{choice.place}]"
        other = taken.setdefault(choice.name.lower(), own)
        if before is not choice and before.launch and before.launch.widths and before.index == choice.index:
            both = sorted({*before.launch.widths, *choice.launch.widths})
            yield Fault(
                (*choice.key, "tile_n"),
                f"{choice.name} is already the name of {other}",
                f"write one list, {both}, in one launch",
                {(*before.key, "tile_n"): both, choice.key: ABSENT},
            )
        elif other != own:
            yield Fault(
                (*choice.key, "cluster"),
                f"{choice.name} is already the name of {other}",
                "omit it, or give the config another name",
                {choice.key: ABSENT},
            )


def _cluster_faults(choices: Sequence[Entry], plans: Sequence[GemmPlan]) -> Iterator[Fault]:
    """Faults for kernels that must be compiled for one cluster, and for clusters that not every device supports."""
    for choice, one in zip(choices, plans, strict=True):
        if choice.launch is None:
            continue
        if why := one.compiled_for_cluster:
            yield Fault(
                ("configs", choice.index, "clusters"),
                f"{why}: its kernel is compiled for one cluster",
                "write cluster instead",
                {
                    ("configs", choice.index, "clusters"): ABSENT,
                    ("configs", choice.index, "cluster"): list(one.scheduler.cluster),
                    **({("configs", choice.index, "cost"): choice.cost.model_dump()} if choice.cost else {}),
                },
            )
        elif one.scheduler.cluster_ctas > MOST_AT_LAUNCH:
            yield Fault(
                (*choice.key, "cluster"),
                f"{list(one.scheduler.cluster)} are {one.scheduler.cluster_ctas} CTAs; a cluster that is set at launch has at "
                f"most {MOST_AT_LAUNCH}",
                "omit it, or write a config with cluster",
                {choice.key: ABSENT},
            )
        else:
            yield from _width_faults((*choice.key, "tile_n"), LaunchShape.of(choice.launch), one)


def _width_faults(key: Key, launch: LaunchShape, one: GemmPlan) -> Iterator[Fault]:
    """Faults for columns of a tile that a launch cannot compute. key: of tile_n."""
    legal = [n for n in range(8, one.tile[1], 8) if not one.why_not_tile_n(n)]
    every = "all columns of a tile are computed"
    if launch.tile_n and (why := one.why_not_tile_n(launch.tile_n)):
        nearest = _nearest(legal, launch.tile_n)
        remedy = f"write {nearest}, or omit it for all columns" if nearest else f"omit it: {every}"
        what = f"{launch.tile_n} columns of a tile cannot be computed: {why}"
        yield Fault(key, what, remedy, {key: nearest or ABSENT})
    wrong = {n: why for n in launch.widths if (why := one.why_not_tile_n(n))}
    if not wrong:
        return
    whole = one.tile[1]
    each = [
        f"the tile has {n} columns, and every call may compute all of them"
        if n == whole
        else f"{n} columns of a tile cannot be computed: {why}"
        for n, why in wrong.items()
    ]
    left = sorted({_nearest(legal, n) if n in wrong else n for n in launch.widths if n != whole} - {0})
    yield Fault(key, "; ".join(each), f"write {left}" if left else f"omit tile_n: {every}", {key: left or ABSENT})


def _nearest(legal: Sequence[int], columns: int) -> int:
    """0 if nothing is legal."""
    return min(((abs(n - columns), n) for n in legal), default=(0, 0))[1]


def _group_faults(spec: Spec) -> Iterator[Fault]:
    """Faults of configs of a grouped spec whose choice would need what only the device knows."""
    if not spec.grouped:
        return
    if spec.grouped == "pointers":
        yield Fault(
            ("grouped",),
            "configs are chosen by m, n and k on the host, which does not know the m, n and k of each group",
            "omit grouped, or write a spec for each kernel",
            {("grouped",): ABSENT},
        )
        return
    m = "the rows of A" if spec.grouped == "contiguous" else "the rows of A that each group has room for"
    for i, config in enumerate(spec.configs or ()):
        for key in ("cost", "clusters"):
            if getattr(config, key) is not None:
                yield Fault(
                    ("configs", i, key),
                    f"config {config.name}: a predicted time depends on the sizes of the groups, which the host does not know",
                    f"omit {key}; when chooses by m ({m}), n and k",
                    {("configs", i, key): ABSENT},
                )


def _rule_faults(spec: Spec) -> Iterator[Fault]:
    """Faults for problems that no config takes, for unreachable configs, and for costs that cannot be compared."""
    choices = entries(spec)
    others = [i for i, choice in enumerate(choices) if choice.when is None]
    costed = [i for i in others if choices[i].cost]
    if costed and costed == others:  # the least predicted time decides between them, wherever they are in the list
        yield from _unreachable({i: choice for i, choice in enumerate(choices) if choice.when})
        return
    if costed:
        for i in sorted({*others} - {*costed}):
            yield Fault(
                choices[i].key,
                f"{choices[i].name} has neither a when nor a cost, and its time cannot be compared with that of "
                f"{choices[costed[0]].name}",
                f"give it {'' if choices[i].launch else 'a when, or '}a cost as `mmagen tune` writes it",
                {choices[i].key: ABSENT},
            )
        return
    last = choices[-1]
    if last.when is not None:
        yield Fault(
            (*last.key, "when"),
            f"a problem for which no rule holds has no kernel: the last config, {last.name}, requires {last.when.text}",
            "omit when in the last config, or add a config without when",
            {(*last.key, "when"): ABSENT},
        )
    yield from _unreachable(dict(enumerate(choices)))


def _unreachable(choices: Mapping[int, Entry]) -> Iterator[Fault]:
    """Faults for choices, by their index, that take no problem because earlier ones do."""
    for i, choice in choices.items():
        earlier = next((one for j, one in choices.items() if j < i and _covers(one.when, choice.when)), None)
        if earlier:
            why = f"takes {earlier.when.text}" if earlier.when else "has no when and takes every problem"
            yield Fault(
                (*choice.key, "when") if choice.when else choice.key,
                f"{choice.name} is never reached: {earlier.name} comes first and {why}",
                _in_reach(choice, earlier),
                {choice.key: ABSENT},
            )


def _in_reach(choice: Entry, earlier: Entry) -> str:
    """What to do with a choice that is never reached."""
    if earlier.when:
        return f"put {choice.name} before {earlier.name}, or omit it"
    if earlier.launch:  # which cannot have one
        return "give each of them a cost as `mmagen tune` writes it, or omit one"
    return f"give {earlier.name} a when, or make it the last"


def _covers(earlier: When | None, later: When | None) -> bool:
    """Does the earlier rule hold for every problem of the later one?"""
    return earlier is None or (later is not None and earlier.covers(later))


# --- Faults of configs -----------------------------------------------------------------------------------------------


def _placed(spec: Spec, found: Sequence[tuple[Fault, ...]]) -> Iterator[Fault]:
    """Faults of a choice are located in it; faults of an inherited key are located at the key in the spec."""
    choices = entries(spec)
    for i, faults in enumerate(found):
        for fault in faults:
            key = fault.key[0]
            sharers = [j for j, choice in enumerate(choices) if key not in choice.overrides]
            shared = i in sharers and all(fault in found[j] for j in sharers)
            if shared:
                fault = replace(fault, change=dict(_for_all(choices, sharers, fault.change)))
            else:
                inside = choices[i].inside
                fault = replace(
                    fault, key=inside(fault.key), change={inside(path): value for path, value in fault.change.items()}
                )
            yield fault


def _for_all(choices: Sequence[Entry], sharers: Sequence[int], change: Mapping[Key, Any]) -> Iterator[tuple[Key, Any]]:
    """A change for several choices, of which some may have values of their own where it is."""
    for path, value in change.items():
        own = [j for j in sharers if path[0] in choices[j].overrides]
        if len(own) < len(sharers):
            yield path, value
        yield from ((choices[j].inside(path), value) for j in own)


def _disagreements(spec: Spec, plans: Sequence[GemmPlan]) -> Iterator[Fault]:
    """Faults for configs that differ in types, family or architectures: a library has one C interface and one list of them."""
    choices = entries(spec)
    last, last_name = plans[-1], choices[-1].name
    for choice, one in zip(choices, plans, strict=True):
        key = choice.inside(("atom",))
        same: Change = {key: last.atom.name}
        if _types(one) != _types(last):
            yield Fault(
                key,
                f"{one.atom.name} is {_types(one)}, and config {last_name} is {_types(last)}",
                "use atoms of the same types: a library has one C interface",
                same,
            )
        elif one.family != last.family:
            yield Fault(
                key,
                f"the kernels of {one.atom.name} and {last.atom.name} (config {last_name}) are of different families",
                "use atoms of one family, or two libraries",
                same,
            )
        elif one.arch != last.arch:
            yield Fault(
                key,
                f"{one.atom.name} would be compiled for {', '.join(one.arch)}, and config {last_name} for "
                f"{', '.join(last.arch)}",
                "set arch once, for all configs",
                same,
            )


def _types(plan: GemmPlan) -> str:
    return plan.types
