"""The atoms that kernels are built from, by what reads their operands."""

from __future__ import annotations

from mmagen.core.errors import SpecFaults
from mmagen.mma.atoms import UNIVERSAL_FMA, Atom, atom_of, find_atom
from mmagen.mma.catalogue import operations
from mmagen.plan.mma_sync import builds_from


def _built(name: str) -> bool:
    try:
        return builds_from(name)
    except SpecFaults:  # an operation that cannot be assembled
        return False


# Operands in registers.
ATOMS: dict[str, Atom] = UNIVERSAL_FMA | {o.name: atom for o in operations() if _built(o.name) and (atom := atom_of(o))}
# Operands in shared memory.
WGMMA_NAMES = [o.name for o in operations() if o.kind == "wgmma" and not o.sparse]


def atom_named(name: str) -> Atom:
    """The atom of a name that is one."""
    atom = find_atom(name)
    assert atom, name
    return atom
