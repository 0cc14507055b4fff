"""Candidates of a library: what the spec's family offers, without what its rules refuse, pruned by a guess of their times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from mmagen import families
from mmagen.core.errors import SpecFaults, UsageError
from mmagen.families import estimate
from mmagen.plan.cost import Call, KernelShape
from mmagen.plan.model import LaunchShape
from mmagen.plan.plans import GemmPlan
from mmagen.spec.cost import Cost
from mmagen.spec.kernel import CONFIG_KEYS, Config
from mmagen.spec.model import Spec
from mmagen.tuning.kernels import AT_LAUNCH, as_configs, decides_at_launch, suffix
from mmagen.tuning.measure import Machine
from mmagen.tuning.select import select

_NEEDED = ("atom", "tile", "atoms_layout", "permutation")
_NEUTRAL = {"split_k": 1, "stream_k": "never", "operands": "in_order"}  # the same as no such key
_LAUNCHES_TRIED = 5  # of a kernel of several widths, about
_LEAST_LAUNCHES = 2  # of all of these kernels
_NAME = "tuned"  # of the project that is measured: the code of a kernel does not depend on the library's name


@dataclass(frozen=True)
class Candidate:
    """A configuration to measure: its name, that of its compiled kernel, the keys that it overrides, as YAML has them, its plan,
    and the name of the spec's choice that it is, "" for one that the spec has not."""

    name: str
    kernel: str
    keys: Mapping[str, Any]
    plan: GemmPlan
    own: str = ""

    @property
    def several_widths(self) -> bool:
        """Is it a launch of a kernel that is compiled for several numbers of columns of a tile?"""
        return self.plan.scheduler.several_widths


def candidates(spec: Spec) -> Iterator[Candidate]:
    """All legal ones: the spec's own kernels first, then those that its family offers, of which there can be thousands, each
    planned when it is asked for. Raises UsageError if there is no choice."""
    base, inherited = base_of(spec), inherited_keys(spec)
    own = [(config.name, {**inherited, **_own_keys(config)}) for config in spec.configs or ()]
    others: list[Mapping[str, Any]] = [*([] if own else [inherited]), *offered(base)]
    taken: dict[str, LaunchShape] = {}  # names, and what they are launched as
    of_kernels: dict[str, dict[str, Any]] = {}  # their keys, but for the cluster
    for of_spec, config in [*own, *(("", keys) for keys in others)]:
        for keys, plan in _launches(base, config):
            name, kernel = names_of(plan)
            launch = plan.scheduler.launch
            # Names tell enough of what the family offers apart, except lists of widths; what a spec has is measured.
            if not of_spec and name in taken and (not launch.widths or taken[name] == launch):
                continue
            if name != kernel:
                kernel = _free(kernel, plan, of_kernels, taken)
                name = f"{kernel}_{suffix(plan)}"
            elif of_spec:
                name = kernel = _free(kernel, plan, of_kernels, taken)
            choice = f"{of_spec}_{suffix(plan)}" if of_spec and "clusters" in config else of_spec
            if name not in taken:
                taken[name] = launch
                yield Candidate(name, kernel, keys, plan, choice)


def _free(kernel: str, plan: GemmPlan, of_kernels: dict[str, dict[str, Any]], taken: Mapping[str, LaunchShape]) -> str:
    """The name of a kernel, or one with a number where it is that of a kernel with other keys, or with another list of widths for
    the same cluster, which names do not tell apart."""
    launch = plan.scheduler.launch
    written = plan.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    own = {key: value for key, value in written.items() if key != "cluster" and _NEUTRAL.get(key) != value}
    names = (kernel, *(f"{kernel}_{i}" for i in range(2, len(of_kernels) + len(taken) + 3)))
    free = (name for name in names if taken.get(f"{name}_{launch.suffix}", launch) == launch)
    return next(name for name in free if of_kernels.setdefault(name, own) == own)


def compiled_together(found: Sequence[Candidate]) -> list[Candidate]:
    """These candidates as they are compiled: the kernel of several widths has those of its launches here. Where only launches of
    whole tiles are left of such a kernel, it is one of a single width, which is a candidate of its own: they are left out."""
    kept = []
    for one in found:
        if not one.several_widths:
            kept.append(one)
            continue
        together = [other.plan.scheduler for other in found if other.kernel == one.kernel]
        if any(other.launch.narrow for other in together):
            launches = tuple(other.launch for other in together)
            kept.append(replace(one, plan=one.plan.launched(launches, one.plan.scheduler.launch)))
    return kept


