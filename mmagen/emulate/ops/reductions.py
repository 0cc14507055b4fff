"""Reductions that TMA and remote stores perform in memory, on arrays of any shape.

Sources: PTX ISA, "cp.reduce.async.bulk", "cp.reduce.async.bulk.tensor" and "red.async" (tables of operations and types). Sums of
f32 in global memory flush subnormal numbers, as the ISA says of cp.reduce.async.bulk; of the form with a tensor map it does not
say so, and the emulator does the same there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arrays import Codes, Reduction, Values
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.ops.emit import dtype_of
from mmagen.emulate.ops.halves import half_operation, is_half
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.ptx.operands import size_of

Place = Literal["global", "tensor", "shared"]

_BITS = ("and", "or", "xor")
_OPERATIONS = ("add", "min", "max", "inc", "dec", *_BITS)
_EXTREMES = ("u32", "s32", "u64", "s64", "f16", "bf16")
_GLOBAL = {"add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"), "min": _EXTREMES, "max": _EXTREMES,
           "inc": ("u32",), "dec": ("u32",), **dict.fromkeys(_BITS, ("b32", "b64"))}  # fmt: skip
_TYPES: dict[Place, dict[str, tuple[str, ...]]] = {
    "global": _GLOBAL,
    "tensor": {**_GLOBAL, "add": ("u32", "s32", "u64", "f32", "f16", "bf16")},
    "shared": {"add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "max": ("u32", "s32"), "inc": ("u32",), "dec": ("u32",),
               **dict.fromkeys(_BITS, ("b32",))},
}  # fmt: skip


def operation_of(i: Instruction) -> str:
    """The reduction that an instruction names; raises EmulationError where it names none."""
    found = next((m for m in i.modifiers if m in _OPERATIONS), None)
    if found is None:
        raise EmulationError("this reduction is not supported")
    return found


def reduction(operation: str, kind: str, place: Place) -> Reduction:
    """An operation on elements of a PTX type. place: where the sums are: in global memory, there by a tensor map, or in the
    shared memory of another CTA. Raises EmulationError for what the PTX ISA does not have."""
    allowed = _TYPES[place][operation]
    if kind not in allowed:
        raise EmulationError(
            f"there is no reduction .{operation} of .{kind} elements; of these there are .{', .'.join(allowed)}"
        )
    function, bits = _function(operation, kind), f"u{size_of(kind)}"

    def reduce(old: Codes, new: Codes) -> Codes:
        before, comes = (np.ascontiguousarray(x).view(bits) for x in (old, new))
        after = np.ascontiguousarray(function(before, comes))
        return after.view(bits).view(old.dtype)

    return reduce


def tensor_reduction(operation: str, kind: str) -> Reduction:
    """As `reduction`, with the element type that a tensor map has; bits are those of integers."""
    if not kind:
        raise EmulationError("the tensor map does not say of which type its elements are")
    kind = kind.removesuffix("_ftz") if kind == "f32_ftz" else kind
    return reduction(operation, f"b{kind[1:]}" if operation in _BITS and kind[0] in "us" else kind, "tensor")


def _function(operation: str, kind: str) -> Reduction:
    if is_half(kind):
        return half_operation(kind, operation)
    if kind in ("f32", "f64"):
        return lambda old, new: numerics.add(old, new, kind, ftz=kind == "f32")
    if operation == "inc":
        return lambda old, new: np.where(old >= new, old.dtype.type(0), old + old.dtype.type(1))
    if operation == "dec":
        return lambda old, new: np.where((old == 0) | (old > new), new, old - old.dtype.type(1))
    functions: dict[str, Callable[..., Values]] = {"add": np.add, "min": np.minimum, "max": np.maximum}
    function = functions.get(operation) or getattr(np, f"bitwise_{operation}")
    signed = dtype_of(kind)
    return lambda old, new: function(old.view(signed), new.view(signed)).view(old.dtype)
