"""cp.async.bulk and cp.reduce.async.bulk: tensor loads, stores and reductions by TMA, and their groups; those without a tensor
map are in bulk_lines.py."""

from __future__ import annotations

from mmagen.emulate.arrays import Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.memory.tensor_map import TensorMap
from mmagen.emulate.ops.access import split
from mmagen.emulate.ops.bulk_lines import build_bulk_line, copy_targets
from mmagen.emulate.ops.cache_policy import build_bulk_prefetch, coordinates_of, refuse_other_modes, tensor_place
from mmagen.emulate.ops.emit import Emitter, literal
from mmagen.emulate.ops.mbarriers import shared_address
from mmagen.emulate.ops.memory import native_address
from mmagen.emulate.ops.reductions import operation_of, tensor_reduction
from mmagen.emulate.ptx.model import Instruction, Vector


def build_bulk_copy(e: Emitter, i: Instruction) -> None:
    """All forms that begin with cp.async.bulk."""
    if i.has("commit_group"):
        e.line(f"X.bulk.commit({e.mask})")
    elif i.has("wait_group"):
        e.line(f"X.bulk.wait({e.mask}, {literal(i.operands[0])}, {i.has('read')})")
    elif i.has("prefetch"):
        build_bulk_prefetch(e, i)
    elif i.has("tensor"):
        _tensor(e, i)
    else:
        build_bulk_line(e, i)


def _tensor(e: Emitter, i: Instruction) -> None:
    """Loads: [shared], [map, {coordinates}], [mbarrier]{, ctas}{, policy}. Stores and reductions: [map, {coordinates}],
    [shared]{, policy}."""
    refuse_other_modes(e, i)
    loads = i.modifiers[i.modifiers.index("tensor") + 2].startswith("shared")
    places = i.operands[1 if loads else 0]
    if not isinstance(places, Vector):
        raise e.unsupported("a tensor map and coordinates are missing")
    arguments = f"X, {e.mask}, {e.bind(i)}, {tensor_place(e, places)}"
    if not loads:
        operation = e.bind(operation_of(i) if i.modifiers[0] == "reduce" else None)
        e.line(f"{e.bind(_store)}({arguments}, {native_address(e, i.operands[1])}, {operation})")
        return
    ctas = e.source(i.operands[3], "u16") if i.has("multicast::cluster") else "None"
    shared, barrier = (native_address(e, i.operands[n]) for n in (0, 2))
    e.line(f"{e.bind(_load)}({arguments}, {shared}, {barrier}, {ctas})")


def _load(
    X: Batch,
    mask: Mask | None,
    i: Instruction,
    maps: Values,
    at: list[Values],
    shared: Values,
    barrier: Values,
    ctas: Values | None,
) -> None:
    lanes, where = split(X, mask, shared)
    barriers = shared_address(split(X, mask, barrier)[1])
    where, maps = shared_address(where), split(X, mask, maps)[1]
    places = X.mbarriers.places(lanes, barriers)
    homes = X.mbarriers.places(lanes, where)
    masks = None if ctas is None else X.lanes.spread(ctas)[lanes]
    for n, lane in enumerate(lanes.tolist()):
        targets = copy_targets(X, i, lane, homes[n], places[n], None if masks is None else int(masks[n]))
        tensor = X.bulk.tensor(i, lane, int(maps[n]))
        box = coordinates_of(at, lane)
        X.bulk.load(i, lane, tensor, box, targets)
        X.prefetches.load((int(maps[n]), box))
        for _ in targets:
            _count(X, i, tensor)


def _store(
    X: Batch, mask: Mask | None, i: Instruction, maps: Values, at: list[Values], shared: Values, operation: str | None
) -> None:
    lanes, where = split(X, mask, shared)
    where, maps = shared_address(where), split(X, mask, maps)[1]
    for n, lane in enumerate(lanes.tolist()):
        tensor = X.bulk.tensor(i, lane, int(maps[n]))
        function = None if operation is None else tensor_reduction(operation, tensor.kind)
        X.bulk.store(i, lane, tensor, coordinates_of(at, lane), int(where[n]), function)
        _count(X, i, tensor)


def _count(X: Batch, i: Instruction, tensor: TensorMap) -> None:
    if X.hazards.checks:
        X.traffic.count_box(i, tensor.box_bytes, tensor.box[0] * tensor.element)
