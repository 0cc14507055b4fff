"""The NVIDIA GPUs visible to a program started by this process, as reported by the driver."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmagen.toolchain.model import Gpu

_MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_COMPUTE_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
# CUresult of cuInit and cuDeviceGetCount (CUDA driver API, "Data types used by CUDA driver").
_STATUSES = {
    34: "no NVIDIA driver found (libcuda.so.1 is the toolkit's stub)",
    100: "no NVIDIA GPU found (a driver is installed, but it sees none)",
    101: "no NVIDIA GPU found (CUDA_VISIBLE_DEVICES names none that is here)",
    802: "no NVIDIA GPU can be used yet (the driver says that the system is not ready: is nvidia-fabricmanager running?)",
    803: "the NVIDIA driver's kernel module and libcuda.so.1 are of different versions; reboot, or reinstall the driver",
    804: "the NVIDIA driver is too old for the CUDA compatibility package in use; update the driver, or remove the package",
}


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
        return (), f"no NVIDIA driver found ({library} cannot be loaded)"
    status = cuda.cuInit(0)
    count = ctypes.c_int(0)
    if status == 0:
        status = cuda.cuDeviceGetCount(ctypes.byref(count))
    if status in _STATUSES:
        return (), _STATUSES[status]
    if status != 0:
        return (), f"no NVIDIA GPU can be used (the driver answers with CUDA error {status})"
    driver = _driver_version(cuda)
    gpus = []
    for index in range(count.value):
        device, number = ctypes.c_int(0), ctypes.c_int(0)
        name = ctypes.create_string_buffer(256)
        if cuda.cuDeviceGet(ctypes.byref(device), index) or cuda.cuDeviceGetName(name, 256, device):
            return (), f"no usable NVIDIA GPU (device {index} does not answer)"
        capability = []
        for attribute in (*_COMPUTE_CAPABILITY, _MULTIPROCESSORS):
            if cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device):
                return (), f"no usable NVIDIA GPU (device {index} does not answer)"
            capability.append(number.value)
        major, minor, multiprocessors = capability
        gpus.append(Gpu(name.value.decode("utf-8", "replace"), (major, minor), driver, _cuda_version(cuda), multiprocessors))
    return tuple(gpus), "" if gpus else _STATUSES[100]


def outdated(gpus: Sequence[Gpu], nvcc_version: str) -> str:
    """Why the driver cannot run what this nvcc compiles, or "". A driver runs programs of its own major version of CUDA and of
    earlier ones (CUDA Compatibility, "Minor Version Compatibility")."""
    needed = re.match(r"\d+", nvcc_version)
    if not gpus or not gpus[0].cuda or not needed or gpus[0].cuda[0] >= int(needed[0]):
        return ""
    supports = ".".join(map(str, gpus[0].cuda))
    return (
        f"the NVIDIA driver {gpus[0].driver} of {gpus[0].name} is too old: it supports CUDA {supports}, nvcc is {nvcc_version}; "
        f"install a driver for CUDA {needed[0]}, or set CUDACXX to an nvcc of CUDA {gpus[0].cuda[0]}"
    )


def _cuda_version(cuda: ctypes.CDLL) -> tuple[int, int] | None:
    number = ctypes.c_int(0)
    if cuda.cuDriverGetVersion(ctypes.byref(number)) or not number.value:
        return None
    return number.value // 1000, number.value % 1000 // 10


def _driver_version(cuda: ctypes.CDLL) -> str:
    """The kernel driver's version, e.g. "580.65.06"; where /proc does not tell, the CUDA version it supports."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text("utf-8")
        if match := re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text):
            return match.group(1)
    except OSError:
        pass
    version = _cuda_version(cuda)
    return f"CUDA {version[0]}.{version[1]}" if version else ""
