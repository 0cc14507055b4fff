"""Scopes of memory operations: the threads among which one synchronises (PTX ISA, "Scope")."""

from __future__ import annotations

from mmagen.emulate.ptx.model import Instruction

CTA, CLUSTER, GPU = 0, 1, 2
"""In order of size. A system's other devices are not emulated: .sys is .gpu."""
_NAMES = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "gl": GPU, "sys": GPU}


def named_scope(i: Instruction) -> int | None:
    """The scope that an instruction names, None for none."""
    return next((_NAMES[word] for word in i.modifiers if word in _NAMES), None)


def scope_of(i: Instruction) -> int:
    """The scope of a fence or of a strong access to memory; without a name it is that of the GPU, as for atomics."""
    named = named_scope(i)
    return GPU if named is None else named


def reaches(scope: int, one: int, other: int, cluster: int) -> bool:
    """Whether a thread's scope includes another thread; one, other: their CTAs of the grid, cluster: CTAs of a cluster."""
    return scope >= GPU or one == other or (scope == CLUSTER and one // cluster == other // cluster)
