"""Properties of single instructions: the space, type and size of an access, and how it synchronises."""

from __future__ import annotations

import re

from mmagen.emulate.ptx.model import Immediate, Instruction, Operand
from mmagen.emulate.ptx.operands import size_of
from mmagen.emulate.ptx.scopes import CTA, scope_of
from mmagen.emulate.ptx.wmma import transfer_of

_STRONG = ("acquire", "release", "acq_rel", "relaxed", "volatile")
_MEMBER_MASKS = {"bar": 0, "barrier": 0, "shfl": 4, "vote": 2, "match": 2, "redux": 2, "elect": 1}
_ALL_LANES = 0xFFFFFFFF
_PHASE_WAITS = ("test_wait", "try_wait")


def vector_of(i: Instruction) -> tuple[str, int]:
    """(element type, elements) of a load or store."""
    found = next((m for m in i.modifiers if re.fullmatch(r"v[248]", m)), None)
    return i.type, int(found[1]) if found else 1


def is_asynchronous(i: Instruction) -> bool:
    """Does the instruction need more than barriers of all threads of a CTA to be ordered, or is it a barrier of some of them? A
    fence beyond the CTA is for flags."""
    flag = i.base in ("ld", "st", "atom", "red") and any(i.has(word) for word in _STRONG) and space_of(i) != "shared"
    fence = i.base in ("fence", "membar") and scope_of(i) > CTA
    copy = i.modifiers[:2] in (("async", "bulk"), ("async", "mbarrier"), ("reduce", "async"))
    store = i.base in ("st", "red") and i.has("async")
    return i.base in ("mbarrier", "wgmma") or copy or store or flag or fence or _is_of_some(i)


def _is_of_some(i: Instruction) -> bool:
    """Is it a barrier of a CTA that names how many threads it is for?"""
    if i.base not in ("bar", "barrier") or i.has("warp") or i.has("cluster"):
        return False
    others = 3 if i.has("red") else 1  # operands: the number and, of a reduction, the result and a predicate
    return len(i.operands) > others


def access_size(i: Instruction) -> int:
    """Bytes that one lane of a memory instruction touches at once; 0 for other instructions."""
    if i.base in ("ld", "ldu", "st", "atom", "red"):
        kind, count = vector_of(i)
        return (size_of(kind) or 0) * count
    if i.base in ("ldmatrix", "stmatrix"):
        return 16
    if i.base == "wmma" and not i.has("mma"):
        return transfer_of(i.modifiers).bytes_together
    if i.base == "cp" and i.has("async") and len(i.operands) >= 3:
        return int(getattr(i.operands[2], "value", 0))
    return 0


def space_of(i: Instruction) -> str:
    """The state space that a load, store or atomic names; "generic" for none."""
    for modifier in i.modifiers:
        name = modifier.split("::")[0]
        if name in ("global", "shared", "local", "param", "const"):
            return name
    return "generic"


def may_access(i: Instruction, space: str) -> bool:
    if i.base == "cp":
        return True
    return space_of(i) in (space, "generic", "const" if space == "global" else space)


def is_strong(i: Instruction) -> bool:
    """Does the access take part in synchronisation, so that two of them are no race?"""
    return i.base in ("atom", "red") or any(i.has(word) for word in _STRONG)


def is_read_only(i: Instruction) -> bool:
    """Does the load require that nothing writes its memory while the kernel runs (PTX ISA, "ld.global.nc" and "ldu")?"""
    return i.base == "ldu" or (i.base == "ld" and i.has("nc"))


def is_warp_barrier(i: Instruction) -> bool:
    """bar.warp.sync, which orders the lanes of a warp only."""
    return i.base in ("bar", "barrier") and bool(i.modifiers) and i.modifiers[0] == "warp"


def is_map_copy(i: Instruction) -> bool:
    """tensormap.cp_fenceproxy, which the lanes of a warp execute together."""
    return i.base == "tensormap" and i.has("aligned")


def names_members(i: Instruction) -> bool:
    """Does the instruction synchronise lanes of a warp that one of its operands names?"""
    if i.base in ("bar", "barrier") and not is_warp_barrier(i):
        return False
    return i.has("sync") or i.base == "elect" if len(i.operands) > _MEMBER_MASKS.get(i.base, len(i.operands)) else False


def member_mask(i: Instruction) -> Operand | None:
    """The operand that names the lanes which execute an instruction together; None where it has none or it is a literal of
    all 32."""
    if not names_members(i):
        return None
    mask = i.operands[_MEMBER_MASKS[i.base]]
    return None if isinstance(mask, Immediate) and int(mask.value) & _ALL_LANES == _ALL_LANES else mask


def is_aligned_arrival(i: Instruction) -> bool:
    """An arrival at a barrier of the CTA or the cluster that all threads of the warp have to execute together."""
    if i.base == "bar":
        return i.has("arrive")
    return i.base == "barrier" and i.has("arrive") and i.has("aligned")


def is_phase_wait(i: Instruction) -> bool:
    """A wait for the phase of an mbarrier."""
    return i.base == "mbarrier" and i.modifiers[0] in _PHASE_WAITS


def is_poll(i: Instruction) -> bool:
    """A load from global memory that other threads may be writing to: in a loop, it waits for them."""
    return i.base == "ld" and any(map(i.has, ("acquire", "relaxed", "volatile"))) and space_of(i) in ("global", "generic")
