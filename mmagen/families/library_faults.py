"""What the configs of a library must satisfy: names, clusters, rules, and the properties that all kernels share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mmagen.core.errors import ABSENT, Change, Fault, Key
from mmagen.families.entries import Entry, entries
from mmagen.plan.model import LaunchShape
from mmagen.plan.plans import GemmPlan
from mmagen.spec.kernel import When
from mmagen.spec.model import Spec

MOST_AT_LAUNCH = 8  # CTAs of a cluster, which every device with clusters supports

# Functions in the namespace of a library: for operands that TMA cannot address, and of those that have a sparse A.
_FUNCTIONS = (
    *("run_unaligned", "copy_operands", "copied_bytes", "take_pitches_of_copies", "without_copies"),
    *("compressed_size", "prune", "compress", "check_metadata", "prune_host", "compress_host", "check_metadata_host"),
)


def of_spec(spec: Spec) -> Iterator[Fault]:
    """Faults of names and rules, which need no plan of a config."""
    yield from _name_faults(spec)
    yield from _rule_faults(spec)


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


def of_clusters(choices: Sequence[Entry], plans: Sequence[GemmPlan]) -> Iterator[Fault]:
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


def of_groups(spec: Spec) -> Iterator[Fault]:
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


def placed(spec: Spec, found: Sequence[tuple[Fault, ...]]) -> Iterator[Fault]:
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


def disagreements(spec: Spec, plans: Sequence[GemmPlan]) -> Iterator[Fault]:
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
