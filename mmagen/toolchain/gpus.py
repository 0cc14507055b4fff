"""The NVIDIA GPUs visible to a program started by this process, as reported by the driver."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from pathlib import Path

from mmagen.toolchain.model import Gpu

_COMPUTE_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


def find_gpus(env: Mapping[str, str], library: str = "libcuda.so.1") -> tuple[tuple[Gpu, ...], str]:
    """The visible GPUs and "", or no GPUs and why there are none.

    The driver library is asked, not nvidia-smi: it honours CUDA_VISIBLE_DEVICES as the programs do. `env` is looked at
    only for that variable, so that a test can hide the GPUs of this machine.
    """
    if env.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return (), "CUDA_VISIBLE_DEVICES hides every GPU"
    try:
        cuda = ctypes.CDLL(library)
    except OSError:
        return (), "no NVIDIA GPU found (there is no driver here)"
    status = cuda.cuInit(0)
    count = ctypes.c_int(0)
    if status == 0:
        status = cuda.cuDeviceGetCount(ctypes.byref(count))
    if status != 0:
        return (), f"no NVIDIA GPU found (the driver answers with CUDA error {status})"
    driver = _driver_version(cuda)
    gpus = []
    for index in range(count.value):
        device, number = ctypes.c_int(0), ctypes.c_int(0)
        name = ctypes.create_string_buffer(256)
        if cuda.cuDeviceGet(ctypes.byref(device), index) or cuda.cuDeviceGetName(name, 256, device):
            return (), f"no usable NVIDIA GPU (device {index} does not answer)"
        capability = []
        for attribute in _COMPUTE_CAPABILITY:
            if cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device):
                return (), f"no usable NVIDIA GPU (device {index} does not answer)"
            capability.append(number.value)
        gpus.append(Gpu(name.value.decode("utf-8", "replace"), (capability[0], capability[1]), driver))
    return tuple(gpus), "" if gpus else "no NVIDIA GPU found (the driver sees none)"


def _driver_version(cuda: ctypes.CDLL) -> str:
    """The kernel driver's version, e.g. "580.65.06"; where /proc does not tell, the CUDA version it supports."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text("utf-8")
        if match := re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text):
            return match.group(1)
    except OSError:
        pass
    number = ctypes.c_int(0)
    if cuda.cuDriverGetVersion(ctypes.byref(number)):
        return ""
    return f"CUDA {number.value // 1000}.{number.value % 1000 // 10}"
