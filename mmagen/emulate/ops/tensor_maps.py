"""tensormap.replace and tensormap.cp_fenceproxy: tensor maps that a kernel changes and publishes. PTX ISA, "tensormap.replace" and
"tensormap.cp_fenceproxy". The maps are the emulator's own description (memory/tensor_map.py)."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.memory.spaces import GLOBAL_BASE
from mmagen.emulate.memory.tensor_map import TensorMap
from mmagen.emulate.ops.access import Access, split
from mmagen.emulate.ops.emit import Emitter, literal, op
from mmagen.emulate.ops.memory import native_address
from mmagen.emulate.ptx.facts import space_of
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.ptx.scopes import scope_of

_FIELDS = ("global_address", "global_dim", "global_stride")
_CHUNK = 4  # bytes of a map that each lane copies


@op("tensormap")
def _tensormap(e: Emitter, i: Instruction) -> None:
    if i.modifiers[0] == "replace":
        _build_replace(e, i)
    elif i.modifiers[0] == "cp_fenceproxy" and i.has("release"):
        _build_copy(e, i)
    else:
        raise e.unsupported("this form of tensormap is not supported")


def _build_replace(e: Emitter, i: Instruction) -> None:
    """tensormap.replace.tile.field{.space}.b1024.type [address]{, mode}, value."""
    field = next((name for name in _FIELDS if i.has(name)), "")
    if not field or not i.has("tile") or not i.has("b1024"):
        raise e.unsupported(f"tensormap.replace is supported of {', '.join(_FIELDS)}")
    mode = literal(i.operands[1]) if field != "global_address" else 0
    value = e.source(i.operands[-1], i.type.replace("b", "u"))
    run, space = e.bind(_Replace(i, field, mode).run), space_of(i)
    e.line(f"{run}(X, {space!r}, {e.mask}, {native_address(e, i.operands[0], space)}, {value})")


class _Replace:
    """One tensormap.replace: a store of eight bytes to the field's place in the description."""

    def __init__(self, i: Instruction, field: str, mode: int):
        self.i, self.field, self.mode = i, field, mode
        self.head = Access(i, 1, TensorMap.HEAD)
        self.access = Access(i, 8, 1)

    def run(self, X: Batch, space: str, mask: Mask | None, address: Values, value: Values) -> None:
        where, lanes = X.lanes.spread(address), X.lanes.of(mask)
        heads = self.head.load(X, space, mask, where)[:, lanes].astype(np.uint8)
        for lane, head in zip(lanes.tolist(), np.ascontiguousarray(heads.T), strict=True):
            rank = TensorMap.rank_of(head.tobytes())
            if self.mode >= (rank - 1 if self.field == "global_stride" else rank):
                raise EmulationError(f"line {self.i.line}: a tensor map of rank {rank} has no {self.field} {self.mode}")
            at = TensorMap.place_of(self.field, self.mode, rank)
            own = np.zeros(X.lanes.size, dtype=np.bool_)
            own[lane] = True
            data = X.lanes.spread(value).astype(np.uint64)
            self.access.store(X, space, own, where + where.dtype.type(at), [data])


def _build_copy(e: Emitter, i: Instruction) -> None:
    """tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [to], [from], 128."""
    if literal(i.operands[2]) != TensorMap.BYTES or not i.has("global") or not i.has("shared::cta"):
        raise e.unsupported("tensormap.cp_fenceproxy copies 128 bytes from shared to global memory")
    target, source = native_address(e, i.operands[0], "global"), native_address(e, i.operands[1], "shared")
    e.line(f"{e.bind(_Copy(i).run)}(X, {e.mask}, {target}, {source})")


class _Copy:
    """The lanes of a warp copy the map together, and make it visible to the tensor map proxy of who acquires it."""

    def __init__(self, i: Instruction):
        self.i, self.access = i, Access(i, _CHUNK, 1)

    def run(self, X: Batch, mask: Mask | None, target: Values, source: Values) -> None:
        lanes, places = split(X, mask, target)
        if mask is not None:
            X.findings.unaligned(self.i, mask)
        starts, firsts = np.unique(places - GLOBAL_BASE, return_index=True)
        for start, first in zip(starts.tolist(), firsts.tolist(), strict=True):
            X.memory.device.note_tensor_map(start, scope_of(self.i), X.lanes.grid_cta(int(lanes[first])))
        step = (np.arange(X.lanes.size) % 32 * _CHUNK).astype(np.uint64)
        data = self.access.load(X, "shared", mask, X.lanes.spread(source).astype(np.uint64) + step)[0]
        self.access.store(X, "global", mask, X.lanes.spread(target).astype(np.uint64) + step, [data])