def offered(spec: Spec) -> list[Mapping[str, Any]]:
    """Keys of what the spec's family offers, legal or not. Raises UsageError if that is nothing."""
    found = families.alternatives(spec)
    if not found:
        raise UsageError(f"{spec.name}: kernel {spec.kernel} of {spec.atom} has no alternatives to choose from")
    return found


def base_of(spec: Spec) -> Spec:
    """The spec without configs and without the keys that a config overrides, as far as a spec can do without them."""
    written = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    left_out = ("configs", *dispensable_keys(spec))
    return Spec.model_validate({key: value for key, value in written.items() if key not in left_out} | {"name": _NAME})


def inherited_keys(spec: Spec) -> dict[str, Any]:
    """The keys of a spec, as YAML has them, that its configs inherit."""
    written = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {key: value for key, value in written.items() if key in CONFIG_KEYS}


def dispensable_keys(spec: Spec) -> dict[str, Any]:
    """Those of them that a spec can do without. Nothing that `mmagen tune` offers has them unless it says so."""
    return {key: value for key, value in inherited_keys(spec).items() if key not in _NEEDED}


def _own_keys(config: Config) -> dict[str, Any]:
    """The keys that a config of the spec overrides, and its clusters without their costs."""
    written = config.model_dump(mode="json", by_alias=True)
    own = {key: value for key, value in written.items() if key in CONFIG_KEYS}
    if config.clusters:
        own["clusters"] = [one.model_dump(include=set(AT_LAUNCH), exclude_none=True, mode="json") for one in config.clusters]
    return own


def _launches(base: Spec, config: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], GemmPlan]]:
    """Keys and plan of what a config, as YAML has it, is launched as: one, or one for each of its clusters. Without those that are
    not legal."""
    keys = {key: value for key, value in config.items() if key != "clusters"}
    launches = config.get("clusters") or ()
    if not launches:
        if plan := _planned(base, keys):
            yield keys, plan
        return
    plans = {tuple(one["cluster"]): _planned(base, keys | {"cluster": list(one["cluster"])}) for one in launches}
    legal = []
    for one in launches:
        plan = plans[tuple(one["cluster"])]
        shape = plan and _legal(plan, one.get("tile_n") or 0)
        if plan and shape:
            legal.append((shape, plan))
    shapes = tuple(shape for shape, _ in legal)
    several = any(shape.narrow for shape in shapes)
    if not several and any(one.get("tile_n") for one in launches):  # what is left of it is a kernel of one width
        return
    for shape, plan in legal:
        columns = {"tile_n": [*shape.widths] or shape.tile_n} if shape.narrow else {}
        launched = plan.launched(shapes, shape) if several else plan
        yield keys | {"cluster": [shape.m, shape.n]} | columns, launched


def _legal(plan: GemmPlan, tile_n: int | Sequence[int]) -> LaunchShape | None:
    """The launch in the plan's cluster with tile_n (0: all columns), or with the legal ones of a list; None without any."""
    cluster = plan.scheduler.cluster
    if not tile_n:
        return LaunchShape(*cluster)
    of_list = not isinstance(tile_n, int)
    if not decides_at_launch(plan):
        return None
    legal = tuple(n for n in ([tile_n] if isinstance(tile_n, int) else tile_n) if not plan.why_not_tile_n(n))
    if not legal:
        return None
    return LaunchShape(*cluster, widths=legal) if of_list else LaunchShape(*cluster, legal[0])


def _planned(base: Spec, keys: Mapping[str, Any]) -> GemmPlan | None:
    document = base.model_dump(mode="json", by_alias=True, exclude_unset=True)
    try:
        return cast("GemmPlan", families.plan(Spec.model_validate(document | dict(keys))))
    except SpecFaults:
        return None


