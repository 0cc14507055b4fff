"""The plan of a kernel of a single instruction: frozen values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mmagen.core.layout_text import LayoutText
from mmagen.plan import cxx
from mmagen.plan.facts import Facts
from mmagen.plan.project import ProjectPlan

if TYPE_CHECKING:
    from mmagen.mma.accumulation import Accumulation
    from mmagen.mma.operation import Operation

# Members of the C interface's argument struct.
ARGUMENT_OF = {"A": "a", "B": "b", "C": "c", "E": "metadata_a", "SFA": "scale_a", "SFB": "scale_b"}


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """An operand in memory: (rows, columns), columns contiguous, packed elements of `bits`. parts: real numbers per complex
    element, else 1; shift: first bit of the code within each part."""

    name: str
    about: str
    rows: int
    columns: int
    bits: int = 8
    parts: int = 1
    shift: int = 0

    @property
    def part_bits(self) -> int:
        return self.bits // self.parts

    @property
    def smem_bytes(self) -> int:
        """Its bytes of shared memory."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Fragment(Matrix):
    """An operand in registers. layout: (thread, value) -> row + rows * column of the logical matrix, of which each `group`
    neighbours along the columns are stored as `kept`."""

    layout: LayoutText
    group: int = 1
    kept: int = 1

    @property
    def cxx(self) -> str:
        """The kernel's C++ type for it."""
        groups = f", {self.group}, {self.kept}" if self.group > 1 else ""
        return f"mmagen::Fragment<{cxx.layout(self.layout)},\n{' ' * 29}{self.rows}, {self.columns}, {self.bits}{groups}>"

    @property
    def place(self) -> str:
        """Where the instruction reads it."""
        return str(self.layout)


@dataclass(frozen=True, kw_only=True)
class CoreMatrices(Matrix):
    """An operand in shared memory, read by wgmma."""

    @property
    def row_bytes(self) -> int:
        return self.columns * self.bits // 8

    @property
    def cxx(self) -> str:
        """The kernel's C++ type for it."""
        return f"mmagen::CoreMatrices<{self.rows}, {self.row_bytes}>"

    @property
    def smem_bytes(self) -> int:
        return self.rows * self.row_bytes

    @property
    def place(self) -> str:
        """Where the instruction reads it."""
        return f"{self.smem_bytes} B of shared memory, core matrices"


@dataclass(frozen=True, kw_only=True)
class InstructionPlan(ProjectPlan):
    """A project of a single instruction.

    kernel_header: the header of its kernel. operands: A, B, C and, if present, E, SFA, SFB, in that order. group: neighbours of
    a sparse A of which half are kept, else 1. mended: the flaw of the operation in the CUTLASS headers that the project
    corrects, or "".
    """

    operation: Operation
    kernel_header: str
    operands: tuple[Fragment | CoreMatrices, ...]
    group: int
    mended: str

    @property
    def requires(self) -> str:
        return self.operation.arch

    @property
    def note(self) -> str:
        if not self.mended:
            return ""
        return f"CUTLASS's layouts of this atom are wrong; the project uses those of the PTX ISA ({self.mended})"

    @property
    def extended(self) -> bool:
        return self.operation.extended

    @property
    def tile(self) -> tuple[int, int, int]:
        """The shape of the instruction, which is also that of its problem."""
        return self.operation.shape

    @property
    def accumulation(self) -> Accumulation:
        """What the instruction keeps of its sums."""
        return self.operation.accumulation

    def operand(self, name: str) -> Fragment | CoreMatrices:
        """The operand called A, B, C, E, SFA or SFB. Raises KeyError if absent."""
        return {one.name: one for one in self.operands}[name]

    @property
    def facts(self) -> Facts:
        about = super().facts
        inputs = {ARGUMENT_OF[one.name]: one.about for one in self.operands}
        return replace(
            about,
            bytes=(16, 16, 16, 8),
            smem_bytes=self.smem_bytes,
            description={**about.description, "shape": [*self.tile], "operands": inputs},
        )

    @property
    def smem_bytes(self) -> int:
        return sum(one.smem_bytes for one in self.operands)
