"""A kernel's PTX on the GPU, by way of the driver: the same launch that the emulator makes."""

from __future__ import annotations

import ctypes

import numpy as np

from mmagen.emulate import POISON
from mmagen.host_runtime.library import CapturedLaunch
from mmagen.verify.emulated import host, units
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrix import Operands
from mmagen.verify.emulated.task import Task
from tests.emulate.record import Gpu

_DYNAMIC_SHARED_SIZE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_PARAM_POINTER, _PARAM_SIZE, _PARAM_END = 1, 2, 0  # CU_LAUNCH_PARAM_*


def multiply(gpu: Gpu, task: Task, data: Operands) -> None:
    """Run the task's kernel on `data` and fill its D's memory, poisoned before. Raises GpuError."""
    buffers: dict[str, ctypes.c_uint64] = {}
    try:
        data.d.memory[:] = POISON
        for name, matrix in data.matrices.items():
            buffers[name] = _upload(gpu, matrix.memory)
        addresses = {name: buffer.value for name, buffer in buffers.items()}
        (captured,) = host.multiply_launches(task, data, addresses, Workspace())
        _launch(gpu, task, captured)
        gpu.call(
            "cuMemcpyDtoH_v2", data.d.memory.ctypes.data_as(ctypes.c_void_p), buffers["d"], ctypes.c_size_t(len(data.d.memory))
        )
    finally:
        for buffer in buffers.values():
            gpu.call("cuMemFree_v2", buffer)


def _upload(gpu: Gpu, memory: np.ndarray) -> ctypes.c_uint64:
    buffer = ctypes.c_uint64()
    gpu.call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(len(memory)))
    gpu.call("cuMemcpyHtoD_v2", buffer, memory.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(memory)))
    return buffer


def _launch(gpu: Gpu, task: Task, captured: CapturedLaunch) -> None:
    _, ptx = units.launched_ptx(task, captured)
    module, function = gpu.load(ptx), ctypes.c_void_p()
    try:
        gpu.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(captured.entry.encode()))
        gpu.call("cuFuncSetAttribute", function, ctypes.c_int(_DYNAMIC_SHARED_SIZE), ctypes.c_int(captured.shared_bytes))
        params = ctypes.create_string_buffer(captured.params, len(captured.params))
        size = ctypes.c_size_t(len(captured.params))
        extra = (ctypes.c_void_p * 5)(_PARAM_POINTER, ctypes.addressof(params), _PARAM_SIZE, ctypes.addressof(size), _PARAM_END)
        extents = map(ctypes.c_uint, (*captured.grid, *captured.block, captured.shared_bytes))
        gpu.call("cuLaunchKernel", function, *extents, None, None, extra)
        gpu.call("cuCtxSynchronize")
    finally:
        gpu.call("cuModuleUnload", module)
