"""A kernel's PTX on the GPU, by way of the driver: the same launch that the emulator makes."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "emulate"))
from record import Gpu

from mmagen.verify.emulated import arguments
from mmagen.verify.emulated.matrices import Operands
from mmagen.verify.emulated.session import Task

_POISON = 0xCD  # what the emulator shows of memory that nothing wrote
_DYNAMIC_SHARED_SIZE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_PARAM_POINTER, _PARAM_SIZE, _PARAM_END = 1, 2, 0  # CU_LAUNCH_PARAM_*


def multiply(gpu: Gpu, task: Task, data: Operands) -> None:
    """Run the task's kernel on `data` and fill its D's memory, poisoned before. Raises GpuError."""
    module = gpu.load(task.ptx.text)
    buffers: dict[str, ctypes.c_uint64] = {}
    try:
        data.d.memory[:] = _POISON
        for name, matrix in (("a", data.a), ("b", data.b), ("c", data.c), ("d", data.d)):
            if matrix:
                buffers[name] = _upload(gpu, matrix.memory)
        addresses = {name: buffer.value for name, buffer in buffers.items()}
        addresses.setdefault("c", addresses["d"])
        _launch(gpu, module, task, arguments.of(task.plan, task.problem, data, addresses))
        gpu.call(
            "cuMemcpyDtoH_v2", data.d.memory.ctypes.data_as(ctypes.c_void_p), buffers["d"], ctypes.c_size_t(len(data.d.memory))
        )
    finally:
        for buffer in buffers.values():
            gpu.call("cuMemFree_v2", buffer)
        gpu.call("cuModuleUnload", module)


def _upload(gpu: Gpu, memory: np.ndarray) -> ctypes.c_uint64:
    buffer = ctypes.c_uint64()
    gpu.call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(len(memory)))
    gpu.call("cuMemcpyHtoD_v2", buffer, memory.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(memory)))
    return buffer


def _launch(gpu: Gpu, module: ctypes.c_void_p, task: Task, chosen: arguments.Launch) -> None:
    name = next(name for name in re.findall(r"\.entry (\w+)", task.ptx.text) if chosen.entry.search(name))
    function = ctypes.c_void_p()
    gpu.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name.encode()))
    gpu.call("cuFuncSetAttribute", function, ctypes.c_int(_DYNAMIC_SHARED_SIZE), ctypes.c_int(task.plan.smem_bytes))
    params = ctypes.create_string_buffer(chosen.params, len(chosen.params))
    size = ctypes.c_size_t(len(chosen.params))
    extra = (ctypes.c_void_p * 5)(_PARAM_POINTER, ctypes.addressof(params), _PARAM_SIZE, ctypes.addressof(size), _PARAM_END)
    one = ctypes.c_uint(1)
    gpu.call(
        "cuLaunchKernel",
        function,
        ctypes.c_uint(chosen.grid),
        one,
        one,
        ctypes.c_uint(task.plan.threads),
        one,
        one,
        ctypes.c_uint(task.plan.smem_bytes),
        None,
        None,
        extra,
    )
    gpu.call("cuCtxSynchronize")
