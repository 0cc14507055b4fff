"""Which MMA operation a spec begins with: those that multiply the wanted types on the wanted target, the most capable first."""

from __future__ import annotations

from mmagen.core.errors import SpecFaults, UsageError
from mmagen.core.targets import capability
from mmagen.mma import catalogue
from mmagen.mma.atoms import UNIVERSAL_FMA, Atom, find_atom
from mmagen.mma.operation import Operation
from mmagen.suggest.wanted import Wanted

_AREA = 64 * 128  # M x N of the operation to begin with, of those that differ in width alone


def operations(want: Wanted) -> list[Atom]:
    """Atoms of the wanted types, the first choice first. Raises UsageError where there are none, with what there is."""
    types = want.multiplied
    named = [one.name for one in catalogue.operations() if _types(one) == types and one.runs_on(want.arch)]
    found = [atom for name in named if (atom := _atom(name)) and _serves(atom)]
    found += [atom for atom in UNIVERSAL_FMA.values() if _words(atom) == types]
    if not found:
        raise UsageError(_nothing(want))
    return sorted(found, key=lambda atom: _merit(atom, want))


def _merit(atom: Atom, want: Wanted) -> tuple[int, ...]:
    """Smaller is better: threads that share it, of which the faster units take more; the architecture; the layout in its name; its
    size."""
    return -atom.threads, -atom.min_arch, atom.majors != want.layout, abs(atom.m * atom.n - _AREA), -atom.k


def _serves(atom: Atom) -> bool:
    # Sums that saturate, and A in registers, are for those who ask for them.
    return "SATURATE" not in atom.name and not atom.a_in_registers


def _atom(name: str) -> Atom | None:
    try:
        return find_atom(name)
    except SpecFaults:
        return None


def _types(operation: Operation) -> tuple[str, str, str]:
    return operation.type_a, operation.type_b, operation.type_d


def _words(atom: Atom) -> tuple[str, str, str]:
    return atom.type_a.word, atom.type_b.word, atom.type_d.word


def _nothing(want: Wanted) -> str:
    """What is wrong with the wanted types, and the nearest that there are."""
    a, b, sums = want.multiplied
    asked = f"{a} x {b} + {sums}"
    atoms = [atom for one in catalogue.operations() if (atom := _atom(one.name))]
    elsewhere = sorted({atom.default_arch for atom in atoms if _words(atom) == want.multiplied}, key=capability)
    if elsewhere:
        return f"{want.arch} has no MMA operation {asked}; these architectures introduced one: {', '.join(elsewhere)}"
    here = sorted({_words(atom) for atom in atoms if atom.type_a.word == a and _runs(atom, want.arch)})
    listed = "; ".join(f"{of_a} x {of_b} + {of_sums}" for of_a, of_b, of_sums in here)
    return f"no MMA operation computes {asked}; with A of {a}, {want.arch} has {listed or 'none'}"


def _runs(atom: Atom, arch: str) -> bool:
    operation = catalogue.known(atom.name)
    return operation is not None and operation.runs_on(arch)
