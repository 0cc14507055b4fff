"""Spec and operation to an InstructionPlan: where each operand lies, and what it looks like in memory."""

from __future__ import annotations

from typing import Any

from mmagen.core.errors import Fault, SpecFaults
from mmagen.core.layout_text import LayoutText
from mmagen.families.instruction.model import CoreMatrices, Fragment, InstructionPlan
from mmagen.mma import formats
from mmagen.mma.forms import METADATA
from mmagen.mma.operation import Operation
from mmagen.mma.storage import stored_bits, stored_shift
from mmagen.plan.model import Text
from mmagen.plan.operation import arch_of, faults, operation_of
from mmagen.spec.model import Spec

_RUNTIME = (
    "atoms/atom_call",
    "instruction/fragment",
    "instruction/instruction_operands",
    "instruction/instruction_launch",
    "mmagen/status",
)
_TEST_RUNTIME = tuple(
    f"test/{name}"
    for name in (
        "buffers",
        "compare",
        "device",
        "error",
        "inputs",
        "judge",
        "nvml",
        "operands",
        "options",
        "problem",
        "record",
        "reference",
        "session",
        "small_int",
        "types",
    )
) + tuple(f"instruction/test/{name}" for name in ("instruction_main", "instruction_matrices", "instruction_types"))
_WGMMA = "instruction_wgmma_kernel"
_REGISTERS = "instruction_kernel"


def plan(spec: Spec, sha: str) -> InstructionPlan:
    """The decisions for kernel micro of one operation. Raises SpecFaults with everything that is wrong with it."""
    operation = operation_of(spec)
    wrong = [*faults(spec, operation, "of this atom is one instruction")]
    if operation.broken:
        wrong.append(Fault(("atom",), f"{operation.name} cannot be used: {operation.broken}", "choose another"))
    if operation.kind == "tcgen05":
        wrong.append(
            Fault(
                ("atom",),
                f"{operation.name} works on tensor memory, which a lone instruction does not fill",
                "mmagen verify --atoms compiles it and looks for the instruction",
            )
        )
    if wrong:
        raise SpecFaults(tuple(wrong))
    kernel = _WGMMA if operation.kind == "wgmma" else _REGISTERS
    return InstructionPlan(
        spec=spec,
        spec_sha=sha,
        operation=operation,
        arch=arch_of(spec, operation),
        operands=tuple(_operands(operation)),
        group=METADATA[operation.sparsity][1] if operation.sparsity else 1,
        runtime=(*_RUNTIME, f"instruction/{kernel}"),
        test_runtime=_TEST_RUNTIME,
        reading=(
            (f"include/mmagen/{kernel}.cuh", "the kernel: fill, multiply, store"),
            ("include/mmagen/fragment.cuh", "from matrices in memory to registers and shared memory, and back"),
        ),
        text=_text(operation),
        mended=operation.known_bad or "",
    )


def _operands(operation: Operation) -> list[Fragment | CoreMatrices]:
    m, n, k = operation.shape
    group = METADATA[operation.sparsity][1] if operation.sparsity else 1
    kept = max(1, group // 2)
    found: list[Fragment | CoreMatrices] = []
    for name, rows, of_group, of_kept in (("A", m, group, kept), ("B", n, 1, 1)):
        facts = {**_stored(operation, name), "rows": rows, "columns": k // of_group * of_kept}
        if operation.places[name] == "registers":
            found.append(Fragment(**facts, layout=_layout(operation, name), group=of_group, kept=of_kept))
        else:
            found.append(CoreMatrices(**facts))
    found.append(Fragment(**_stored(operation, "C"), rows=m, columns=n, layout=_layout(operation, "C")))
    if operation.sparsity:
        chunk = METADATA[operation.sparsity][0]
        found.append(
            Fragment(
                name="E",
                about=f"metadata of A, a byte for {chunk} logical elements",
                rows=m,
                columns=k // chunk,
                layout=_layout(operation, "E"),
                group=chunk,
            )
        )
    if operation.vector:
        for name, rows in (("SFA", m), ("SFB", n)):
            about = f"{operation.type_sf} scale factors of {name[-1]}, one for {operation.vector} elements"
            found.append(
                Fragment(
                    name=name,
                    about=about,
                    rows=rows,
                    columns=k // operation.vector,
                    layout=_layout(operation, name),
                    group=operation.vector,
                )
            )
    return found


def _layout(operation: Operation, name: str) -> LayoutText:
    return LayoutText.parse(operation.layout(name).text)


def _stored(operation: Operation, name: str) -> dict[str, Any]:
    """What A, B or C is made of in memory."""
    parts = formats.PARTS.get(_word(operation, name), 1)
    return {
        "name": name,
        "about": _about(operation, name),
        "bits": stored_bits(operation, name) * parts,
        "parts": parts,
        "shift": stored_shift(operation, name),
    }


def _word(operation: Operation, name: str) -> str:
    return {"A": operation.type_a, "B": operation.type_b, "C": operation.type_d}[name]


def _about(operation: Operation, name: str) -> str:
    """What its elements are, as a comment says it."""
    word, bits = _word(operation, name), stored_bits(operation, name)
    words = {"c64": "complex numbers of two f64", "gc64": "Gauss's three products of complex numbers, f64", "u1": "bits"}
    what = words.get(word, word)
    if bits < 8:
        what += f", {8 // bits} in a byte, the first in the lowest bits"
    elif formats.bits(word) < 8:
        what += f" in a byte each{', two bits up' if stored_shift(operation, name) else ''}"
    if name == "A" and operation.sparse:
        nonzeros, of = operation.sparsity.split(":")
        what += f"; of each {of} neighbours along K the {nonzeros} that are kept"
    return what


def _text(operation: Operation) -> Text:
    m, n, k = operation.shape
    kind = " sparse" if operation.sparse else " block-scaled" if operation.block_scaled else ""
    title = (
        f"one{kind} {m}x{n}x{k} {operation.opcode.split('.')[0]}, {operation.type_a} x {operation.type_b} + {operation.type_d}"
    )
    return Text(title=title, formula="D = A * B + C", storage="", shape="", shape_note="")
