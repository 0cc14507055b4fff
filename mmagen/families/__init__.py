"""Kernel families: everything specific to one kind of kernel, behind one Protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mmagen.core.errors import Fault, SpecFaults
from mmagen.spec.registered import REGISTERED

if TYPE_CHECKING:
    from mmagen.families.protocol import Family, Tunable
    from mmagen.mma.atoms import Atom
    from mmagen.plan.pipeline import Pipeline
    from mmagen.plan.project import ProjectPlan
    from mmagen.spec.model import Spec


@cache
def family(module: str) -> Family[Any]:
    """The FAMILY of a registered module."""
    found: Family[Any] = import_module(module).FAMILY
    return found


def family_of(plan: ProjectPlan) -> Family[Any]:
    """The family that made the plan."""
    return family(plan.family)


def plan(spec: Spec) -> ProjectPlan:
    """Plan a spec. Raises SpecFaults with all its faults."""
    for kernel, module in REGISTERED:
        if kernel == spec.kernel and _builds(module, spec):
            made: ProjectPlan = family(module).plan(spec, spec_sha(spec))
            return made
    from mmagen.mma.atoms import similar_atom

    others = list(dict.fromkeys(kernel for kernel, module in REGISTERED if _takes_atom(kernel, module, spec)))
    refused = Fault(
        ("kernel",),
        f"no kernel {spec.kernel} is built from {spec.atom}",
        f"use kernel {' or '.join(others)}, or another atom" if others else "use another atom",
        {("kernel",): others[0]} if others else {("atom",): similar_atom(spec.atom)},
    )
    raise SpecFaults((refused, *_faults_without_atom(spec)))


def tunable(plan: ProjectPlan) -> Tunable:
    """The family that made the plan, whose kernels can be tuned. Raises TypeError for another."""
    from mmagen.families.protocol import Tunable

    found = family_of(plan)
    if not isinstance(found, Tunable):
        raise TypeError(f"{plan.family} is not a family whose kernels can be tuned")
    return found


def alternatives(spec: Spec) -> list[Mapping[str, Any]]:
    """Keys of configurations worth measuring in place of the spec's own; none where its family has no choice."""
    from mmagen.families.protocol import Tunable

    for kernel, module in REGISTERED:
        if kernel == spec.kernel and _builds(module, spec):
            found = family(module)
            return list(found.alternatives(spec)) if isinstance(found, Tunable) else []
    return []


def kernels_to_begin_with() -> tuple[str, ...]:
    """The kernels of which a first spec can be suggested."""
    from mmagen.families.protocol import Starter

    return tuple(dict.fromkeys(kernel for kernel, module in REGISTERED if isinstance(family(module), Starter)))


def first_keys(kernel: str, atom: Atom) -> list[Mapping[str, Any]]:
    """Keys of specs of that kernel to begin with, legal or not; none where no family builds it from the atom."""
    from mmagen.families.protocol import Starter

    for name, module in REGISTERED:
        if name == kernel and family(module).builds(atom.name):
            found = family(module)
            return list(found.first_keys(atom)) if isinstance(found, Starter) else []
    return []


def pipelines(plan: ProjectPlan) -> list[tuple[str, Pipeline]]:
    """The pipeline of each kernel that has one, by the name of its config."""
    from mmagen.families.protocol import Pipelined

    each = [(name, one, family_of(one)) for name, one in plan.by_config.items()]
    return [(name, found.pipeline(one)) for name, one, found in each if isinstance(found, Pipelined)]


def _builds(module: str, spec: Spec) -> bool:
    """Does the family build from the spec's atom? Raises SpecFaults for an invalid atom, with the faults found without it."""
    try:
        return family(module).builds(spec.atom)
    except SpecFaults as error:
        raise SpecFaults((*error.faults, *_faults_without_atom(spec))) from None


def _faults_without_atom(spec: Spec) -> Iterator[Fault]:
    from mmagen.plan.rules import faults_without_atom  # slow to import, and only needed for invalid specs

    return faults_without_atom(spec)


def _takes_atom(kernel: str, module: str, spec: Spec) -> bool:
    """Would the family accept the spec's atom if the spec named its kernel?"""
    if not family(module).builds(spec.atom):
        return False
    of_kernel = {"kernel": kernel, "configs": None, "tile": spec.tile or (1, 1, 1)}
    try:
        family(module).plan(spec.model_copy(update=of_kernel), "")
    except SpecFaults as error:
        return all(fault.key != ("atom",) for fault in error.faults)
    return True


def spec_sha(spec: Spec) -> str:
    """Digest of a spec's meaning: equal for files that differ only in comments or order of keys."""
    return hashlib.sha256(spec.model_dump_json().encode()).hexdigest()[:16]
