"""Reads a spec file and plans it; reports all faults in one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mmagen.core.errors import Diagnostic, Fault, SpecFaults
from mmagen.families import plan
from mmagen.mma.atoms import find_atom
from mmagen.spec.load import UnreadableSpec, load

if TYPE_CHECKING:
    from mmagen.plan.project import ProjectPlan


def read(data: bytes | str, file: str) -> tuple[ProjectPlan | None, tuple[Diagnostic, ...]]:
    """The plan of the spec in `data`, or None and all faults with their locations.

    A spec with invalid keys or values is planned without them, to find faults of its atom, tile and problems in the same run.
    file: a label for messages.
    """
    try:
        loaded = load(data, file)
    except UnreadableSpec as error:
        wrong = {diagnostic.key[:1] for diagnostic in error.diagnostics}
        further = error.source.locate(fault for fault in _faults(error) if fault.key[:1] not in wrong)
        return None, tuple(sorted((*error.diagnostics, *further), key=lambda d: (d.line, d.column)))
    try:
        return plan(loaded.spec), ()
    except SpecFaults as faults:
        return None, loaded.source.locate(faults.faults)


def refusal_for(made: ProjectPlan, arch: Sequence[str]) -> str:
    """Why the spec of a plan could not list these architectures, each a fault and its remedy; "" where it could, or for none."""
    if not arch:
        return ""
    try:
        plan(made.spec.model_copy(update={"arch": tuple(arch)}))
    except SpecFaults as error:
        return "; ".join(dict.fromkeys(f"{fault.what}; {fault.remedy}" for fault in error.faults))
    return ""


def _faults(error: UnreadableSpec) -> tuple[Fault, ...]:
    """Further faults: those of planning the rest, or only of the atom if too little is left to plan."""
    try:
        if error.rest:
            plan(error.rest)
        elif error.atom:
            find_atom(error.atom)
    except SpecFaults as faults:
        return faults.faults
    return ()
