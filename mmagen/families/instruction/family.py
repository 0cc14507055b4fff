"""`kernel: micro` of an operation that is not an atom: the registers or shared memory of each operand, and its storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mmagen.core.errors import Change, Fault, SpecFaults
from mmagen.core.layout_text import LayoutText
from mmagen.families.instruction.model import ARGUMENT_OF, CoreMatrices, Fragment, InstructionPlan
from mmagen.families.operation_spec import arch_of, faults, operation_of
from mmagen.mma import formats
from mmagen.mma.atoms import similar_atom
from mmagen.mma.catalogue import known
from mmagen.mma.forms import METADATA, distributions
from mmagen.mma.operation import Operation
from mmagen.mma.storage import stored_bits, stored_shift
from mmagen.plan import pages
from mmagen.plan.devices import Device
from mmagen.plan.launch import Numbers
from mmagen.plan.maps import Map, of_operation
from mmagen.plan.project import Text
from mmagen.plan.rules import one_tile_problem_faults
from mmagen.plan.sentences import header
from mmagen.plan.trials import Trials
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family

# Meaning of a metadata byte, by sparsity.
_METADATA = {
    "2:4": "the index of the first nonzero, then of the second, two bits each",
    "1:2": "4 if the first is kept, 14 if the second is",
    "4:8": "the index of the first pair of nonzeros, then of the second, two bits each",
}


class _Instruction:
    def builds(self, atom: str) -> bool:
        found = known(atom)
        return found is not None and found.of_cutlass

    def plan(self, spec: Spec, sha: str) -> InstructionPlan:
        operation = operation_of(spec)
        wrong = [*faults(spec, operation, "of this atom is a single instruction")]
        another: Change = {("atom",): similar_atom(spec.atom)} if operation.broken or operation.kind == "tcgen05" else {}
        if operation.broken:
            wrong.append(Fault(("atom",), f"{operation.name} cannot be used: {operation.broken}", "choose another", another))
        if operation.kind == "tcgen05":
            wrong.append(
                Fault(
                    ("atom",),
                    f"{operation.name} reads tensor memory, which a single instruction cannot load",
                    "use mmagen verify --atoms, which compiles it and checks for the instruction",
                    another,
                )
            )
        if wrong:
            raise SpecFaults(tuple(wrong))
        kernel = "instruction_wgmma_kernel" if operation.kind == "wgmma" else "instruction_kernel"
        return InstructionPlan(
            family=__name__,
            spec=spec,
            spec_sha=sha,
            arch=arch_of(spec, operation),
            text=_text(operation, kernel),
            operation=operation,
            kernel_header=kernel,
            operands=tuple(_operands(operation)),
            group=METADATA[operation.sparsity][1] if operation.sparsity else 1,
            mended=operation.known_bad or "",
        )

    def problem_faults(self, plan: InstructionPlan, problems: Sequence[Problem]) -> Iterator[Fault]:
        return one_tile_problem_faults(plan.spec, plan.tile, problems)

    def parts(self, plan: InstructionPlan) -> tuple[str, ...]:
        return "common", "package", "instruction"

    def context(self, plan: InstructionPlan, config: str) -> Mapping[str, Any]:
        operation = plan.operation
        return {
            "argument_of": ARGUMENT_OF,
            "decisions": "instruction, thread-value layouts, operands in memory",
            "units": [[plan.name]],
            "cxx": operation.cxx(),
            "kernel_header": f"mmagen/{plan.kernel_header}.cuh",
            "counted": " " if operation.type_a != "u1" else "x" if "XOR" in operation.name else "a",
            "absent": [name for name in ("E", "SFA", "SFB") if name not in {one.name for one in plan.operands}],
            "metadata": _METADATA.get(operation.sparsity or ""),
        }

    def trials(self, plan: InstructionPlan) -> Trials:
        operation, problem = plan.operation, Problem(shape=plan.tile)
        return Trials(
            judge="instruction",
            cases=tuple((problem, distribution) for distribution in distributions(operation)),
            types=f"{operation.type_a} x {operation.type_b} + {operation.type_d}",
            smem_bytes=plan.smem_bytes,
        )

    def page(self, plan: InstructionPlan) -> list[pages.Section]:
        operation = plan.operation
        what: list[pages.Row] = [
            ("atom", f"{operation.name}, {pages.extents(operation.shape)}, {pages.count(operation.threads, 'thread')}"),
            ("instruction", operation.opcode),
            ("compiled for", ", ".join(plan.arch)),
        ]
        if plan.mended:
            what.append(("mended", plan.mended))
        operands: list[pages.Row] = [(one.name, f"{one.rows} x {one.columns}", one.about, one.place) for one in plan.operands]
        return [("Instruction", what), ("Operands: storage, and (thread, value) -> row + rows * column", operands)]

    def numbers(self, plan: InstructionPlan, device: Device, ptxas: Mapping[str, int]) -> list[Numbers]:
        return []

    def maps(self, plan: InstructionPlan) -> list[Map]:
        return of_operation(plan.operation)


FAMILY: Family[InstructionPlan] = _Instruction()


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
                about=f"metadata of A, one byte per {chunk} logical elements",
                rows=m,
                columns=k // chunk,
                layout=_layout(operation, "E"),
                group=chunk,
            )
        )
    if operation.vector:
        for name, rows in (("SFA", m), ("SFB", n)):
            about = f"{operation.type_sf} scale factors of {name[-1]}, one per {operation.vector} elements"
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
    """The storage of A, B or C: bits, parts and shift of an element."""
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
    """A description of the elements, for a comment."""
    word, bits = _word(operation, name), stored_bits(operation, name)
    words = {"c64": "complex numbers of two f64", "gc64": "Gauss's three products of complex numbers, f64", "u1": "bits"}
    what = words.get(word, word)
    if bits < 8:
        what += f", {8 // bits} per byte, the first in the lowest bits"
    elif formats.bits(word) < 8:
        what += f" in one byte each{', shifted left by two bits' if stored_shift(operation, name) else ''}"
    if name == "A" and operation.sparsity:
        nonzeros, of = operation.sparsity.split(":")
        what += f"; the {nonzeros} nonzeros of each {of} neighbours along K"
    return what


def _text(operation: Operation, kernel: str) -> Text:
    m, n, k = operation.shape
    kind = " sparse" if operation.sparse else " block-scaled" if operation.block_scaled else ""
    opcode = operation.opcode.split(".")[0]
    return Text(
        title=f"one{kind} {m}x{n}x{k} {opcode}, {operation.type_a} x {operation.type_b} + {operation.type_d}",
        formula="D = A * B + C",
        reading=(
            (header(kernel), "the kernel: copy, mma, store"),
            (header("fragment"), "copies between matrices in memory and registers or shared memory"),
        ),
    )
