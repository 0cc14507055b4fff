"""Several kernels in one library: which problem takes which, what they must have in common, and what is then the library's.

Each config is a spec of its own, the library's with some keys said anew, and is planned by the same rules as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from mmagen.core.errors import Fault, SpecFaults
from mmagen.plan.model import Config, Plan
from mmagen.plan.text import library_text
from mmagen.spec.kernel import When
from mmagen.spec.model import Problem, Spec

PlanOne = Callable[[Spec], Plan]


def plan(spec: Spec, sha: str, plan_one: PlanOne) -> Plan:
    """The plan of a spec with configs. Raises SpecFaults with everything that is wrong with it."""
    assert spec.configs
    if spec.kernel != "gemm":
        raise SpecFaults(
            (
                Fault(
                    ("configs",),
                    f"kernel {spec.kernel} does one shape, and there is nothing to choose between",
                    "leave it out, or make it kernel: gemm",
                ),
            )
        )
    plans: list[Plan] = []
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
    configs = tuple(Config(config.name, config.when, one) for config, one in zip(spec.configs, plans, strict=True))
    return _library(spec, configs)


def spec_of_each(spec: Spec) -> list[Spec]:
    """The spec of each config alone."""
    return [spec.model_copy(update={**config.overrides, "configs": None}) for config in spec.configs or ()]


def choose(plan: Plan, problem: Problem) -> Config:
    """The config that a problem takes: the first whose rule holds, as choice.cuh has it."""
    return next(config for config in plan.configs if config.when is None or config.when.holds(*problem.shape))


def _library(spec: Spec, configs: tuple[Config, ...]) -> Plan:
    """The last config's plan, which answers for all that the configs share, with what the library has besides."""
    plans, last = [config.plan for config in configs], configs[-1].plan
    return replace(
        last,
        spec=spec,
        configs=configs,
        runtime=tuple(sorted({"mmagen/choice"}.union(*(one.runtime for one in plans)))),
        test_runtime=tuple(sorted(set().union(*(one.test_runtime for one in plans)))),
        reading=tuple(dict.fromkeys(entry for one in plans for entry in one.reading)),
        text=library_text(last.text, spec, last.atom, last.epilogue.out, len(configs)),
    )


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


def _disagreements(spec: Spec, plans: Sequence[Plan]) -> Iterator[Fault]:
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
        elif bool(one.hopper) != bool(last.hopper):
            yield Fault(
                key,
                f"one of {one.atom.name} and {last.atom.name}, that of config {last_name}, is wgmma, the other not",
                "atoms of one kind, or a library of each",
            )
        elif one.arch != last.arch:
            yield Fault(
                key,
                f"{one.atom.name} would be compiled for {', '.join(one.arch)}, and config {last_name} for "
                f"{', '.join(last.arch)}",
                "say arch, once for all configs",
            )


def _types(plan: Plan) -> str:
    atom = plan.atom
    return f"{atom.type_a.word} x {atom.type_b.word} + {atom.type_d.word} -> {plan.epilogue.out.word}"