def names_of(plan: GemmPlan) -> tuple[str, str]:
    """C identifiers that say what the configuration is, `coop_128x256x64_stream_c2x1`, and its kernel: `coop_128x256x64_stream`,
    or the same where it is compiled for the cluster."""
    spec, scheduler = plan.spec, plan.scheduler
    schedule = {"pingpong": "ping", "cooperative": "coop", "warpgroup": "warp"}.get(spec.schedule or "", "mma")
    parts = [f"{schedule}_{'x'.join(map(str, plan.tile))}"]
    parts += ["swap"] if spec.operands == "swapped" else []
    if spec.split_k == "auto":
        parts.append("split")
    elif spec.split_k not in (None, 1):  # by CTAs of a cluster, or through a workspace, which is another kernel
        parts.append(f"split{spec.split_k}{'' if scheduler.workspace_splits is None else 'w'}")
    parts += [{"last_wave": "stream", "always": "streamall"}[scheduler.stream_k]] if scheduler.shares_last_wave else []
    parts += [f"w{plan.tiled_mma.atoms[0]}x{plan.tiled_mma.atoms[1]}"] if schedule == "mma" else []
    parts += [f"g{spec.warpgroups}"] if spec.warpgroups else []  # consumers
    parts += [f"s{spec.stages}"] if spec.stages else []
    parts += [f"o{spec.ctas_per_sm}"] if spec.ctas_per_sm else []  # occupancy, in CTAs
    parts += [f"r{spec.raster}"] if spec.raster else []
    parts += ["hint"] if spec.cache else []
    parts += [f"p{spec.prefetch}"] if spec.prefetch else []
    parts += ["widths"] if scheduler.several_widths else []
    kernel = "_".join(parts)
    if decides_at_launch(plan):
        return f"{kernel}_{suffix(plan)}", kernel
    name = kernel if scheduler.cluster == (1, 1) else f"{kernel}_{suffix(plan)}"
    return name, name


def guess(plan: GemmPlan, machine: Machine) -> Cost:
    """Coefficients of a kernel that was not measured. Only differences between candidates count."""
    return estimate.guess(plan, machine.ctas(KernelShape.of(plan).group, plan.ctas_per_sm))


def prune(
    found: Sequence[Candidate],
    calls: Sequence[Call],
    machine: Machine,
    most: int,
    weights: Mapping[Call, float] | None = None,
) -> list[Candidate]:
    """At most `most` of them: the spec's own first, then those with which the fastest, by the guess, is closest to the fastest of
    all on the calls. Half of these are launches of kernels of several widths, if there are such, since the guess says little
    of the difference of a few percent between both kinds. weights: how much each call counts."""
    chosen = [one.name for one in found if one.own][:most]
    others = [one for one in found if one.name not in chosen] if len(chosen) < most else []
    times = {}
    for one in others:
        us = estimate.times_of_calls(one.plan, guess(one.plan, machine), calls)
        times[one.name] = dict(zip(calls, us, strict=True))
    several = {one.name: one.kernel for one in others if one.several_widths}
    room = (most - len(chosen)) // 2 if several else 0
    kernels = max(1, room // _LAUNCHES_TRIED)
    if room >= _LEAST_LAUNCHES:
        of_several = {name: times[name] for name in several}
        chosen += select(of_several, kernels, kernels=several, exchange=False, weights=weights)[:room]
    of_one = {name: times[name] for name in times if name not in several}
    while len(chosen) < most and of_one:  # one set after the other, each the best of what is left
        some = select(of_one, most - len(chosen), exchange=False, weights=weights)
        chosen += some
        of_one = {name: of for name, of in of_one.items() if name not in some}
    if len(chosen) < most:
        chosen += [name for name in several if name not in chosen][: most - len(chosen)]
    return [one for one in found if one.name in chosen]


def library_of(found: Sequence[Candidate], costs: Mapping[str, Cost]) -> GemmPlan:
    """One library of them all, to compile."""
    first = found[0].plan.spec
    document = base_of(first).model_dump(mode="json", by_alias=True, exclude_unset=True)
    of_each = {one.name: costs[one.name].model_dump() for one in found}
    configs = as_configs([(one.name, one.keys) for one in found], {one.name: one.kernel for one in found}, of_each)
    return cast("GemmPlan", families.plan(Spec.model_validate(document | {"configs": configs})))
