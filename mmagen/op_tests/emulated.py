"""A batch's kernels on the CPU: their PTX executed, where mmagen.emulate knows the instruction."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from mmagen.emulate import EmulationError, GlobalMemory, Module, launch
from mmagen.op_tests.case import Launch
from mmagen.op_tests.program import Executed

_NAMES = ("a", "b", "c", "e", "sfa", "sfb")
_WORK = struct.Struct("<7Q2Q4Ii4x")  # mmagen::atoms::Work


def execute_emulated(module: Module, kernel: str, case: Launch, timeout_s: float | None = None) -> Executed:
    """One case on the emulator; what it does not know, or finds wrong on the way, is in the result's error."""
    memory = GlobalMemory()
    addresses: Mapping[str, int] = {
        name: memory.allocate(name, np.ascontiguousarray(image), writable=False) if image.size else 0
        for name, image in zip(_NAMES, case.images, strict=True)
    }
    d = memory.allocate("d", np.full(case.size_d, 0xFF, np.uint8))
    params = _WORK.pack(
        *(addresses[name] for name in _NAMES), d, *case.descriptors, *case.bytes_smem, *case.step_smem, case.steps
    )
    try:
        report = launch(
            module,
            kernel,
            grid=1,
            block=case.threads,
            dynamic_smem=case.smem,
            params=params,
            memory=memory,
            timeout_s=timeout_s,
        )
    except EmulationError as error:
        return Executed(None, str(error))
    if report.findings:
        return Executed(None, "; ".join(map(str, report.findings)))
    return Executed(memory.read("d").tobytes())
