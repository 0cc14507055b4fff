"""cp.async and its groups; bulk copies are in bulk.py."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Bytes, Indices, Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.memory.spaces import GLOBAL_BASE
from mmagen.emulate.ops.access import Access, keep_aligned, split
from mmagen.emulate.ops.bulk import build_bulk_copy
from mmagen.emulate.ops.emit import Emitter, literal, op
from mmagen.emulate.ops.mbarriers import shared_address
from mmagen.emulate.ops.memory import native_address
from mmagen.emulate.ptx.model import Immediate, Instruction, Negated, Register


@op("cp")
def _cp(e: Emitter, i: Instruction) -> None:
    if i.modifiers[:2] == ("async", "bulk") or i.modifiers[:3] == ("reduce", "async", "bulk"):
        build_bulk_copy(e, i)
        return
    if i.modifiers[0] != "async":
        raise e.unsupported("this copy is not supported")
    if i.has("mbarrier"):
        where = native_address(e, i.operands[0], "shared")
        e.line(f"{e.bind(_arrive)}(X, {e.mask}, {e.bind(i)}, {where})")
        return
    if i.has("commit_group"):
        e.line(f"X.copies.commit({e.mask})")
    elif i.has("wait_group"):
        e.line(f"X.copies.wait({e.mask}, {literal(i.operands[0])})")
    elif i.has("wait_all"):
        e.line(f"X.copies.wait({e.mask}, None)")
    else:
        _copy(e, i)


def _arrive(X: Batch, mask: Mask | None, i: Instruction, address: Values) -> None:
    """cp.async.mbarrier.arrive{.noinc}{.shared}.b64 [address]."""
    _, where = split(X, mask, address)
    X.copy_arrivals.add(i, mask, shared_address(where), counted=not i.has("noinc"))


def _copy(e: Emitter, i: Instruction) -> None:
    """cp.async d, s, size{, bytes or ignore}{, cache policy}."""
    size = i.operands[2]
    if not isinstance(size, Immediate) or int(size.value) not in (4, 8, 16):
        raise e.unsupported("cp.async copies 4, 8 or 16 bytes")
    extra = list(i.operands[3:])
    if any(m.endswith("cache_hint") for m in i.modifiers):
        extra.pop()
    kept = "None"
    if extra and (isinstance(extra[0], Negated) or (isinstance(extra[0], Register) and extra[0].type == "pred")):
        kept = f"where({e.source(extra[0], 'pred')}, 0, {int(size.value)})"
    elif extra:
        kept = e.source(extra[0], "u32")
    run = e.bind(_Copy(i, int(size.value)).run)
    to = native_address(e, i.operands[0], "shared")
    e.line(f"{run}(X, {e.mask}, {to}, {native_address(e, i.operands[1])}, {kept})")


class _Copy:
    """One cp.async: `size` bytes from global to shared memory, the last of them zeros where fewer are to be read."""

    def __init__(self, i: Instruction, size: int):
        self.i, self.size = i, size
        self.whole = Access(i, min(size, 8), size // min(size, 8))
        self.single = Access(i, 1, 1)

    def run(self, X: Batch, mask: Mask | None, target: Values, source: Values, kept: Values | None) -> None:
        lanes, to = split(X, mask, target)
        start = split(X, mask, source)[1]
        count = None if kept is None else X.lanes.spread(kept)[lanes].astype(np.int64)
        data = self._read(X, lanes, start, count)
        keep = keep_aligned(X, self.i, lanes, to, self.size)
        inside = (to >= 0) & (to <= X.memory.shared.size - self.size)
        if not inside.all():
            bad = np.flatnonzero(~inside)
            text = f"copies {self.size} bytes to shared byte {int(to[bad[0]])}; there are {X.memory.shared.size}"
            X.findings.add("shared_out_of_bounds", self.i, len(bad), int(lanes[bad[0]]), text)
            keep = inside if keep is None else keep & inside
        if keep is not None:
            lanes, to, data, start = lanes[keep], to[keep], data[keep], start[keep]
            count = None if count is None else count[keep]
        if not len(lanes):
            return
        index = X.memory.shared.base[lanes] + to
        if X.hazards.shadow is not None:
            X.hazards.shadow.start_copy(self.i, index, self.size, lanes)
            self.whole.count_warps(X, "shared", lanes, to)
        X.copies.start(lanes, index, data, start - GLOBAL_BASE, count)

    def _read(self, X: Batch, lanes: Indices, source: Indices, count: Indices | None) -> Bytes:
        """uint8[n, size]: what arrives. count: int64[n], how many bytes are read; None for all."""
        if count is None:
            return self._bytes(X, lanes, source)
        data = np.zeros((len(lanes), self.size), dtype=np.uint8)
        full = count == self.size
        if full.any():
            data[full] = self._bytes(X, lanes[full], source[full])
        partial = np.flatnonzero((count > 0) & ~full)
        if len(partial):
            over = partial[count[partial] > self.size]
            if len(over):
                text = f"asks for {int(count[over[0]])} of {self.size} bytes"
                X.findings.add("misaligned", self.i, len(over), int(lanes[over[0]]), text)
            keep_aligned(X, self.i, lanes[partial], source[partial], self.size)
            for byte in range(self.size):
                some = partial[count[partial] > byte]
                if len(some):
                    data[some, byte] = self.single.gather(X, "global", lanes[some], source[some] + byte)[:, 0]
        return data

    def _bytes(self, X: Batch, lanes: Indices, source: Indices) -> Bytes:
        values = self.whole.gather(X, "global", lanes, source)
        return np.ascontiguousarray(values).view(np.uint8).reshape(len(lanes), self.size)
