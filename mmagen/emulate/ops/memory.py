"""ld, st, cvta, atomics and the instructions that only hint or order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arrays import Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.memory.spaces import GLOBAL_BASE, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, UNSIGNED
from mmagen.emulate.ops.access import Access
from mmagen.emulate.ops.emit import Emitter, dtype_of, op
from mmagen.emulate.ops.integers import is_integer, unsigned
from mmagen.emulate.ptx.facts import space_of, vector_of
from mmagen.emulate.ptx.model import Address, Immediate, Instruction, Operand, Register, elements_of
from mmagen.emulate.ptx.operands import size_of

_DISCARDED = 128  # bytes: the only size that discard has


def _raw(kind: str) -> str:
    return f"u{8 * (size_of(kind) or 0)}"


def native_address(e: Emitter, operand: Operand, space: str = "") -> str:
    """The address as computed in the width of its register, so that 32-bit sums wrap at 32 bits. space: of the operand.
    Addresses in shared memory have 32 bits: wider ones, such as generic ones, are truncated (PTX ISA, "ld")."""
    base = operand.base if isinstance(operand, Address) else None
    if isinstance(base, Register) and size_of(base.type) == 4:
        return e.address(operand, 32)
    address = e.address(operand)
    return f"({address}).astype(u4)" if isinstance(base, Register) and space == "shared" else address


def _require_elements(e: Emitter, operand: Operand, count: int) -> None:
    """Raises EmulationError unless a load or store names as many registers as it has elements."""
    if (named := len(elements_of(operand))) != count:
        raise e.unsupported(f"registers: {named}, elements: {count} (.v2, .v4 or .v8 says how many, or none for one)")


@op("ld", "ldu")
def _load(e: Emitter, i: Instruction) -> None:
    kind, count = vector_of(i)
    width = size_of(kind)
    if width not in UNSIGNED:
        raise e.unsupported("loads of this type are not supported")
    _require_elements(e, i.operands[0], count)
    run = e.bind(Access(i, width, count).load)
    e.line(f"t = {run}(X, {space_of(i)!r}, {e.mask}, {native_address(e, i.operands[1], space_of(i))})")
    for n, element in enumerate(elements_of(i.operands[0])):
        if kind[0] == "s":
            e.write(element, f"t[{n}].view({dtype_of(kind)})", kind)
        else:
            e.write(element, f"t[{n}]", _raw(kind))


def build_store(e: Emitter, i: Instruction) -> None:
    """st; st.async is in remote_stores.py."""
    kind, count = vector_of(i)
    width = size_of(kind)
    if width not in UNSIGNED or space_of(i) == "param":
        raise e.unsupported("this store is not supported")
    _require_elements(e, i.operands[1], count)
    run = e.bind(Access(i, width, count).store)
    values = ", ".join(e.source(x, _raw(kind)) for x in elements_of(i.operands[1]))
    e.line(f"{run}(X, {space_of(i)!r}, {e.mask}, {native_address(e, i.operands[0], space_of(i))}, [{values}])")


@op("cvta")
def _cvta(e: Emitter, i: Instruction) -> None:
    space = space_of(i)
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}.get(space, 0)
    kind = i.type
    a = e.source(i.operands[1], kind)
    if kind == "u32" and window:
        raise e.unsupported("32-bit generic addresses are not supported")
    symbol = "-" if i.has("to") else "+"
    e.write(i.operands[0], f"{a} {symbol} {e.constant(window, dtype_of(kind))}" if window else a, kind)


@op("isspacep")
def _isspacep(e: Emitter, i: Instruction) -> None:
    space = space_of(i)
    a = e.source(i.operands[1], "u64")
    windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
    expression = f"{a} >= {e.constant(GLOBAL_BASE, 'u8')}"
    if space in windows:
        expression = f"({a} >> 32) == {windows[space] >> 32}"
    e.write(i.operands[0], expression, "pred")


@op("discard")
def _discard(e: Emitter, i: Instruction) -> None:
    """discard.L2 [address], 128: the bytes hold nothing from then on, as if nothing had written them."""
    size = i.operands[1]
    if not isinstance(size, Immediate) or size.value != _DISCARDED:
        raise e.unsupported(f"discard takes {_DISCARDED} bytes, as a constant")
    run = e.bind(Access(i, 8, _DISCARDED // 8, counted=False).forget)
    e.line(f"{run}(X, {e.mask}, {native_address(e, i.operands[0])})")


@op("applypriority", "nanosleep")
def _nothing(e: Emitter, i: Instruction) -> None:
    """Hints, and orders that execution in order keeps anyway."""


@op("griddepcontrol")
def _griddepcontrol(e: Emitter, i: Instruction) -> None:
    """launch_dependents is for the grid after, which is not emulated."""
    if i.has("wait"):
        e.line(f"X.hazards.wait_for_grid_before({e.mask})")


def build_atomic(e: Emitter, i: Instruction) -> None:
    """atom and red of one 32- or 64-bit element; the others are in vector_atomics.py."""
    kind = i.type
    operation = next((m for m in i.modifiers if m in _ATOMICS), None)
    if operation is None or not (is_integer(kind) or kind in ("f32", "f64")):
        raise e.unsupported("this atomic operation is not supported")
    returns = i.base == "atom"
    operands = i.operands[1 if returns else 0 : -1 if i.has("L2::cache_hint") else None]
    bits = kind if kind in ("f32", "f64") or kind[0] == "s" else unsigned(kind)
    values = ", ".join(e.source(x, bits) for x in operands[1:])
    run = e.bind(_Atomic(i, operation, np.dtype(dtype_of(bits))).run)
    call = f"{run}(X, {space_of(i)!r}, {e.mask}, {native_address(e, operands[0], space_of(i))}, [{values}])"
    if returns:
        e.line(f"t = {call}")
        e.write(i.operands[0], "t", bits)
    else:
        e.line(call)


_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda old, a: old + a,
    "min": lambda old, a: min(old, a),
    "max": lambda old, a: max(old, a),
    "and": lambda old, a: old & a,
    "or": lambda old, a: old | a,
    "xor": lambda old, a: old ^ a,
    "exch": lambda old, a: a,
    "cas": lambda old, a, b: b if old == a else old,
    "inc": lambda old, a: old.dtype.type(0) if old >= a else old + old.dtype.type(1),
    "dec": lambda old, a: a if old == 0 or old > a else old - old.dtype.type(1),
}


def _flushing_add(old: np.float32, a: np.float32) -> np.float32:
    """add on f32 in global memory: subnormal numbers are zeros of their sign (PTX ISA 9.7.13.5)."""
    codes = numerics.add(np.array([old]).view(np.uint32), np.array([a]).view(np.uint32), "f32", ftz=True)
    result: np.float32 = codes.view(np.float32)[0]
    return result


class _Atomic:
    """Lane after lane, in the order of their numbers: one of the orders that the hardware may choose."""

    def __init__(self, i: Instruction, operation: str, dtype: np.dtype[Any]):
        self.i, self.dtype = i, dtype
        self.function = _ATOMICS[operation]
        self.flushes = operation == "add" and dtype == np.float32
        self.access = Access(i, dtype.itemsize, 1, atomic=True)

    def run(self, X: Batch, space: str, mask: Mask | None, address: Values, values: list[Values]) -> Values:
        """The values from before, of `dtype`, over all lanes."""
        before = np.zeros(X.lanes.size, dtype=self.dtype)
        for part, lanes, where in self.access.parts(X, space, mask, address):
            keep, index = self.access.locate(X, part, lanes, where, writing=True)
            lanes = lanes if keep is None else lanes[keep]
            cells = X.memory.shared.bytes if part == "shared" else X.memory.device.flat()
            cells = cells[: len(cells) // self.dtype.itemsize * self.dtype.itemsize].view(self.dtype)
            operands = [X.lanes.spread(v) for v in values]
            X.memory.device.writes += 1
            function = _flushing_add if self.flushes and part == "global" else self.function
            for lane, place in zip(lanes, index // self.dtype.itemsize, strict=True):
                before[lane] = cells[place]
                cells[place] = function(cells[place], *(v[lane] for v in operands))
        return before
