"""cp.async.bulk and cp.reduce.async.bulk of consecutive bytes, without a tensor map (PTX ISA 9.7.9.25.4).

Copies from global to shared memory and from the shared memory of a CTA to that of another complete at an mbarrier, those from
shared to global memory in bulk groups.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Mask, Reduction, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.lanes.cluster_addresses import OFFSET_MASK
from mmagen.emulate.ops.access import split
from mmagen.emulate.ops.emit import Emitter
from mmagen.emulate.ops.mbarriers import shared_address
from mmagen.emulate.ops.memory import native_address
from mmagen.emulate.ops.reductions import operation_of, reduction
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.sync.mbarrier import Place

_CHUNK = 16


def copy_targets(X: Batch, i: Instruction, lane: int, home: Place, barrier: Place, ctas: int | None) -> list[tuple[int, Place]]:
    """(byte of shared memory, mbarrier) in each CTA that a load goes to. home, barrier: (CTA, byte) as its operands say; ctas:
    the mask of a multicast, None without."""
    if ctas is None:
        if home[0] != barrier[0]:
            X.findings.add("mbarrier", i, 1, lane, "loads into one CTA and reports to the mbarrier of another")
            return []
        return [(home[1], barrier)]
    size = X.lanes.cluster
    first = int(X.lanes.cta[lane]) // size * size
    chosen = [rank for rank in range(16) if ctas >> rank & 1]
    if not chosen or chosen[-1] >= size:
        X.findings.add("shared_out_of_bounds", i, 1, lane, f"loads for CTAs {chosen} of a cluster of {size}")
        chosen = [rank for rank in chosen if rank < size]
    return [(home[1], (first + rank, barrier[1] & OFFSET_MASK)) for rank in chosen]


def build_bulk_line(e: Emitter, i: Instruction) -> None:
    """[to], [from], bytes and, of what goes to shared memory, [mbarrier]{, ctas}; then a policy that is checked elsewhere."""
    after = i.modifiers.index("bulk") + 1
    to, source = (m.split("::")[0] for m in i.modifiers[after : after + 2])
    first, second = (native_address(e, x) for x in i.operands[:2])
    arguments = f"X, {e.mask}, {e.bind(i)}, {first}, {second}, {e.source(i.operands[2], 'u32')}"
    if i.has("cp_mask"):
        raise e.unsupported("bulk copies with a mask of bytes need sm_100")
    reduces = i.modifiers[0] == "reduce"
    function = reduction(operation_of(i), i.type, "global" if to == "global" else "shared") if reduces else None
    if (to, source) == ("shared", "global"):
        ctas = e.source(i.operands[4], "u16") if i.has("multicast::cluster") else "None"
        e.line(f"{e.bind(_load)}({arguments}, {native_address(e, i.operands[3])}, {ctas})")
    elif (to, source) == ("shared", "shared"):
        e.line(f"{e.bind(_send)}({arguments}, {native_address(e, i.operands[3])}, {e.bind(function)})")
    elif (to, source) == ("global", "shared"):
        e.line(f"{e.bind(_store)}({arguments}, {e.bind(function)})")
    else:
        raise e.unsupported("this bulk copy is not supported")


def _lines(X: Batch, mask: Mask | None, i: Instruction, address: Values, size: Values) -> list[tuple[int, int, int]]:
    """(lane, address, bytes) of each active lane whose copy is a whole number of chunks."""
    lanes, where = split(X, mask, address)
    result = []
    for lane, at, count in zip(lanes.tolist(), where.tolist(), X.lanes.spread(size)[lanes].tolist(), strict=True):
        if count % _CHUNK or at % _CHUNK:
            text = f"copies {count} bytes at {at:#x}; both must be multiples of 16"
            X.findings.add("misaligned", i, 1, lane, text)
        elif count:
            result.append((lane, at, count))
    return result


def _places(X: Batch, address: Values) -> list[Place]:
    """The place of each lane's address in the shared memory of the cluster."""
    return X.mbarriers.places(X.lanes.every, shared_address(X.lanes.spread(address).astype(np.int64)))


def _load(
    X: Batch,
    mask: Mask | None,
    i: Instruction,
    shared: Values,
    source: Values,
    size: Values,
    barrier: Values,
    ctas: Values | None,
) -> None:
    homes, places = _places(X, shared), _places(X, barrier)
    for lane, at, count in _lines(X, mask, i, source, size):
        chosen = None if ctas is None else int(X.lanes.spread(ctas)[lane])
        X.bulk.load_line(i, lane, at, count, copy_targets(X, i, lane, homes[lane], places[lane], chosen))


def _send(
    X: Batch,
    mask: Mask | None,
    i: Instruction,
    target: Values,
    source: Values,
    size: Values,
    barrier: Values,
    function: Reduction | None,
) -> None:
    homes, places = _places(X, target), _places(X, barrier)
    for lane, at, count in _lines(X, mask, i, source, size):
        own = int(X.lanes.cta[lane])
        if homes[lane][0] == own:
            text = "copies from shared memory to that of its own CTA; it has to be another CTA's of the cluster"
            X.findings.add("shared_out_of_bounds", i, 1, lane, text)
            continue
        for to in copy_targets(X, i, lane, homes[lane], places[lane], None):
            X.bulk.send_line(i, lane, at & OFFSET_MASK, count, to, function)


def _store(
    X: Batch,
    mask: Mask | None,
    i: Instruction,
    target: Values,
    shared: Values,
    size: Values,
    function: Reduction | None,
) -> None:
    offsets = shared_address(X.lanes.spread(shared).astype(np.int64))
    for lane, at, count in _lines(X, mask, i, target, size):
        X.bulk.store_line(i, lane, at, int(offsets[lane]) & OFFSET_MASK, count, function)
