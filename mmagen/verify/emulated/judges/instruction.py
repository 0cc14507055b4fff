"""A kernel of one instruction on the CPU: matrices drawn and laid out as its C interface has them, D judged."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mmagen.emulate import GlobalMemory
from mmagen.families.instruction.model import ARGUMENT_OF, InstructionPlan
from mmagen.host_runtime.arguments import argument_bytes
from mmagen.mma import formats
from mmagen.mma.inputs import Matrices, draw
from mmagen.mma.reference import compared, expected
from mmagen.verify.emulated import host
from mmagen.verify.emulated.findings import with_findings
from mmagen.verify.emulated.task import Task


def judge(task: Task) -> dict[str, Any]:
    """The outcome for the record. Raises EmulationError and HostError."""
    plan = cast(InstructionPlan, task.plan)
    data = draw(plan.operation, task.distribution, np.random.default_rng(task.seed), instances=1, steps=1)
    memory = GlobalMemory()
    addresses = {}
    for name, codes in _codes(data).items():
        of = plan.operand(name)
        addresses[name] = memory.allocate(name, packed(codes, of.part_bits, of.shift), writable=False)
    of_d = plan.operand("C")
    addresses["D"] = memory.allocate("D", np.full(of_d.rows * of_d.columns * of_d.bits // 8, 0xFF, np.uint8))
    arguments = argument_bytes({ARGUMENT_OF[one.name]: addresses[one.name] for one in plan.operands} | {"d": addresses["D"]})
    report = host.emulate(task, host.launch_of(task, task.symbol("run"), [arguments]), memory)
    found = memory.read("D").view(f"<u{of_d.part_bits // 8}").astype(np.uint64).reshape(1, of_d.rows, of_d.columns, -1)
    truth = expected(plan.operation, data, exact=task.distribution != "uniform")
    result = compared(formats.decode(found, plan.operation.type_d), truth)
    outcome = {"disposition": "passed", "reason": None, "max_abs_err": result.worst_error, "bound": result.bound}
    return outcome | with_findings(result.reason, [report])


def _codes(data: Matrices) -> dict[str, npt.NDArray[Any]]:
    """What lies in memory, of the one step and the one instance: [row, column, part]."""
    steps = {"A": data.a, "B": data.b, "C": [data.c], "E": data.e, "SFA": data.sfa, "SFB": data.sfb}
    return {name: codes[0][0] for name, codes in steps.items() if codes}


def packed(codes: npt.NDArray[Any], bits: int, shift: int = 0) -> npt.NDArray[Any]:
    """Bytes: `bits` for each code, the first in the lowest bits; a code begins `shift` bits up."""
    flat = codes.ravel() << np.uint64(shift)
    if bits >= 8:
        return np.ascontiguousarray(flat.astype(f"<u{bits // 8}")).view(np.uint8)
    in_byte = flat.reshape(-1, 8 // bits) << np.arange(0, 8, bits, dtype=np.uint64)
    whole: npt.NDArray[Any] = np.bitwise_or.reduce(in_byte, axis=1).astype(np.uint8)
    return whole
