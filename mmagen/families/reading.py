"""A spec file to a plan, with everything that is wrong with it in one go."""

from __future__ import annotations

from mmagen.core.errors import Diagnostic, Fault, SpecFaults
from mmagen.families import plan
from mmagen.families.plans import Plan
from mmagen.mma.atoms import find_atom
from mmagen.spec.load import UnreadableSpec, load


def read(data: bytes | str, file: str) -> tuple[Plan | None, tuple[Diagnostic, ...]]:
    """The plan of the spec in `data`, or None and every fault with its place.

    A spec that has wrong keys or values is planned without them, so that faults of its atom, tile and problems are found
    in the same run. file: a label for messages.
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


def _faults(error: UnreadableSpec) -> tuple[Fault, ...]:
    """What is wrong besides: all that a plan of the rest finds, or with its atom where too little is left for a plan."""
    try:
        if error.rest:
            plan(error.rest)
        elif error.atom:
            find_atom(error.atom)
    except SpecFaults as faults:
        return faults.faults
    return ()
