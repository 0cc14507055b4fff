"""The decisions for a kernel of one instruction: plain frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmagen.core.layout_text import LayoutText
from mmagen.plan import cxx
from mmagen.plan.plans import ProjectPlan

if TYPE_CHECKING:
    from mmagen.mma.operation import Operation


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """An operand in memory: (rows, columns), columns contiguous, elements of `bits` without gaps. parts: real numbers of a
    complex element, else 1; shift: where the code begins in the bits of each."""

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
        """What it takes of shared memory."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Fragment(Matrix):
    """One that goes to registers. layout: (thread, value) -> row + rows * column of the logical matrix, of which each
    `group` neighbours along the columns are stored as `kept`."""

    layout: LayoutText
    group: int = 1
    kept: int = 1

    @property
    def cxx(self) -> str:
        """The type that the kernel takes it as."""
        groups = f", {self.group}, {self.kept}" if self.group > 1 else ""
        return f"mmagen::Fragment<{cxx.layout(self.layout)},\n{' ' * 29}{self.rows}, {self.columns}, {self.bits}{groups}>"

    @property
    def place(self) -> str:
        """Where it lies for the instruction."""
        return str(self.layout)


@dataclass(frozen=True, kw_only=True)
class CoreMatrices(Matrix):
    """One that goes to shared memory, where wgmma reads it."""

    @property
    def row_bytes(self) -> int:
        return self.columns * self.bits // 8

    @property
    def cxx(self) -> str:
        """The type that the kernel takes it as."""
        return f"mmagen::CoreMatrices<{self.rows}, {self.row_bytes}>"

    @property
    def smem_bytes(self) -> int:
        return self.rows * self.row_bytes

    @property
    def place(self) -> str:
        """Where it lies for the instruction."""
        return f"{self.smem_bytes} B of shared memory, core matrices"


@dataclass(frozen=True, kw_only=True)
class InstructionPlan(ProjectPlan):
    """A project of one instruction.

    kernel_header: where its kernel stands. operands: A, B, C and what else there is of E, SFA, SFB, in that order. group: of
    a sparse A, neighbours of which half are kept, else 1. mended: what is wrong with the operation in the CUTLASS headers
    and right in the project, or "".
    """

    operation: Operation
    kernel_header: str
    operands: tuple[Fragment | CoreMatrices, ...]
    group: int
    mended: str

    @property
    def note(self) -> str:
        if not self.mended:
            return ""
        return f"CUTLASS's own layouts of this atom are wrong, the project has the PTX ISA's ({self.mended})"

    @property
    def extended(self) -> bool:
        return self.operation.extended

    @property
    def tile(self) -> tuple[int, int, int]:
        """The shape of the instruction, which is that of its problem."""
        return self.operation.shape

    def operand(self, name: str) -> Fragment | CoreMatrices:
        """The one called A, B, C, E, SFA or SFB. KeyError where there is none."""
        return {one.name: one for one in self.operands}[name]

    @property
    def smem_bytes(self) -> int:
        return sum(one.smem_bytes for one in self.operands)
