"""One launch of one operation: draws matrices, packs them for the kernel, and judges D."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.mma import formats, images
from mmagen.mma.forms import METADATA, STEPS, Form
from mmagen.mma.inputs import Matrices, draw
from mmagen.mma.operation import Operation
from mmagen.mma.reference import Expected, Outcome, compared, expected
from mmagen.mma.storage import register_bytes, stored_bits, stored_shift


@dataclass(frozen=True)
class Launch:
    """What the program gets. images: a, b, c, e, sfa, sfb; size_d: bytes of D."""

    threads: int
    steps: int
    smem: int
    descriptors: tuple[int, int]
    bytes_smem: tuple[int, int]
    step_smem: tuple[int, int]
    images: tuple[npt.NDArray[Any], ...]
    size_d: int


def seed_of(form: Form, distribution: str, seed: int) -> int:
    """Different for every case, the same in every run."""
    text = f"{form.operation.name} {form.text} {distribution} {seed}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def matrices(form: Form, distribution: str, seed: int) -> Matrices:
    """The inputs of a case, the same for every line of shared memory."""
    return draw(form.operation, distribution, np.random.default_rng(seed_of(form, distribution, seed)), instances(form))


def instances(form: Form) -> int:
    """Independent multiplications of one launch."""
    return form.operation.launch_threads // form.operation.threads


def lines_of(form: Form) -> list[tuple[int, int]]:
    """Lines of A and B in shared memory to try; (0, 0) where nothing lies there. A line that one of them cannot have
    is left out for it: it then has none."""
    operation = form.operation
    if not operation.warpgroup:
        return [(0, 0)]
    legal_a = images.swizzles(operation.m, _step_bytes(operation, "A"), form.major_a == "K")
    legal_b = images.swizzles(operation.n, _step_bytes(operation, "B"), form.major_b == "K")
    pairs = [(line if line in legal_a else 16, line if line in legal_b else 16) for line in form.lines]
    if form.a_in_registers:
        pairs = [(0, b) for _, b in pairs]
    return list(dict.fromkeys(pairs))


def _step_bytes(operation: Operation, operand: str) -> int:
    """Bytes along K of one step's A (what is stored of it) or B."""
    kept = 2 if operation.sparse and operand == "A" else 1
    word = operation.type_a if operand == "A" else operation.type_b
    return operation.k * formats.bits(word) // 8 // kept


def launch_of(form: Form, data: Matrices, lines: tuple[int, int]) -> Launch:
    """The matrices as the kernel wants them, with wgmma operands in lines of that many bytes."""
    operation = form.operation
    threads = images.lanes(operation.thr_id, operation.threads, form.operation.launch_threads)
    registers = {"C": _in_registers(operation, "C", [data.c], threads)}
    shared = {}
    if operation.warpgroup:
        shared["B"] = images.shared(
            np.stack([step[0, :, :, 0] for step in data.b]), formats.bits(operation.type_b), form.major_b == "K", lines[1]
        )
    else:
        registers["B"] = _in_registers(operation, "B", data.b, threads)
    if form.a_in_registers:
        registers["A"] = _in_registers(operation, "A", data.a, threads)
    else:
        shared["A"] = images.shared(
            np.stack([step[0, :, :, 0] for step in data.a]), formats.bits(operation.type_a), form.major_a == "K", lines[0]
        )
    for operand, steps in (("E", data.e), ("SFA", data.sfa), ("SFB", data.sfb)):
        if steps:
            registers[operand] = _in_registers(operation, operand, steps, threads)
    a, b = (shared.get(x, images.SharedImage(np.zeros(0, np.uint8), 0, 0)) for x in "AB")
    parts = tuple(
        shared[x].data if x in shared else registers.get(x, np.zeros(0, np.uint8)) for x in ("A", "B", "C", "E", "SFA", "SFB")
    )
    return Launch(
        form.operation.launch_threads,
        STEPS,
        len(a.data) + len(b.data) + (1024 if shared else 0),
        (a.descriptor, b.descriptor),
        (len(a.data), len(b.data)),
        (a.step, b.step),
        parts,
        form.operation.launch_threads * register_bytes(operation, "C"),
    )


def _in_registers(
    operation: Operation, operand: str, steps: list[npt.NDArray[Any]], threads: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """The image of all steps, one behind the other."""
    table, width = _table(operation, operand)
    size, shift = register_bytes(operation, operand), np.uint64(stored_shift(operation, operand))
    return np.concatenate([images.pack(step << shift, table, width, threads, size).ravel() for step in steps])


def _table(operation: Operation, operand: str) -> tuple[npt.NDArray[Any], int]:
    """([thread, stored value] -> element, bits of each)."""
    layout = operation.layout(operand)
    if operand == "E" and operation.sparsity:
        return images.compressed(layout.text, layout.rows, METADATA[operation.sparsity][0], 1), 8
    if operand in ("SFA", "SFB"):
        return images.compressed(layout.text, layout.rows, operation.scales[1], 1), 8
    width = stored_bits(operation, operand)
    if operand == "A" and operation.sparsity:
        group = METADATA[operation.sparsity][1]
        return images.compressed(layout.text, layout.rows, group, group // 2), width
    return images.owners(layout.text), width


def judge(form: Form, image: bytes, truth: Expected) -> Outcome:
    """Compare what the kernel left in D's registers with what it should be."""
    operation = form.operation
    threads = images.lanes(operation.thr_id, operation.threads, form.operation.launch_threads)
    table, width = _table(operation, "C")
    raw = np.frombuffer(image, np.uint8).reshape(form.operation.launch_threads, -1)
    codes = images.unpack(raw, table, width, threads, operation.m, operation.n, formats.PARTS.get(operation.type_d, 1))
    return compared(formats.decode(codes, operation.type_d), truth)


def truth_of(form: Form, data: Matrices, distribution: str) -> Expected:
    """What D should be, and how far off it may be."""
    return expected(form.operation, data, exact=distribution != "uniform")
