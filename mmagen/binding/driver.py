"""The functions of the CUDA driver that a call needs where the library of its arrays has none: of memory, and of devices."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


@cache
def driver() -> Any:
    """libcuda, or None on a machine without it."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def device_of(address: int) -> int | None:
    """The device whose memory it is; None where the driver does not know."""
    cuda, device = driver(), ctypes.c_int(-1)
    if cuda is None or cuda.cuPointerGetAttribute(ctypes.byref(device), _DEVICE_ORDINAL, ctypes.c_uint64(address)):
        return None
    return device.value if device.value >= 0 else None


def is_capturing(stream: int) -> bool:
    """Is what is enqueued on a stream recorded for a CUDA graph?"""
    cuda, state = driver(), ctypes.c_int(0)
    return cuda is not None and cuda.cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(state)) == 0 and state.value != 0


@contextmanager
def current(device: int) -> Iterator[None]:
    """Makes a device the current one of this thread, as cudaSetDevice() does for every CUDA runtime in the process.

    Where the driver refuses, nothing changes: the call that follows says what is wrong."""
    cuda, handle, context = driver(), ctypes.c_int(), ctypes.c_void_p()
    if cuda is None or cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(handle), device):
        yield
        return
    if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle):
        yield
        return
    pushed = cuda.cuCtxPushCurrent_v2(context) == 0
    try:
        yield
    finally:
        if pushed:
            cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
        cuda.cuDevicePrimaryCtxRelease_v2(handle)
