"""cp.async.bulk and cp.reduce.async.bulk of consecutive bytes, without a tensor map (PTX ISA 9.7.9.25.4).

Supported are copies from global to shared memory, which complete at an mbarrier, and from shared to global memory, in bulk
groups; those between CTAs of a cluster are not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arrays import Codes, Events, Indices, Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.lanes.cluster_addresses import OFFSET_MASK
from mmagen.emulate.ops.access import Access, split
from mmagen.emulate.ops.emit import Emitter, dtype_of
from mmagen.emulate.ops.halves import half_operation, is_half
from mmagen.emulate.ops.mbarriers import shared_address
from mmagen.emulate.ops.memory import native_address
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.ptx.operands import size_of
from mmagen.emulate.sync.mbarriers import Place

_CHUNK = 16
_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


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
    """[to], [from], bytes and, of a load, [mbarrier]{, ctas}; then a policy that is checked elsewhere."""
    after = i.modifiers.index("bulk") + 1
    to, source = (m.split("::")[0] for m in i.modifiers[after : after + 2])
    first, second = (native_address(e, x) for x in i.operands[:2])
    arguments = f"X, {e.mask}, {e.bind(i)}, {first}, {second}, {e.source(i.operands[2], 'u32')}"
    if i.has("cp_mask") or (to, source) not in (("shared", "global"), ("global", "shared")):
        raise e.unsupported("bulk copies between CTAs, or with a mask of bytes, are not supported")
    if to == "shared":
        ctas = e.source(i.operands[4], "u16") if i.has("multicast::cluster") else "None"
        e.line(f"{e.bind(_load)}({arguments}, {native_address(e, i.operands[3])}, {ctas})")
    else:
        e.line(f"{e.bind(_store)}({arguments}, {e.bind(_reduction(e, i))})")


def _lines(X: Batch, mask: Mask | None, i: Instruction, address: Values, size: Values) -> list[tuple[int, int, int]]:
    """(lane, global address, bytes) of each active lane whose copy is a whole number of chunks."""
    lanes, where = split(X, mask, address)
    result = []
    for lane, at, count in zip(lanes.tolist(), where.tolist(), X.lanes.spread(size)[lanes].tolist(), strict=True):
        if count % _CHUNK or at % _CHUNK:
            text = f"copies {count} bytes at {at:#x}; both must be multiples of 16"
            X.findings.add("misaligned", i, 1, lane, text)
        elif count:
            result.append((lane, at, count))
    return result


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
    access = Access(i, 8, 2, counted=False)
    every = X.lanes.every
    homes, places = (X.mbarriers.places(every, shared_address(X.lanes.spread(x).astype(np.int64))) for x in (shared, barrier))
    for lane, at, count in _lines(X, mask, i, source, size):
        chosen = None if ctas is None else int(X.lanes.spread(ctas)[lane])
        chunks: Indices = at + np.arange(0, count, _CHUNK)
        data: Events = access.gather(X, "global", np.full(len(chunks), lane), chunks)
        X.bulk.load_line(i, lane, data, copy_targets(X, i, lane, homes[lane], places[lane], chosen))


def _store(
    X: Batch,
    mask: Mask | None,
    i: Instruction,
    target: Values,
    shared: Values,
    size: Values,
    reduction: Callable[[Codes, Codes], Codes] | None,
) -> None:
    access = Access(i, 8, 2, atomic=reduction is not None, counted=False)
    offsets = shared_address(X.lanes.spread(shared).astype(np.int64))
    for lane, at, count in _lines(X, mask, i, target, size):
        data = X.bulk.store_line(i, lane, int(offsets[lane]) & OFFSET_MASK, count)
        if data is None:
            continue
        chunks: Indices = at + np.arange(0, count, _CHUNK)
        owner = np.full(len(chunks), lane)
        if reduction is not None:
            before = access.gather(X, "global", owner, chunks)
            data = np.ascontiguousarray(reduction(np.ascontiguousarray(before), data)).view(np.uint64).reshape(-1, 2)
        access.scatter(X, "global", owner, chunks, data)


def _reduction(e: Emitter, i: Instruction) -> Callable[[Codes, Codes], Codes] | None:
    """(what is there, what comes) -> what is to be there, on arrays of uint64; None for a plain copy."""
    if i.modifiers[0] != "reduce":
        return None
    kind, operation = i.type, next((m for m in i.modifiers if m in _REDUCTIONS), "")
    if operation in ("", "inc", "dec") or not size_of(kind):
        raise e.unsupported("this reduction is not supported")
    if is_half(kind):
        halves = half_operation(kind, operation)
        return lambda old, new: halves(old.view(np.uint16), new.view(np.uint16))
    if kind in ("f32", "f64"):
        if operation != "add":
            raise e.unsupported("this reduction is not supported")
        bits = f"u{size_of(kind)}"
        return lambda old, new: numerics.add(old.view(bits), new.view(bits), kind)
    dtype = dtype_of(kind)
    functions = {"add": np.add, "min": np.minimum, "max": np.maximum}
    function = functions.get(operation) or getattr(np, f"bitwise_{operation}")
    return lambda old, new: function(old.view(dtype), new.view(dtype))
