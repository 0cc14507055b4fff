"""The plans of kernels that are built from a TiledMMA: everything that `render` writes down.

Byte counts are per CTA, register counts per thread. A plan names the family that made it; what else there is to ask of a
kind of kernel is asked of that family (mmagen.families).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmagen.mma.atoms import Atom
from mmagen.plan.model import Epilogue, Operand, TiledMma
from mmagen.spec.kernel import When
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:  # the layout algebra takes long to import, and only ownership kernels need it
    from mmagen.mma.ownership import Ownership


@dataclass(frozen=True)
class Text:
    """Sentences that a project carries.

    title: one line. formula: what a call computes. storage: a warning about how a type is stored, or "".
    shape: what a kernel of fixed shape says to any other shape; shape_note: when it does. peak_operands: where the loop
    that bench divides by has its operands. reading: the headers worth reading, in order, each with what it does.
    """

    title: str
    formula: str = ""
    storage: str = ""
    shape: str = ""
    shape_note: str = ""
    peak_operands: str = ""
    reading: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProjectPlan:
    """What every plan says. family: the registered name of the family that made it; arch: what the project is compiled for."""

    family: str
    spec: Spec
    spec_sha: str
    arch: tuple[str, ...]
    text: Text
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def kernel(self) -> str:
        return self.spec.kernel

    @property
    def note(self) -> str:
        """What to tell the user of a build, or ""."""
        return ""

    @property
    def extended(self) -> bool:
        """Does it need the wgmma shapes that CuTe defines in headers of their own?"""
        return False

    @property
    def by_config(self) -> dict[str, ProjectPlan]:
        """The plan of each kernel by the name of its config; the plan itself, by "", where there is one kernel."""
        return {"": self}


@dataclass(frozen=True, kw_only=True)
class TilePlan(ProjectPlan):
    """A kernel whose CTA works on a tile (M, N, K) with a TiledMMA. threads: of a CTA."""

    atom: Atom
    tiled_mma: TiledMma
    tile: tuple[int, int, int]
    threads: int

    @property
    def extended(self) -> bool:
        return self.atom.extended


@dataclass(frozen=True, kw_only=True)
class OwnershipPlan(TilePlan):
    """ownership: who owns each element of A, B and C."""

    ownership: tuple[Ownership, ...]


@dataclass(frozen=True, kw_only=True)
class ProductPlan(TilePlan):
    """A kernel that multiplies.

    operands: A and B, in that order, and then whatever else the kernel reads. smem_limit: bytes of shared memory that a
    CTA may have on every architecture of `arch`.
    """

    operands: tuple[Operand, ...]
    epilogue: Epilogue
    smem_bytes: int
    smem_limit: int
    accumulator_registers: int
    fragment_registers: int

    @property
    def types(self) -> str:
        """`f16 x f16 + f32 -> f16`."""
        inputs = " x ".join(one.element.word for one in self.operands)
        return f"{inputs} + {self.atom.type_d.word} -> {self.epilogue.out.word}"

    @property
    def majors(self) -> tuple[str, str, str]:
        """The contiguous modes of A, B and D."""
        return self.operand("A").major, self.operand("B").major, self.epilogue.major

    def operand(self, letter: str) -> Operand:
        """The operand of that letter, "A" or "B"."""
        return next(one for one in self.operands if one.letter == letter)

    @property
    def stages(self) -> int:
        """Tiles of A and B that shared memory holds at once."""
        return 1

    @property
    def takes_workspace(self) -> bool:
        """Does a call of it take a workspace in device memory?"""
        return False

    @property
    def stage_bytes(self) -> int:
        """Of all operands, one stage."""
        return sum(one.bytes_per_stage for one in self.operands)


@dataclass(frozen=True, kw_only=True)
class MicroPlan(ProductPlan):
    """One CTA, one tile."""


@dataclass(frozen=True)
class Mainloop:
    """How A and B reach the tensor core. cxx: the policy class; header: where it stands; stages: tiles in flight."""

    cxx: str
    header: str
    stages: int


@dataclass(frozen=True)
class TileScheduler:
    """Which CTA computes which tile of D, and which part of K.

    raster_group: rows of tiles (of clusters) of a band that shares columns of B in L2. cluster: CTAs along M and N that
    share operands by multicast. split_k: CTAs that share the K of a tile. persistent: a CTA computes several tiles.
    stream_k: all CTAs share the tiles of a partial last wave, and need a workspace for it.
    """

    raster_group: int
    cluster: tuple[int, int] = (1, 1)
    split_k: int = 1
    persistent: bool = False
    stream_k: bool = False

    @property
    def cluster_ctas(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.split_k


@dataclass(frozen=True, kw_only=True)
class GemmPlan(ProductPlan):
    """Any M, N, K, leading dimensions and batch.

    configs: the kernels of a library that chooses between several; what they share is then said by the last one's plan,
    whose fields the library's plan has.
    """

    mainloop: Mainloop
    scheduler: TileScheduler
    ctas_per_sm: int
    configs: tuple[Config, ...] = ()

    @property
    def stages(self) -> int:
        return self.mainloop.stages

    @property
    def by_config(self) -> dict[str, ProjectPlan]:
        return {config.name: config.plan for config in self.configs} or {"": self}

    @property
    def kernels(self) -> tuple[GemmPlan, ...]:
        """The plan of each kernel: its own, or those of its configs."""
        return tuple(config.plan for config in self.configs) or (self,)

    @property
    def extended(self) -> bool:
        return any(one.atom.extended for one in self.kernels)

    @property
    def takes_workspace(self) -> bool:
        return any(one.scheduler.stream_k for one in self.kernels)


@dataclass(frozen=True)
class Config:
    """One kernel of a library: the problems that it is for, unless an earlier one is (None: all), and its own plan."""

    name: str
    when: When | None
    plan: GemmPlan
