"""st, st.async and red.async (PTX ISA 9.7.9.11, 9.7.9.12, 9.7.13.7)."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Codes, Mask, Reduction, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.ops.access import split
from mmagen.emulate.ops.emit import Emitter, op
from mmagen.emulate.ops.mbarriers import shared_address
from mmagen.emulate.ops.memory import build_store, native_address
from mmagen.emulate.ops.reductions import operation_of, reduction
from mmagen.emulate.ptx.facts import space_of, vector_of
from mmagen.emulate.ptx.model import Instruction, elements_of
from mmagen.emulate.ptx.operands import size_of


@op("st")
def _store(e: Emitter, i: Instruction) -> None:
    if i.has("async"):
        build_remote_store(e, i)
    else:
        build_store(e, i)


def build_remote_store(e: Emitter, i: Instruction) -> None:
    """st.async and red.async [address], value or vector, [mbarrier]."""
    kind, _ = vector_of(i)
    if space_of(i) == "global" or len(i.operands) != 3:
        raise e.unsupported("asynchronous stores to global memory need sm_100; to shared memory they have an mbarrier")
    width = size_of(kind) or 0
    if width not in (4, 8):
        raise e.unsupported("asynchronous stores have elements of 4 or 8 bytes")
    function = reduction(operation_of(i), kind, "shared") if i.base == "red" else None
    values = ", ".join(e.source(x, f"u{8 * width}") for x in elements_of(i.operands[1]))
    where, barrier = (native_address(e, i.operands[n]) for n in (0, 2))
    e.line(f"{e.bind(_start)}(X, {e.mask}, {e.bind(i)}, {where}, {barrier}, [{values}], {e.bind(function)})")


def _start(
    X: Batch,
    mask: Mask | None,
    i: Instruction,
    where: Values,
    barrier: Values,
    values: list[Codes],
    function: Reduction | None,
) -> None:
    lanes, addresses = split(X, mask, where)
    barriers = shared_address(split(X, mask, barrier)[1])
    data = np.stack([X.lanes.spread(v) for v in values], axis=1)[lanes]
    X.remote_stores.start(i, lanes, shared_address(addresses), barriers, data, function)
