"""What families of single operations have in common: the operation, found by its name, and what else a spec may say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mmagen.core.errors import Fault, SpecFaults, UsageError
from mmagen.core.targets import capability
from mmagen.plan.budgets import OLDEST_ARCH
from mmagen.spec.model import Spec

if TYPE_CHECKING:
    from mmagen.mma.operation import Operation

# Every other key must be as if it were left out.
_KEYS = ("mmagen", "name", "kernel", "atom", "arch")


def operation_of(spec: Spec) -> Operation:
    """The operation that `spec` names. Raises SpecFaults where there is none, with the nearest names."""
    from mmagen.mma.catalogue import find  # of all operations: nothing else in a build needs them

    try:
        return find(spec.atom)
    except UsageError as error:
        what, _, remedy = str(error).partition("; ")
        raise SpecFaults((Fault(("atom",), what, remedy),)) from None


def faults(spec: Spec, operation: Operation, why: str) -> Iterator[Fault]:
    """Keys that mean nothing for it, and architectures that lack it. why: what such a kernel is, "measures the atom alone"."""
    for key, field in Spec.model_fields.items():
        if key not in _KEYS and getattr(spec, key) != field.get_default(call_default_factory=True):
            yield Fault((key,), f"kernel {spec.kernel} {why} and has no {key}", "leave it out")
    for i, name in enumerate(spec.arch or ()):
        if not operation.runs_on(name):
            yield Fault(
                ("arch", i),
                f"{name} does not have {operation.name}",
                f"it runs on {', '.join(operation.targets) or f'{operation.arch} and later'}",
            )


def arch_of(spec: Spec, operation: Operation) -> tuple[str, ...]:
    """What to compile for: what the spec says, else the lowest that has it."""
    return spec.arch or (operation.arch if capability(operation.arch) >= OLDEST_ARCH else f"sm_{OLDEST_ARCH}",)
