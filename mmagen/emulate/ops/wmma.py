"""wmma.load, wmma.store and wmma.mma: matrices of a warp in memory and in fragments whose layout PTX leaves open."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mmagen.emulate.arithmetic import mma
from mmagen.emulate.arrays import Bytes, Indices, Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.ops.access import Access
from mmagen.emulate.ops.convergence import spread_warps, warps_of
from mmagen.emulate.ops.emit import Emitter, op
from mmagen.emulate.ops.memory import native_address
from mmagen.emulate.ptx.facts import space_of
from mmagen.emulate.ptx.model import Immediate, Instruction, elements_of
from mmagen.emulate.ptx.wmma import WARP, Fragment, Transfer, product_of, transfer_of


@op("wmma", warp_wide=True)
def _wmma(e: Emitter, i: Instruction) -> None:
    {"load": _load, "store": _store}.get(i.modifiers[0], _multiply)(e, i)


def _load(e: Emitter, i: Instruction) -> None:
    moved = _Moved(i, transfer_of(i.modifiers))
    targets = elements_of(i.operands[0])
    _check_registers(i, moved.fragment, len(targets))
    where = native_address(e, i.operands[1], space_of(i))
    e.line(f"t = {e.bind(moved.load)}(X, {e.mask}, {where}, {_stride(e, i, moved.transfer)})")
    for n, target in enumerate(targets):
        e.write(target, f"t[{n % moved.fragment.held}]", _register(moved.fragment))


def _store(e: Emitter, i: Instruction) -> None:
    moved = _Moved(i, transfer_of(i.modifiers))
    sources = elements_of(i.operands[1])
    _check_registers(i, moved.fragment, len(sources))
    values = ", ".join(e.source(x, _register(moved.fragment)) for x in sources)
    where = native_address(e, i.operands[0], space_of(i))
    e.line(f"{e.bind(moved.store)}(X, {e.mask}, {where}, {_stride(e, i, moved.transfer)}, [{values}])")


def _multiply(e: Emitter, i: Instruction) -> None:
    product = product_of(i.modifiers)
    lists = []
    for operand, fragment in zip(i.operands[1:], (product.a, product.b, product.c), strict=True):
        registers = elements_of(operand)
        _check_registers(i, fragment, len(registers))
        lists.append(f"[{', '.join(e.source(x, _register(fragment)) for x in registers[: fragment.held])}]")
    m, n, k = product.shape
    form = mma.Form(m, n, k, product.types, ((), (), (), ()), 1, product.operation, product.saturate, False)

    def run(X: Batch, mask: Mask | None, a: list[Values], b: list[Values], c: list[Values]) -> list[Values]:
        warps = warps_of(X, mask, i)
        codes = [
            _matrices(X, warps, registers, fragment) for registers, fragment in ((a, product.a), (b, product.b), (c, product.c))
        ]
        left, right = (mma.values_of(one, kind) for one, kind in zip(codes, product.types[1:3], strict=False))
        return _registers(X, warps, mma.accumulate(form, left, right, codes[2]), product.d)

    e.line(f"t = {e.bind(run)}(X, {e.mask}, {', '.join(lists)})")
    targets = elements_of(i.operands[0])
    _check_registers(i, product.d, len(targets))
    for number, target in enumerate(targets):
        e.write(target, f"t[{number}]", _register(product.d))


def _register(fragment: Fragment) -> str:
    return "u64" if fragment.bits == 64 else "u32"


def _check_registers(i: Instruction, fragment: Fragment, count: int) -> None:
    if count != fragment.registers:
        raise _wrong(i, f"a fragment has {count} registers, not {fragment.registers}")


def _wrong(i: Instruction, text: str) -> EmulationError:
    return EmulationError(f"{i.base}.{'.'.join(i.modifiers)}: {text}")


def _stride(e: Emitter, i: Instruction, transfer: Transfer) -> str:
    return e.source(i.operands[2] if len(i.operands) > 2 else Immediate(transfer.extent), "u32")


def _matrices(X: Batch, warps: Indices | None, registers: list[Values], fragment: Fragment) -> Values:
    """Codes [w, rows, columns] of the warps that take part; 4-bit and 1-bit elements in a byte each."""
    table = np.stack([X.lanes.spread(one).reshape(-1, WARP) for one in registers], axis=2)
    words = np.ascontiguousarray(table if warps is None else table[warps]).reshape(-1, WARP * len(registers))
    codes = mma.unpacked(words, fragment.bits)
    if fragment.by_rows:
        return codes.reshape(-1, fragment.rows, fragment.columns)
    return np.ascontiguousarray(codes.reshape(-1, fragment.columns, fragment.rows).transpose(0, 2, 1))


def _registers(X: Batch, warps: Indices | None, codes: Values, fragment: Fragment) -> list[Values]:
    """Codes [w, rows, columns] as registers over all lanes."""
    words = np.ascontiguousarray(codes).reshape(len(codes), -1)
    words = words if fragment.bits == 64 else words.view(np.uint32)
    table = words.reshape(-1, WARP, fragment.held)
    return [spread_warps(X, warps, np.ascontiguousarray(table[:, :, n])) for n in range(fragment.held)]


class _Moved:
    """A matrix between memory and a fragment: each thread accesses its own elements, `together` at once."""

    def __init__(self, i: Instruction, transfer: Transfer):
        self.i, self.transfer, self.fragment = i, transfer, transfer.fragment
        size = transfer.bytes_together
        width = min(size, 8)
        # How wide the accesses of a GPU are is not known, so that their bank conflicts are not counted.
        self.access = Access(i, width, size // width, counted=False)
        self.line, self.at = self._places()

    def _places(self) -> tuple[Indices, Indices]:
        """int64[accesses, 32] each: the line in memory, and the byte in it, where a thread's access begins."""
        fragment, by_rows = self.fragment, self.transfer.by_rows
        element = np.arange(WARP)[None, :] * fragment.elements
        element = element + np.arange(0, fragment.elements, self.transfer.together)[:, None]
        line, at = np.divmod(element, fragment.line)
        if fragment.by_rows != by_rows:
            line, at = at, line
        return line, at * fragment.bits // 8

    def _addresses(self, X: Batch, mask: Mask | None, address: Values, stride: Values) -> Iterator[Values]:
        """int64[lanes] of one access after the other."""
        warps_of(X, mask, self.i)
        base = X.lanes.spread(address).astype(np.int64)
        pitch = X.lanes.spread(stride).astype(np.int64) * self.fragment.bits // 8
        self._check_agreement(X, mask, base, pitch)
        warps = len(base) // WARP
        for line, at in zip(self.line, self.at, strict=True):
            yield base + np.tile(line, warps) * pitch + np.tile(at, warps)

    def _check_agreement(self, X: Batch, mask: Mask | None, base: Values, pitch: Values) -> None:
        lanes = X.lanes.of(mask)
        first = lanes // WARP * WARP
        other = (base[lanes] != base[first]) | (pitch[lanes] != pitch[first])
        if other.any():
            lane = int(lanes[np.flatnonzero(other)[0]])
            X.findings.add(
                "warp_divergence",
                self.i,
                int(other.sum()),
                lane,
                "is given another address or stride than its warp's first thread",
            )

    def load(self, X: Batch, mask: Mask | None, address: Values, stride: Values) -> list[Values]:
        parts = []
        for where in self._addresses(X, mask, address, stride):
            values = self.access.load(X, space_of(self.i), mask, where)
            parts.append(np.ascontiguousarray(values.T).view(np.uint8))
        together = np.ascontiguousarray(np.concatenate(parts, axis=1))
        words = together.view(np.uint64 if self.fragment.bits == 64 else np.uint32)
        return [np.ascontiguousarray(words[:, n]) for n in range(self.fragment.held)]

    def store(self, X: Batch, mask: Mask | None, address: Values, stride: Values, registers: list[Values]) -> None:
        words = np.stack([X.lanes.spread(one) for one in registers], axis=1)
        data: Bytes = np.ascontiguousarray(words).view(np.uint8)
        size = self.access.size
        for n, where in enumerate(self._addresses(X, mask, address, stride)):
            chunk = np.ascontiguousarray(data[:, n * size : (n + 1) * size]).view(f"u{self.access.width}")
            self.access.store(X, space_of(self.i), mask, where, list(chunk.T))
