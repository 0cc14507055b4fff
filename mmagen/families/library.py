"""Several kernels in one library: which problem takes which, what they must have in common, and what is then the library's.

Each config is a spec of its own, the library's with some keys said anew, and is planned by the same rules as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from mmagen.core.errors import Fault, SpecFaults
from mmagen.plan import pages, sentences
from mmagen.plan.plans import Config, GemmPlan
from mmagen.spec.kernel import When
from mmagen.spec.model import Problem, Spec

PlanOne = Callable[[Spec], Any]
G = TypeVar("G", bound=GemmPlan)


def plan(spec: Spec, sha: str, plan_one: PlanOne) -> GemmPlan:
    """The plan of a gemm with configs. Raises SpecFaults with everything that is wrong with it.

    plan_one: plans one config's spec by the family of its own atom.
    """
    plans: list[GemmPlan] = []
    found: list[tuple[Fault, ...]] = []
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
    configs = tuple(Config(config.name, config.when, one) for config, one in zip(spec.configs or (), plans, strict=True))
    last = configs[-1].plan
    reading = tuple(dict.fromkeys(entry for one in plans for entry in one.text.reading))
    text = sentences.of_library(replace(last.text, reading=reading), spec, last.atom, last.epilogue.out, len(configs))
    return replace(last, spec=spec, configs=configs, text=text)


def spec_of_each(spec: Spec) -> list[Spec]:
    """The spec of each config alone."""
    return [spec.model_copy(update={**config.overrides, "configs": None}) for config in spec.configs or ()]


def choose(plan: GemmPlan, problem: Problem) -> Config:
    """The config that a problem takes: the first whose rule holds, as choice.cuh has it."""
    return next(config for config in plan.configs if config.when is None or config.when.holds(*problem.shape))


# --- What a project and its page have more ---------------------------------------------------------------------------


def parts(plan: GemmPlan) -> tuple[str, ...]:
    """Folders of templates/project that a library has besides."""
    return ("library",) if plan.configs else ()


def context(plan: GemmPlan, config: str) -> dict[str, Any]:
    """What the templates of a gemm see besides the plan. config: the kernel of a library that is meant, or ""."""
    return {
        "decisions": sentences.DECISIONS,
        "who": f"{plan.name}, config {config}" if config else plan.name,
        "scope": f"{plan.name}::{config}" if config else plan.name,
        "type": f"{config}::Config" if config else "Config",
        "choices": plan.configs,
        "fixed_shape": False,
    }


def sources(plan: GemmPlan) -> list[str]:
    """Names of the translation units in src/."""
    return [plan.name, *(config.name for config in plan.configs)]


def page(
    plan: G,
    sections: Callable[[G], list[pages.Section]],
    columns: Sequence[tuple[str, Callable[[G], str]]],
) -> list[pages.Section]:
    """The sections of one kernel, or of a library: the rule of choice, the problems, and each kernel.

    sections: of one plan, which is of the family that asks. columns: what the table of a library says of each kernel
    besides its atom, tile and stages.
    """
    problems = [(f"{i}", p.text, *((choose(plan, p).name,) if plan.configs else ())) for i, p in enumerate(plan.problems)]
    listed: pages.Section = ("Problems of verify", problems)
    if not plan.configs:
        return [*sections(plan), listed]
    rows: list[pages.Row] = [("when", "config", "atom", "CTA tile", "stages", *(title for title, _ in columns))]
    kernels = cast("tuple[G, ...]", plan.kernels)  # all of one family, as _disagreements demands
    for config, one in zip(plan.configs, kernels, strict=True):
        rule = config.when.text if config.when else "otherwise"
        what = (one.atom.name, pages.extents(one.tile), str(one.stages))
        rows.append((rule, config.name, *what, *(show(one) for _, show in columns)))
    each = [
        (f"{config.name}: {title}", rows)
        for config, one in zip(plan.configs, kernels, strict=True)
        for title, rows in sections(one)
    ]
    return [("Choice, the first that holds", rows), listed, *each]


# --- Rules -----------------------------------------------------------------------------------------------------------


def _name_faults(spec: Spec) -> Iterator[Fault]:
    """Names that would be those of two files or of two things in one namespace."""
    taken = {
        spec.name.lower(): "the library",
        f"{spec.name}_unaligned".lower(): "a file of the library",
        "run_unaligned": "a function of the library",
    }
    for i, config in enumerate(spec.configs or ()):
        other = taken.setdefault(config.name.lower(), f"configs[{i}]")
        if other != f"configs[{i}]":
            yield Fault(("configs", i, "name"), f"{config.name} is the name of {other} already", "another name")


def _rule_faults(spec: Spec) -> Iterator[Fault]:
    """Problems that no config takes, and configs that no problem takes."""
    configs = spec.configs or ()
    if configs[-1].when is not None:
        yield Fault(
            ("configs", len(configs) - 1, "when"),
            f"a problem for which no rule holds would have no kernel: {configs[-1].name} "
            f"is the last, and has {configs[-1].when.text}",
            "the last config takes what the others leave: leave its when out, or add a config without one",
        )
    for i, config in enumerate(configs):
        earlier = next((one for one in configs[:i] if _covers(one.when, config.when)), None)
        if earlier:
            why = f"has {earlier.when.text}" if earlier.when else "has no when and takes every problem"
            yield Fault(
                ("configs", i, "when") if config.when else ("configs", i),
                f"{config.name} is never reached: {earlier.name} stands before it and {why}",
                f"put {config.name} before {earlier.name}, or leave it out"
                if earlier.when
                else f"give {earlier.name} a when, or make it the last",
            )


def _covers(earlier: When | None, later: When | None) -> bool:
    """Does every problem that the later rule is for meet the earlier one?"""
    return earlier is None or (later is not None and earlier.covers(later))


# --- Faults of configs -----------------------------------------------------------------------------------------------


def _placed(spec: Spec, found: Sequence[tuple[Fault, ...]]) -> Iterator[Fault]:
    """What is wrong with a config stands in it, but what is wrong with all that share a key stands with the key."""
    configs = spec.configs or ()
    for i, faults in enumerate(found):
        for fault in faults:
            key = fault.key[0]
            sharers = [j for j, config in enumerate(configs) if key not in config.overrides]
            shared = i in sharers and all(fault in found[j] for j in sharers)
            yield fault if shared else replace(fault, key=("configs", i, *fault.key))


def _disagreements(spec: Spec, plans: Sequence[GemmPlan]) -> Iterator[Fault]:
    """One C interface means one set of types; one library, one list of architectures."""
    last, last_name = plans[-1], (spec.configs or ())[-1].name
    for i, one in enumerate(plans):
        key = ("configs", i, "atom")
        if _types(one) != _types(last):
            yield Fault(
                key,
                f"{one.atom.name} is {_types(one)}, and config {last_name} is {_types(last)}",
                "a library has one C interface: atoms of the same types",
            )
        elif one.family != last.family:
            yield Fault(
                key,
                f"the kernel of {one.atom.name} is of another kind than that of {last.atom.name}, config {last_name}",
                "atoms of one kind, or a library of each",
            )
        elif one.arch != last.arch:
            yield Fault(
                key,
                f"{one.atom.name} would be compiled for {', '.join(one.arch)}, and config {last_name} for "
                f"{', '.join(last.arch)}",
                "say arch, once for all configs",
            )


def _types(plan: GemmPlan) -> str:
    atom = plan.atom
    return f"{atom.type_a.word} x {atom.type_b.word} + {atom.type_d.word} -> {plan.epilogue.out.word}"
