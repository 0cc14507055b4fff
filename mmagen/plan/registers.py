"""An estimate of the registers that ptxas takes for a kernel, where launch bounds and setmaxnreg do not decide them."""

from __future__ import annotations

from mmagen.plan import budgets
from mmagen.plan.operations import SUMS
from mmagen.plan.plans import GemmPlan

# Registers of a thread besides accumulators and fragments: addresses, loop state, what an epilogue holds. This and what follows
# is what the kernels of docs/results/h200-predictions.md have in common; rules go by budgets.REGISTERS_BESIDES, which is less.
_BESIDES = 44
_METADATA = 16  # of a sparse A: metadata, and where to read them
_GATHERING = ("amax", *SUMS)
_GATHERED = 16  # of magnitudes and sums that an epilogue gathers
_BYTES = 56  # fragments of bytes that lie apart in shared memory and are put together one by one
_SINGLE_BYTES = 20  # staged bytes that are loaded one by one: a register each until they are put together, and their addresses


def estimated(plan: GemmPlan, fragments: int) -> int:
    """32-bit registers per thread, at most those that a thread can have; launch bounds may leave fewer. fragments: registers of
    fragments that are held at once."""
    found = plan.accumulator_registers + fragments + _BESIDES
    if any(operand.kept != operand.group for operand in plan.operands):
        found += _METADATA
    if any(operation.word in _GATHERING for operation in plan.epilogue.operations):
        found += _GATHERED
    copies = [(operand.element.bytes, operand.smem_copy) for operand in plan.operands if operand.smem_copy]
    if any(size == 1 and copy.matrices == 0 and copy.elements == 1 for size, copy in copies):
        found += _BYTES
    if plan.mainloop.cxx == "MainloopRegisterStaged":  # the next k tile waits in registers, with its addresses
        (m, n, k), (a, b) = plan.tile, (operand.element.bytes for operand in plan.operands)
        staged = (m * a + n * b) * k // plan.threads // 4
        found += 2 * staged + (4 * staged + _SINGLE_BYTES if a == b == 1 else 0)
    return min(found, budgets.REGISTERS_PER_THREAD)
