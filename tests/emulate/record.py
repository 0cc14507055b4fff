#!/usr/bin/env python3
"""Runs every form of tests.support.ptx_forms on this machine's NVIDIA GPU and keeps what it computed.

    python3 -m tests.emulate.record tests/emulate/recorded/h200.npz

Needs the driver (libcuda.so.1, through ctypes) and numpy, nothing else. A form that the driver refuses or that fails to
run is named in the table and left out of the file; the others are not affected. Exit code 0 if all forms ran, 1 if some
did not, 77 if there is no usable GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.ptx_forms import WARP, Form, all_forms

_LOG_BYTES = 8192
_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 5, 6
_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76
_GUARD = 0xA5


class GpuError(Exception):
    """A driver call that failed, with the driver's own words."""


class Gpu:
    """The first GPU, by way of the driver API. Use as a context manager; `reset` after a launch has failed."""

    def __init__(self) -> None:
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise GpuError(f"no NVIDIA driver: {error}") from error
        self.device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", ctypes.c_uint(0))
        self.call("cuDeviceGet", ctypes.byref(self.device), ctypes.c_int(0))

    def __enter__(self) -> Gpu:
        self.call("cuCtxCreate_v2", ctypes.byref(self.context), ctypes.c_uint(0), self.device)
        return self

    def __exit__(self, *exception: object) -> None:
        self.cuda.cuCtxDestroy_v2(self.context)

    def reset(self) -> None:
        """A fresh context in place of one that an error has made useless."""
        self.cuda.cuCtxDestroy_v2(self.context)
        self.call("cuCtxCreate_v2", ctypes.byref(self.context), ctypes.c_uint(0), self.device)

    def call(self, name: str, *arguments: Any) -> None:
        """A driver function; raises GpuError unless it returns CUDA_SUCCESS."""
        code = getattr(self.cuda, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(ctypes.c_int(code), ctypes.byref(text))
            raise GpuError(f"{name}: {(text.value or b'unknown error').decode()} ({code})")

    def describe(self) -> dict[str, str]:
        """Name and compute capability of the device, and the CUDA version of its driver."""
        name, version, major, minor = ctypes.create_string_buffer(256), ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetName", name, ctypes.c_int(256), self.device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        for value, attribute in ((major, _COMPUTE_CAPABILITY_MAJOR), (minor, _COMPUTE_CAPABILITY_MINOR)):
            self.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(attribute), self.device)
        driver = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
        return {"device": name.value.decode(), "arch": f"sm_{major.value}{minor.value}", "driver": driver}

    def load(self, ptx: str) -> ctypes.c_void_p:
        """A module from PTX text; raises GpuError with the compiler's words."""
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_JIT_ERROR_LOG_BUFFER, _JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        text = ctypes.create_string_buffer(ptx.encode())
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text, ctypes.c_uint(2), options, values)
        except GpuError as error:
            raise GpuError(f"{error} {log.value.decode(errors='replace').strip()}") from error
        return module

    def run(self, form: Form) -> bytes:
        """The bytes of a form's output buffer after its kernel ran; raises GpuError."""
        module, function = self.load(form.ptx()), ctypes.c_void_p()
        buffers: list[ctypes.c_uint64] = []
        try:
            self.call("cuModuleGetFunction", ctypes.byref(function), module, b"probe")
            given, size = form.input_bytes(), form.threads * form.output_stride
            for count in (len(given), size):
                buffers.append(ctypes.c_uint64())
                self.call("cuMemAlloc_v2", ctypes.byref(buffers[-1]), ctypes.c_size_t(count))
            self.call("cuMemcpyHtoD_v2", buffers[0], given, ctypes.c_size_t(len(given)))
            self.call("cuMemsetD8_v2", buffers[1], ctypes.c_ubyte(_GUARD), ctypes.c_size_t(size))
            pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(buffer) for buffer in buffers))
            extents = [ctypes.c_uint(n) for n in (form.threads // WARP, 1, 1, WARP, 1, 1, 0)]
            self.call("cuLaunchKernel", function, *extents, ctypes.c_void_p(), pointers, ctypes.c_void_p())
            self.call("cuCtxSynchronize")
            result = ctypes.create_string_buffer(size)
            self.call("cuMemcpyDtoH_v2", result, buffers[1], ctypes.c_size_t(size))
            return result.raw
        finally:
            for buffer in buffers:
                self.cuda.cuMemFree_v2(buffer)
            self.cuda.cuModuleUnload(module)


def record(gpu: Gpu, forms: list[Form]) -> tuple[list[tuple[Form, bytes]], dict[str, str]]:
    """The forms that ran, with their outputs, and why the others did not, by name."""
    ran, failed = [], {}
    for form in forms:
        try:
            ran.append((form, gpu.run(form)))
            print(f"ok      {form.name}", flush=True)
        except GpuError as error:
            failed[form.name] = str(error)
            print(f"FAILED  {form.name}: {error}", flush=True)
            gpu.reset()
    return ran, failed


def save(path: Path, ran: list[tuple[Form, bytes]], failed: dict[str, str], about: dict[str, str]) -> None:
    """Writes all forms to one compressed file: `manifest` (JSON), and the bytes of all inputs and all outputs.

    An entry of the manifest's `forms` has the PTX text, how many threads ran, and offsets and sizes of its bytes.
    """
    entries, inputs, outputs = [], bytearray(), bytearray()
    for form, result in ran:
        given = form.input_bytes()
        places = {"input": [len(inputs), len(given)], "output": [len(outputs), len(result)]}
        entries.append({"name": form.name, "threads": form.threads, **places, "ptx": form.ptx()})
        inputs += given
        outputs += result
    manifest = json.dumps({**about, "failed": failed, "forms": entries}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    blobs = {"manifest": manifest, "inputs": inputs, "outputs": outputs}
    np.savez_compressed(path, **{name: np.frombuffer(bytes(blob), np.uint8) for name, blob in blobs.items()})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="the .npz file to write")
    parser.add_argument("--only", default="", help="run the forms whose name contains this")
    arguments = parser.parse_args()
    forms = [form for form in all_forms() if arguments.only in form.name]
    try:
        with Gpu() as gpu:
            about = {**gpu.describe(), "date": datetime.date.today().isoformat()}
            ran, failed = record(gpu, forms)
    except GpuError as error:
        print(f"nothing recorded: {error}", file=sys.stderr)
        return 77
    save(arguments.out, ran, failed, about)
    size = arguments.out.stat().st_size
    print(f"{about['device']} {about['arch']}, {about['driver']}: {len(ran)} of {len(forms)} forms, {size:,} bytes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
