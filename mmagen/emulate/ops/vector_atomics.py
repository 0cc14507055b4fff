"""atom and red on vectors and on 16-bit floats (PTX ISA 9.7.13.5 "atom", 9.7.13.6 "red").

A vector is as many atomic operations as it has elements, in any order; each lane is served after the one before it. Of the
float forms f32's add in global memory flushes subnormal numbers, the ones with .noftz and f64's add do not.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arrays import Codes, Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.ops.access import Access
from mmagen.emulate.ops.emit import Emitter, op
from mmagen.emulate.ops.halves import half_operation, is_half
from mmagen.emulate.ops.memory import build_atomic, native_address
from mmagen.emulate.ops.remote_stores import build_remote_store
from mmagen.emulate.ptx.facts import space_of, vector_of
from mmagen.emulate.ptx.model import Instruction, elements_of
from mmagen.emulate.ptx.operands import size_of


@op("atom", "red")
def _atomic(e: Emitter, i: Instruction) -> None:
    kind, count = vector_of(i)
    if i.has("async"):
        build_remote_store(e, i)
        return
    if count == 1 and not is_half(kind):
        build_atomic(e, i)
        return
    operation = next((m for m in i.modifiers if m in ("add", "min", "max")), None)
    if operation is None or not (is_half(kind) or (kind == "f32" and operation == "add")):
        raise e.unsupported("this atomic operation is not supported")
    returns = i.base == "atom"
    address, value = i.operands[1 if returns else 0], i.operands[2 if returns else 1]
    bits = f"u{8 * (size_of(kind) or 0)}"
    values = ", ".join(e.source(x, bits) for x in elements_of(value))
    run = e.bind(_FloatAtomic(i, operation, kind, count).run)
    call = f"{run}(X, {space_of(i)!r}, {e.mask}, {native_address(e, address)}, [{values}])"
    if not returns:
        e.line(call)
        return
    e.line(f"t = {call}")
    for n, target in enumerate(elements_of(i.operands[0])):
        e.write(target, f"t[{n}]", bits)


class _FloatAtomic:
    """Lane after lane, as one of the orders that the hardware may choose."""

    def __init__(self, i: Instruction, operation: str, kind: str, count: int):
        self.width = size_of(kind) or 0
        self.kind, self.operation = kind, operation
        self.access = Access(i, self.width, count, atomic=True)

    def run(self, X: Batch, space: str, mask: Mask | None, address: Values, values: list[Values]) -> Codes:
        """[elements, lanes]: the codes from before."""
        data = np.stack([X.lanes.spread(v) for v in values], axis=1)
        before = np.zeros((len(values), X.lanes.size), dtype=data.dtype)
        for part, lanes, where in self.access.parts(X, space, mask, address):
            keep, index = self.access.locate(X, part, lanes, where, writing=True)
            lanes = lanes if keep is None else lanes[keep]
            cells = X.memory.shared.bytes if part == "shared" else X.memory.device.flat()
            cells = cells[: len(cells) // self.width * self.width].view(data.dtype)
            X.memory.device.writes += 1
            for lane, first in zip(lanes.tolist(), (index // self.width).tolist(), strict=True):
                old = cells[first : first + len(values)].copy()
                before[:, lane] = old
                cells[first : first + len(values)] = self._result(old, data[lane], part)
        return before

    def _result(self, old: Codes, new: Codes, space: str) -> Codes:
        if self.kind == "f32":
            return numerics.add(old, new, "f32", ftz=space == "global")
        return half_operation(self.kind, self.operation)(old, new)
