"""Arrays of other libraries as pointer, shape and strides: by `__cuda_array_interface__` or DLPack.

DLPack is read through ctypes: its struct is a stable C ABI (https://dmlc.github.io/dlpack/latest/c_api.html), so that no
compiled extension and no further package is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from mmagen.binding.driver import current, device_of
from mmagen.binding.errors import ArgumentError

CPU, CUDA, CUDA_MANAGED = 1, 2, 13  # DLDeviceType
_DEVICES = {CPU: "CPU", CUDA: "CUDA", 3: "pinned CPU", CUDA_MANAGED: "managed CUDA", 10: "ROCm"}
# Element types by DLDataTypeCode and bits; those of numpy's typestr that are unambiguous.
_CODES = {(0, 8): "s8", (1, 8): "u8", (0, 32): "s32", (2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16"}
_CODES |= {(10, 8): "e4m3", (12, 8): "e5m2", (5, 128): "c64"}
# Types of which no kernel is made, for messages.
_CODES |= {(0, 16): "s16", (0, 64): "s64", (1, 16): "u16", (1, 32): "u32", (1, 64): "u64", (5, 64): "c32", (6, 8): "bool"}
_TYPESTRS = {"|i1": "s8", "|u1": "u8", "<i4": "s32", "<f2": "f16", "<f4": "f32", "<f8": "f64", "<c16": "c64"}


@dataclass(frozen=True)
class Tensor:
    """An array in memory. address: of its first element; strides: in elements; type: mmagen's word for the element type, or
    what the library calls it where mmagen has none. owner: keeps the memory while this exists."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    type: str
    bytes: int
    device_type: int
    device: int
    read_only: bool
    owner: object

    @property
    def place(self) -> str:
        return f"{_DEVICES.get(self.device_type, f'DLPack device type {self.device_type}')} device {self.device}"

    @property
    def span(self) -> tuple[int, int]:
        """Addresses of the first byte and behind the last one."""
        if 0 in self.shape:
            return self.address, self.address
        low = high = 0
        for extent, stride in zip(self.shape, self.strides, strict=True):
            if stride < 0:
                low += (extent - 1) * stride
            else:
                high += (extent - 1) * stride
        return self.address + low * self.bytes, self.address + (high + 1) * self.bytes


@dataclass(frozen=True)
class Transposed:
    """An array with its last two dimensions exchanged in place, of a library whose own transposes are copies. Made by
    `mmagen.transposed`. array: as it was."""

    array: Any


def packed_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides without gaps."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def tensor(argument: str, value: Any, stream: int) -> Tensor:
    """`value` as a Tensor; its producer makes `stream` (a cudaStream_t) wait for what still computes it.

    Raises ArgumentError for anything that is no array in memory, whatever its own methods raise."""
    if isinstance(value, type):
        raise ArgumentError(argument, f"it is the class {value.__qualname__}; pass an array of it")
    try:
        return _exported(argument, value, stream)
    except ArgumentError:
        raise
    except Exception as error:  # of a foreign class, which may raise anything
        raise ArgumentError(argument, f"{_kind(value)} cannot be read as an array: {error!r}") from error


def _exported(argument: str, value: Any, stream: int) -> Tensor:
    if isinstance(value, Transposed):
        found = _exported(argument, value.array, stream)
        if len(found.shape) < 2:
            raise ArgumentError(argument, f"shape {found.shape}: a transposed matrix has 2 or 3 dimensions")
        (*shape, rows, columns), (*strides, step, line) = found.shape, found.strides
        return replace(found, shape=(*shape, columns, rows), strides=(*strides, line, step))
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(argument, value, stream)
    if hasattr(value, "__cuda_array_interface__"):
        return _from_interface(argument, value)
    raise ArgumentError(argument, f"{_kind(value)} has neither __dlpack__ nor __cuda_array_interface__; pass an array on a GPU")


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


# --- __cuda_array_interface__ ------------------------------------------------------------------------------------------


def _from_interface(argument: str, value: Any) -> Tensor:
    about = value.__cuda_array_interface__
    address, read_only = about["data"]
    shape, typestr, strides = tuple(about["shape"]), str(about["typestr"]), about.get("strides")
    size = int(typestr[2:])
    if about.get("mask") is not None:
        raise ArgumentError(argument, "it has a mask, which a kernel cannot apply; pass an array without one")
    if not all(isinstance(number, int) for number in (*shape, *(strides or ()))) or len(strides or shape) != len(shape):
        raise ArgumentError(
            argument, f"shape {shape} with strides {strides} of its __cuda_array_interface__ are not its dimensions"
        )
    if strides is None:
        steps = packed_strides(shape)
    else:
        if any(stride % size for stride in strides):
            raise ArgumentError(argument, f"strides of {tuple(strides)} bytes are not multiples of its {size}-byte elements")
        steps = tuple(stride // size for stride in strides)
    if not 0 <= int(address or 0) < 2**64 or not all(-(2**63) <= number < 2**63 for number in (*shape, *(strides or ()))):
        raise ArgumentError(
            argument, f"address {address}, shape {shape} with strides {strides} of its __cuda_array_interface__ exceed 64 bits"
        )
    word = _TYPESTRS.get(typestr, typestr)
    device = device_of(int(address or 0))
    if device is None:
        device = int(getattr(getattr(value, "device", None), "id", 0) or 0)
    return Tensor(int(address or 0), shape, steps, word, size, CUDA, device, bool(read_only), value)


# --- DLPack ------------------------------------------------------------------------------------------------------------


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _DLTensor),
    )


_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
_LEGACY_STREAM = 1  # how __dlpack__ spells CUDA's default stream
_api = ctypes.pythonapi
_api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p


def _from_dlpack(argument: str, value: Any, stream: int) -> Tensor:
    """The capsule is not consumed: it owns the tensor, and frees it when it is collected."""
    device_type, device = map(int, value.__dlpack_device__()) if hasattr(value, "__dlpack_device__") else (CUDA, None)
    on_gpu = device_type in (CUDA, CUDA_MANAGED)
    order = {"stream": stream or _LEGACY_STREAM} if on_gpu else {}
    with current(device) if on_gpu and device is not None else nullcontext():  # torch exports from the current device alone
        try:
            capsule = value.__dlpack__(max_version=(1, 0), **order)
        except TypeError:  # a producer from before DLPack 1.0
            capsule = value.__dlpack__(**order)
    versioned = bool(_api.PyCapsule_IsValid(capsule, b"dltensor_versioned"))
    if versioned:
        address = _api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        managed = _DLManagedTensorVersioned.from_address(address)
        found, read_only = managed.dl_tensor, bool(managed.flags & _READ_ONLY)
    elif _api.PyCapsule_IsValid(capsule, b"dltensor"):
        found = _DLTensor.from_address(_api.PyCapsule_GetPointer(capsule, b"dltensor"))
        read_only = False
    else:
        raise ArgumentError(argument, f"__dlpack__ of {_kind(value)} returned no DLPack capsule")
    shape = tuple(found.shape[: found.ndim])
    strides = tuple(found.strides[: found.ndim]) if found.strides else packed_strides(shape)
    word = (
        _CODES.get((found.code, found.bits), f"DLPack type {found.code} of {found.bits} bits")
        if found.lanes == 1
        else "vectors"
    )
    first = int(found.data or 0) + int(found.byte_offset)
    size = max(1, found.bits // 8)
    return Tensor(first, shape, strides, word, size, found.device_type, found.device_id, read_only, (capsule, value))
