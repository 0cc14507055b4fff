"""What a library's own host code does with operands that TMA cannot address: whether it copies them first, or loads them by threads
or by the kernel for few rows."""

from __future__ import annotations

from itertools import product

from mmagen.plan.copies import Loads, loads
from mmagen.spec.model import Problem
from mmagen.verify.emulated.choices import arguments_of
from mmagen.verify.emulated.interface import Interface

_EXTENTS = (1, 9, 16, 17, 136, 1000, 8191)
_PITCH = 1 << 14  # elements, of further tensors, whose lines are no longer
_KERNELS = {
    "copy_operands_kernel": Loads.COPIES,
    "sm90_few_rows_kernel": Loads.FEW_ROWS,
    "sm90_unaligned_kernel": Loads.THREADS,
}


def wrong(interface: Interface) -> list[str]:
    """The calls whose operands a library loads otherwise than planned, in words; [] of one that copies none."""
    library = interface.task.library
    if not library or not library.copies_operands:
        return []
    pairs = library.facts.columns_of_element  # of which N is a multiple
    problems = [Problem(shape=(m, n * pairs, k), ld_pad=1) for m, n, k in product(_EXTENTS, repeat=3)]
    pitches = {f"ld_{one.name}": _PITCH for one in library.arguments.tensors if one.pitched}
    found = []
    for room, text in ((True, ""), (False, " without a workspace")):
        none = {} if room else {"workspace": 0, "workspace_bytes": 0}
        calls = [interface.calls.arguments({**pitches, **arguments_of(library, one), **none}) for one in problems]
        launched = interface.launches(calls, interface.task.symbol("run"))
        for problem, launches in zip(problems, launched, strict=True):
            said, planned = _loads([one.entry for one in launches]), loads(library, problem, room)
            if said != planned:
                found.append(f"operands of {problem.text}{text} are loaded {said.value}, planned is: {planned.value}")
    return found


def _loads(entries: list[str]) -> Loads:
    """By the first kernel that is launched."""
    return next((way for kernel, way in _KERNELS.items() if entries and kernel in entries[0]), Loads.TMA)
