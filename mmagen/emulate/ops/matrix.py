"""ldmatrix, stmatrix, movmatrix and mma: registers and addresses to and from the functions that know the fragments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmagen.emulate.arithmetic import matrix_moves, mma
from mmagen.emulate.arithmetic.fragments import fragment_of
from mmagen.emulate.arrays import Bytes, Indices, Mask, Values, Words
from mmagen.emulate.batch import Batch
from mmagen.emulate.memory.spaces import SHARED_WINDOW
from mmagen.emulate.ops.access import Access
from mmagen.emulate.ops.convergence import spread_warps, warps_of
from mmagen.emulate.ops.emit import Emitter, op
from mmagen.emulate.ops.memory import native_address
from mmagen.emulate.ptx.facts import space_of
from mmagen.emulate.ptx.model import Immediate, Instruction, elements_of


@op("ldmatrix", warp_wide=True)
def _ldmatrix(e: Emitter, i: Instruction) -> None:
    if not (i.has("m8n8") and i.has("b16")):
        raise e.unsupported("only the m8n8.b16 form of ldmatrix is supported")
    access = _Rows(i)
    targets = elements_of(i.operands[0])

    def run(X: Batch, mask: Mask | None, address: Values) -> list[Values]:
        return access.load(X, mask, address, len(targets), i.has("trans"))

    e.line(f"t = {e.bind(run)}(X, {e.mask}, {native_address(e, i.operands[1], space_of(i))})")
    for n, target in enumerate(targets):
        e.write(target, f"t[{n}]", "u32")


@op("stmatrix", warp_wide=True)
def _stmatrix(e: Emitter, i: Instruction) -> None:
    if not (i.has("m8n8") and i.has("b16")):
        raise e.unsupported("only the m8n8.b16 form of stmatrix is supported")
    access = _Rows(i)

    def run(X: Batch, mask: Mask | None, address: Values, values: list[Values]) -> None:
        access.store(X, mask, address, values, i.has("trans"))

    values = ", ".join(e.source(x, "u32") for x in elements_of(i.operands[1]))
    e.line(f"{e.bind(run)}(X, {e.mask}, {native_address(e, i.operands[0], space_of(i))}, [{values}])")


class _Rows:
    """ldmatrix and stmatrix: rows of 16 bytes at addresses in the lanes of a warp."""

    def __init__(self, i: Instruction):
        self.i = i
        # Counted here, where the rows of a pass are known.
        self.access = Access(i, 8, 2, counted=False)
        self.generic = space_of(i) == "generic"

    def _places(self, X: Batch, mask: Mask | None, address: Values) -> tuple[Indices | None, Indices, Indices]:
        """(warps that take part or None for all, lanes int64[w, 32], addresses int64[w, 32])."""
        warps = warps_of(X, mask, self.i)
        lanes, where = X.lanes.every.reshape(-1, 32), X.lanes.spread(address).astype(np.int64).reshape(-1, 32)
        if self.generic:
            where = where - SHARED_WINDOW
        return (None, lanes, where) if warps is None else (warps, lanes[warps], where[warps])

    def _count(self, X: Batch, where: Indices) -> None:
        if X.hazards.shadow is not None:
            X.traffic.count_shared(self.i, np.ascontiguousarray(where), None, 16)

    def load(self, X: Batch, mask: Mask | None, address: Values, count: int, trans: bool) -> list[Values]:
        """The destination registers, uint32[lanes] each."""
        warps, lanes, where = self._places(X, mask, address)

        def load16(rows: Indices) -> Bytes:
            self._count(X, rows)
            owner = np.ascontiguousarray(lanes[:, : rows.shape[1]]).reshape(-1)
            values = self.access.gather(X, "shared", owner, np.ascontiguousarray(rows).reshape(-1))
            return np.ascontiguousarray(values).view(np.uint8).reshape(*rows.shape, 16)

        return [spread_warps(X, warps, r) for r in matrix_moves.ldmatrix(load16, where, count, trans)]

    def store(self, X: Batch, mask: Mask | None, address: Values, values: list[Values], trans: bool) -> None:
        warps, lanes, where = self._places(X, mask, address)

        def store16(rows: Indices, data: Bytes) -> None:
            self._count(X, rows)
            owner = np.ascontiguousarray(lanes[:, : rows.shape[1]]).reshape(-1)
            words = np.ascontiguousarray(data).reshape(-1, 16).view(np.uint64)
            self.access.scatter(X, "shared", owner, np.ascontiguousarray(rows).reshape(-1), words)

        registers = [X.lanes.spread(v).reshape(-1, 32) for v in values]
        matrix_moves.stmatrix(store16, where, [r if warps is None else r[warps] for r in registers], trans)


@op("movmatrix", warp_wide=True)
def _movmatrix(e: Emitter, i: Instruction) -> None:
    def run(X: Batch, mask: Mask | None, a: Values) -> Values:
        warps_of(X, mask, i)
        return matrix_moves.movmatrix(X.lanes.spread(a).reshape(-1, 32)).reshape(-1)

    e.write(i.operands[0], f"{e.bind(run)}(X, {e.mask}, {e.source(i.operands[1], 'u32')})", "u32")


@op("mma", warp_wide=True)
def _mma(e: Emitter, i: Instruction) -> None:
    # f64 fragments are the only ones with 64-bit registers.
    bits = "u64" if "f64" in i.modifiers else "u32"
    form = mma.parse(i.modifiers)
    for name, operand, layout in zip("DABC", i.operands, form.layouts, strict=False):
        if len(elements_of(operand)) != (wanted := fragment_of(*layout).registers):
            raise e.unsupported(f"{name} has {len(elements_of(operand))} registers, not {wanted}")
    sparse = i.modifiers[0].startswith("sp")
    fragments = [[e.source(x, bits) for x in elements_of(operand)] for operand in i.operands[1:4]]
    lists = ", ".join(f"[{', '.join(f)}]" for f in fragments)
    metadata = e.source(i.operands[4], "u32") if sparse else "None"
    selector = i.operands[5] if sparse else Immediate(0)
    if not isinstance(selector, Immediate):
        raise e.unsupported("the sparsity selector is a literal")
    run = e.bind(_multiplier(i, int(selector.value)))
    e.line(f"t = {run}(X, {e.mask}, {lists}, {metadata})")
    for n, target in enumerate(elements_of(i.operands[0])):
        e.write(target, f"t[{n}]", bits)


def _multiplier(i: Instruction, selector: int) -> Callable[..., list[Values]]:
    def run(
        X: Batch, mask: Mask | None, a: list[Values], b: list[Values], c: list[Values], metadata: Words | None
    ) -> list[Values]:
        warps = warps_of(X, mask, i)
        if X.trace:
            X.trace.of_mask("mma", mask)

        def shaped(values: Values) -> Values:
            table = X.lanes.spread(values).reshape(-1, 32)
            return table if warps is None else table[warps]

        left, right, start = ([shaped(r) for r in registers] for registers in (a, b, c))
        chosen = None if metadata is None else shaped(metadata)
        return [spread_warps(X, warps, r) for r in mma.mma(i.modifiers, left, right, start, chosen, selector)]

    return run
