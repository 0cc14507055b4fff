"""Shared by the families of single operations: finding the operation, and the keys that a spec may have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mmagen.core.errors import ABSENT, Fault, SpecFaults, UsageError
from mmagen.core.targets import capability, exists
from mmagen.mma.atoms import similar_atom
from mmagen.plan.budgets import OLDEST_ARCH
from mmagen.plan.rules import legal_archs
from mmagen.spec.model import Spec

if TYPE_CHECKING:
    from mmagen.mma.operation import Operation

# All other keys must have their defaults.
_KEYS = ("mmagen", "name", "kernel", "atom", "arch")


def operation_of(spec: Spec) -> Operation:
    """The operation that `spec` names. Raises SpecFaults with the nearest names if it does not exist."""
    from mmagen.mma.catalogue import find  # loads all operations, which nothing else in a build needs

    try:
        return find(spec.atom)
    except UsageError as error:
        what, _, remedy = str(error).partition("; ")
        raise SpecFaults((Fault(("atom",), what, remedy, {("atom",): similar_atom(spec.atom)}),)) from None


def faults(spec: Spec, operation: Operation, why: str) -> Iterator[Fault]:
    """Faults for keys that do not apply, and for architectures without it. why: what such a kernel is, "measures the atom
    alone"."""
    for key, field in Spec.model_fields.items():
        if key not in _KEYS and getattr(spec, key) != field.get_default(call_default_factory=True):
            yield Fault((key,), f"kernel {spec.kernel} {why} and has no {key}", "omit it", {(key,): ABSENT})
    for i, name in enumerate(spec.arch or ()):
        if not (exists(name) and operation.runs_on(name)):
            yield Fault(
                ("arch", i),
                f"{name} does not have {operation.name}",
                f"use {', '.join(operation.targets) or f'{operation.arch} or later'}",
                legal_archs(spec, operation.runs_on),
            )


def arch_of(spec: Spec, operation: Operation) -> tuple[str, ...]:
    """The spec's architectures, else the oldest that has the operation."""
    return spec.arch or (operation.arch if capability(operation.arch) >= OLDEST_ARCH else f"sm_{OLDEST_ARCH}",)
