"""What a kernel costs whatever its problems: bank conflicts of loads from shared memory, and registers that may not suffice. Each
with a change that was tried. Printed by `build`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mmagen import families
from mmagen.core.errors import SpecFaults
from mmagen.core.layout_text import LayoutText
from mmagen.plan import budgets
from mmagen.plan.model import Operand
from mmagen.plan.plans import GemmPlan
from mmagen.plan.project import ProjectPlan
from mmagen.spec.model import Spec

if TYPE_CHECKING:
    from mmagen.plan.bank_conflicts import Passes

Change = dict[str, Any]

# Threads of a quad pair take rows 0 to 3 and 16 to 19: with this permutation a warp's reads are 32 neighbouring rows.
_QUAD_PAIRS = "(4,4,2):(1,8,4)"


def warnings(plan: ProjectPlan) -> Iterator[str]:
    """Sentences, without the name of the spec; of a library with the names of its configs."""
    for name, one in plan.by_kernel.items():
        if isinstance(one, GemmPlan):
            about = f"config {name}, " if name else ""
            yield from (f"{about}{text}" for text in (*_conflicts(one), *_spills(one)))


# --- Bank conflicts --------------------------------------------------------------------------------------------------


def _conflicts(plan: GemmPlan) -> Iterator[str]:
    suspects = [one for one in plan.operands if _may_conflict(one)]
    if not suspects:
        return
    extra = _extra(plan)
    if not extra:
        return
    # Another arrangement may load without conflicts, and more: what counts is how many wavefronts it takes.
    best, least = "", sum(one.taken for one in _loads(plan))
    for change, text in _other_loads(plan):
        other = _planned(plan.spec, change)
        if other is None or _extra(other) > extra / 2:
            continue
        taken, left = sum(one.taken for one in _loads(other)), _extra(other)
        if taken < least:
            best, least = f"{text} {f'leaves {left / extra:.0%} of them' if left else 'avoids them'}", taken
    if best:
        letters = " and ".join(one.letter for one in suspects if _extra(plan, one))
        yield (
            f"loads of {letters} from shared memory have bank conflicts: {extra:.0%} more wavefronts than without, counted from "
            f"the layouts; {best}"
        )


def _may_conflict(operand: Operand) -> bool:
    """ldmatrix reads eight lines of 16 bytes, which a swizzle puts into different banks."""
    load = operand.smem_copy
    return load is not None and not (load.matrices and operand.swizzle.bits)


def _extra(plan: GemmPlan, only: Operand | None = None) -> float:
    """Wavefronts beyond the ideal of loading fragments, as a part of the ideal."""
    found = _loads(plan, only)
    return sum(one.taken - one.ideal for one in found) / sum(one.ideal for one in found)


def _loads(plan: GemmPlan, only: Operand | None = None) -> list[Passes]:
    """One warp's loads of one k block."""
    from mmagen.plan.bank_conflicts import load  # imports the layout algebra, which is slow

    return [load(plan, one) for one in ([only] if only else plan.operands) if one.smem_copy]


def _other_loads(plan: GemmPlan) -> Iterator[tuple[Change, str]]:
    """The same number of atoms in another arrangement, and of quad pairs another order of rows."""
    m, n, k = plan.tiled_mma.atoms
    for rows in range(1, m * n + 1):
        if m * n % rows == 0 and rows != m:
            grid = [rows, m * n // rows, k]
            yield {"atoms_layout": LayoutText.compact((rows, m * n // rows, k))}, f"atoms_layout: {grid}"
    if plan.atom.threads == 8:
        mended = LayoutText.parse(_QUAD_PAIRS)
        for entries in ((mended, None, None), (None, mended, None), (mended, mended, None)):
            written = ", ".join("null" if one is None else f'"{one}"' for one in entries)
            yield {"permutation": entries}, f"permutation: [{written}]"


# --- Registers -------------------------------------------------------------------------------------------------------


def _spills(plan: GemmPlan) -> Iterator[str]:
    """Sums and two k blocks of fragments do not fit, though sums and one do, without which the spec is refused."""
    needed, most = _registers(plan)
    if needed <= most:
        return
    for change, text in _other_tiles(plan):
        other = _planned(plan.spec, change)
        if other and _registers(other)[0] <= _registers(other)[1]:
            yield (
                f"ptxas may spill registers: {plan.accumulator_registers} for sums, {plan.fragment_registers} for two k blocks of "
                f"fragments and about {budgets.REGISTERS_BESIDES} more (an estimate) exceed the {most} of a thread; {text} "
                f"leaves it {_registers(other)[0]}"
            )
            return


def _registers(plan: GemmPlan) -> tuple[int, int]:
    """(needed by a thread, available to it). Rules limit those of wgmma kernels."""
    most = min(budgets.REGISTERS_PER_THREAD, budgets.REGISTERS_PER_SM // (plan.threads * plan.ctas_per_sm) // 8 * 8)
    if not all(one.smem_copy for one in plan.operands):
        return 0, most
    blocks = 1 if plan.tile[2] == plan.tiled_mma.extent[2] else 2
    return plan.accumulator_registers + plan.fragment_registers // 2 * blocks + budgets.REGISTERS_BESIDES, most


def _other_tiles(plan: GemmPlan) -> Iterator[tuple[Change, str]]:
    if plan.ctas_per_sm > 1:
        yield {"ctas_per_sm": plan.ctas_per_sm - 1}, f"ctas_per_sm: {plan.ctas_per_sm - 1}"
    m, n, k = plan.tile
    for tile in ((m, n // 2, k), (m // 2, n, k), (m // 2, n // 2, k)):
        yield {"tile": tile}, f"tile: {list(tile)}"


def _planned(spec: Spec, change: Change) -> GemmPlan | None:
    """The plan of the changed spec; None if it is refused."""
    try:
        made = families.plan(spec.model_copy(update=change))
    except SpecFaults:
        return None
    return made if isinstance(made, GemmPlan) else None
