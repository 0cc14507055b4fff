"""Integer arithmetic with carry: add, sub and mad with .cc, addc, subc, madc (PTX ISA 9.7.2, "Extended-Precision Integer
Arithmetic Instructions"). The carry flag CC.CF of each lane is kept as a special register that PTX cannot name."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Mask, Values
from mmagen.emulate.ops.emit import Emitter, dtype_of, op
from mmagen.emulate.ops.integers import product, unsigned
from mmagen.emulate.ptx.model import Instruction


@op("addc", "subc", "madc")
def build_carry(e: Emitter, i: Instruction) -> None:
    """All of them. The flag is the carry of a sum, and of a difference that of a + ~b + 1: 0 where it borrows. So it is on an
    H200 (tests/emulate/recorded, "addc after sub.cc"); the PTX ISA calls it the borrow."""
    kind = unsigned(i.type)
    if int(kind[1:]) < 32:
        raise e.unsupported("carries of 32 and 64 bits are supported")
    if i.base in ("mad", "madc"):
        expression, _ = product(e, i, i.type)
        first, second = f"({expression}).view({dtype_of(kind)})", e.source(i.operands[3], kind)
    else:
        first, second = (e.source(x, kind) for x in i.operands[1:3])
    flag = e.special("carry")
    function, start = (_difference, 1) if i.base in ("sub", "subc") else (_sum, 0)
    e.line(f"t = {e.bind(function)}({first}, {second}, {flag if i.base.endswith('c') else e.constant(start, 'u4')})")
    e.write(i.operands[0], "t[0]", kind)
    if i.has("cc"):
        e.assign(flag, "t[1]")


def _sum(a: Values, b: Values, carry: Values) -> tuple[Values, Values]:
    """(a + b + carry, the carry out of it)."""
    partial = a + b
    total = partial + carry.astype(a.dtype)
    return total, _flag(partial < a, total < partial)


def _difference(a: Values, b: Values, carry: Values) -> tuple[Values, Values]:
    """(a + ~b + carry, the carry out of it)."""
    return _sum(a, ~b, carry)


def _flag(first: Mask, second: Mask) -> Values:
    return (first | second).astype(np.uint32)
