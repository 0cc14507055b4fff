"""Arguments of a launch as numpy arrays and scalars -> the parameter block that the PTX declares."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.emulate.call.device import Buffer, Device, plain
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.memory.tensor_map import TensorMap
from mmagen.emulate.ptx.model import Entry, Variable

_POINTER = 8


@dataclass(frozen=True)
class ReadOnly:
    """An array argument that the kernel must not write to: a store is a finding."""

    array: npt.NDArray[Any]


@dataclass(frozen=True)
class Output:
    """An array argument that the kernel fills: reading an element before writing it is a finding."""

    shape: int | tuple[int, ...]
    dtype: npt.DTypeLike


Argument = Any
"""A kernel argument: ctypes has no type that all of its values share. `run_ptx` lists what is possible."""


def parameters(entry: Entry, arguments: Sequence[Argument], device: Device) -> tuple[bytes, dict[int, Buffer]]:
    """(the parameter block, the arrays that were copied to the device by their position).

    Raises EmulationError for another number of arguments than the entry has, and for one that its parameter cannot hold.
    """
    if not isinstance(arguments, Sequence) or isinstance(arguments, (str, bytes)):
        raise EmulationError(
            f"arguments is a value of type {type(arguments).__name__}; pass a list with one for each parameter"
        )
    if len(arguments) != len(entry.params):
        declared = ", ".join(map(_declared, entry.params)) or "none"
        raise EmulationError(f"{entry.name} has {len(entry.params)} parameters ({declared}), not {len(arguments)}")
    block, buffers = bytearray(entry.param_bytes), {}
    for n, (param, argument) in enumerate(zip(entry.params, arguments, strict=True)):
        if isinstance(argument, (ReadOnly, Output)) or _is_array(argument):
            buffers[n] = _copied(param, argument, device, n)
            argument = buffers[n]
        block[param.offset : param.offset + param.size] = _bytes_of(param, argument, device, n)
    return bytes(block), buffers


def _is_array(argument: Argument) -> bool:
    """A structured array of no dimension is a struct that is passed by value."""
    return isinstance(argument, np.ndarray) and not (argument.ndim == 0 and argument.dtype.names)


def _declared(param: Variable) -> str:
    if param.kind in ("b8", "") and param.size > 1:
        return f"struct of {param.size} bytes"
    return f".{param.kind}"


def _refusal(n: int, param: Variable, why: str) -> EmulationError:
    return EmulationError(f"argument {n} for {param.name} ({_declared(param)}): {why}")


def _copied(param: Variable, argument: Argument, device: Device, n: int) -> Buffer:
    if param.size != _POINTER or param.kind[:1] == "f":
        what = "a struct that holds pointers is packed by the caller, with addresses of Device arrays"
        raise _refusal(n, param, f"an array is passed as a pointer of 8 bytes; {what}")
    if isinstance(argument, Output):
        return device.empty(argument.shape, argument.dtype, _name(device, n))
    array = argument.array if isinstance(argument, ReadOnly) else argument
    if not isinstance(array, np.ndarray):
        raise _refusal(n, param, f"ReadOnly of a value of type {type(array).__name__}; pass a numpy array")
    return device.array(plain(array, f"argument {n}"), _name(device, n), read_only=isinstance(argument, ReadOnly))


def _name(device: Device, n: int) -> str:
    """Of the allocation for an argument: several launches on one device have arguments of their own."""
    name, turn = f"argument {n}", 1
    while name in device.memory.allocations:
        turn += 1
        name = f"argument {n} of launch {turn}"
    return name


def _bytes_of(param: Variable, argument: Argument, device: Device, n: int) -> bytes:
    if isinstance(argument, Buffer):
        if argument.device is not device:
            raise _refusal(n, param, f"{argument.name} is in the memory of another Device; pass device={argument.name}.device")
        argument = argument.address
    if isinstance(argument, (bool, int)):
        return _integer(param, int(argument), n)
    if isinstance(argument, float):  # np.float64 is one too
        return _float(param, argument, n)
    if isinstance(argument, TensorMap):
        if param.alignment % 64:
            raise _refusal(n, param, "a tensor map is a struct of 128 bytes, aligned to 64 of them")
        raw = argument.encode()
    else:
        raw = _raw(argument, param, n)
    if len(raw) != param.size:
        raise _refusal(n, param, f"{_kind(argument)} of {len(raw)} bytes, not {param.size}")
    return raw


def _kind(argument: Argument) -> str:
    return "a tensor map" if isinstance(argument, TensorMap) else f"a value of type {type(argument).__name__}"


def _integer(param: Variable, value: int, n: int) -> bytes:
    if param.kind in ("f32", "f64"):
        return _float(param, value, n)
    if param.size not in (1, 2, 4, 8) or (param.kind == "b8" and param.size > 1):
        raise _refusal(n, param, "an int has no size of its own; pass bytes, a numpy or a ctypes value")
    bits = 8 * param.size
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise _refusal(n, param, f"{value} does not fit into {bits} bits")
    return (value % (1 << bits)).to_bytes(param.size, "little")


def _float(param: Variable, value: float, n: int) -> bytes:
    """value: a float or an int."""
    if param.kind not in ("f32", "f64"):
        raise _refusal(n, param, f"{value} is a float; pass an int, or a numpy value with the bits that are meant")
    try:
        return struct.pack("<f" if param.kind == "f32" else "<d", float(value))
    except OverflowError:
        raise _refusal(n, param, f"the number is beyond the largest one of .{param.kind}") from None


def _raw(argument: Argument, param: Variable, n: int) -> bytes:
    if isinstance(argument, (np.generic, np.ndarray)):
        floats = argument.dtype.kind == "f" and param.kind[:1] in "us"
        if floats or (argument.dtype.kind in "iu" and param.kind[:1] == "f"):
            raise _refusal(n, param, f"a value of type {argument.dtype.name}; pass one of the parameter's type")
        return argument.tobytes()
    if isinstance(argument, (bytes, bytearray, ctypes.Structure, ctypes.Array, ctypes._SimpleCData)):
        return bytes(argument)
    what = "pass an array, a number, bytes, a ctypes structure, a TensorMap or a Buffer"
    raise _refusal(n, param, f"a value of type {type(argument).__name__} cannot be an argument; {what}")
