"""Rules of kernels of complex numbers."""

from __future__ import annotations

from collections.abc import Iterator

from mmagen.core.errors import Fault
from mmagen.mma.atoms import Atom
from mmagen.plan.operations import operations
from mmagen.plan.rules import out_type
from mmagen.spec.model import Spec


def faults(spec: Spec, atom: Atom) -> Iterator[Fault]:
    """Fault for an epilogue that complex numbers do not have."""
    if atom.type_d.parts == 1 or spec.epilogue.operations is None:
        return
    if operations(spec.epilogue, out_type(spec, atom), atom.type_d):
        yield Fault(
            ("epilogue",),
            "the epilogue of complex numbers is alpha * x + beta * C, with real alpha and beta",
            "[alpha, beta_c], or a mapping such as {major: N}",
            {("epilogue",): {"major": spec.epilogue.major}},
        )
