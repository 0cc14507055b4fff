"""An array type with DLPack's C exchange API on numpy's memory, as torch's tensors have it: what the compiled caller is tested with
where torch is not installed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from mmagen.binding.tensors import CPU, _DLTensor

_CODES = {"i": 0, "u": 1, "f": 2, "c": 5}
_TensorFromObject = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_DLTensor))
_Allocate = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Array:
    """values: the array of numpy whose memory it has. conjugated: it stands for the conjugates of what is there."""

    requires_grad = False

    def __init__(self, values: np.ndarray, device: int = 0, conjugated: bool = False):
        self.values = values
        self.conjugated = conjugated
        self._shape = (ctypes.c_int64 * values.ndim)(*values.shape)
        self._strides = (ctypes.c_int64 * values.ndim)(*(step // values.itemsize for step in values.strides))
        self.seen = _DLTensor(
            data=values.ctypes.data,
            device_type=CPU,
            device_id=device,
            ndim=values.ndim,
            code=_CODES[values.dtype.kind],
            bits=values.itemsize * 8,
            lanes=1,
            shape=self._shape,
            strides=self._strides,
        )

    def is_neg(self) -> bool:
        return False

    def is_conj(self) -> bool:
        assert self.values.dtype.kind == "c", "the question costs time"
        return self.conjugated


@_TensorFromObject
def _tensor_from_object(address: int, found: Any) -> int:
    found[0] = ctypes.cast(address, ctypes.py_object).value.seen
    return 0


@_Allocate
def _allocate(*given: Any) -> int:
    return -1  # so that a call without `out` is left to kernel.py


class _Exchange(ctypes.Structure):
    """As mmagen/binding/dlpack.h has it."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("prev_api", ctypes.c_void_p),
        ("allocate", _Allocate),
        ("managed_from_object", ctypes.c_void_p),
        ("managed_to_object", ctypes.c_void_p),
        ("tensor_from_object", _TensorFromObject),
        ("current_stream", ctypes.c_void_p),
    )


_EXCHANGE = _Exchange(major=1, minor=3, allocate=_allocate, tensor_from_object=_tensor_from_object)


def exchange_of(kind: type) -> int:
    """In place of that of mmagen/binding/fast.py."""
    return ctypes.addressof(_EXCHANGE) if kind is Array else 0
