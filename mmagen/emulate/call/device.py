"""Device memory that a caller fills and reads: arrays at addresses that can be put into structs and tensor maps."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.emulate.arrays import Mask
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.memory.global_memory import GlobalMemory

Array = npt.NDArray[Any]

# ml_dtypes keeps each of these in a byte of its own; CUDA packs them.
_SUB_BYTE = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")


def plain(array: Array, what: str) -> Array:
    """The array itself, if its bytes are what device memory would hold. Raises EmulationError for views with strides, big
    endian numbers, Python objects, and types that ml_dtypes keeps in a byte each but CUDA packs. what: for the message."""
    if array.dtype.hasobject:
        raise EmulationError(f"{what} is an array of Python objects; pass one of numbers")
    if array.dtype.byteorder == ">":
        raise EmulationError(f"{what} is big-endian; pass array.astype(array.dtype.newbyteorder('<'))")
    if array.dtype.name in _SUB_BYTE:
        raise EmulationError(f"{what} is of {array.dtype.name}, which numpy does not pack; pack it and pass uint8")
    if not array.flags.c_contiguous:
        remedy = "its transpose, which is contiguous," if array.flags.f_contiguous else "numpy.ascontiguousarray(array)"
        raise EmulationError(
            f"{what} is a view with strides {array.strides}; pass {remedy} and the strides as the kernel takes them"
        )
    return array


@dataclass(frozen=True)
class Buffer:
    """An array in device memory. address: of its first byte. shape, dtype: as `read` returns it."""

    device: Device
    name: str
    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """In bytes."""
        return prod(self.shape) * self.dtype.itemsize

    def read(self) -> Array:
        """A copy of the contents; bytes that nothing wrote are 0xCD."""
        return self.device.memory.read(self.name).view(self.dtype).reshape(self.shape)

    def written(self) -> Mask:
        """bool, in the array's shape: whether all bytes of an element were written, by the caller or by a kernel."""
        flags = self.device.memory.written(self.name)
        whole: Mask = flags.reshape(-1, self.dtype.itemsize).all(axis=1).reshape(self.shape)
        return whole


class Device:
    """Global memory. Launches on one Device see what those before them left there.

    memory: what `launch` takes.
    """

    def __init__(self) -> None:
        self.memory = GlobalMemory()

    def array(self, data: Array, name: str = "", *, read_only: bool = False, misalign: int = 0) -> Buffer:
        """A copy of `data` in device memory.

        name: for findings. read_only: a store to it is a finding. misalign: bytes past a 256-byte boundary at which it
        begins. Raises EmulationError where the name is taken, and for arrays that `plain` refuses.
        """
        name = name or self._unused()
        data = plain(np.asarray(data), name)
        address = self.memory.allocate(name, np.frombuffer(data.tobytes(), np.uint8), writable=not read_only, misalign=misalign)
        return Buffer(self, name, address, data.shape, data.dtype)

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike, name: str = "", *, misalign: int = 0) -> Buffer:
        """Memory that nothing wrote: reading it before a store is a finding. Raises EmulationError where the name is taken,
        for a shape or a type that no array has or that `plain` refuses, and for more memory than there is."""
        name = name or self._unused()
        try:
            kind = np.dtype(dtype)
            extents = tuple(index(extent) for extent in (shape if isinstance(shape, (tuple, list)) else (shape,)))
        except TypeError as error:
            raise EmulationError(
                f"{name}: shape {shape!r} and type {dtype!r}: {error}; pass integers and a numpy type"
            ) from None
        if any(extent < 0 for extent in extents):
            raise EmulationError(f"{name}: shape {shape!r} has a negative extent; pass extents of 0 or more")
        plain(np.empty(0, kind), name)
        try:
            address = self.memory.allocate(name, size=prod(extents) * kind.itemsize, misalign=misalign)
        except MemoryError as error:
            raise EmulationError(f"{name}: {error}; pass a smaller shape") from None
        return Buffer(self, name, address, extents, kind)

    def _unused(self) -> str:
        return f"array{len(self.memory.allocations)}"
