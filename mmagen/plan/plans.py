"""The plans of kernels that are built from a TiledMMA: everything that `render` writes down.

Byte counts are per CTA, register counts per thread. A plan names its family; everything specific to a kind of kernel is a
method of the family (mmagen.families).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mmagen.core.layout_text import LayoutText
from mmagen.mma.accumulation import Accumulation, loosest
from mmagen.mma.atoms import Atom
from mmagen.plan.model import Epilogue, Operand, TiledMma
from mmagen.spec.kernel import When
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:  # imports the layout algebra, which is slow, and only ownership kernels need it
    from mmagen.mma.ownership import Ownership


@dataclass(frozen=True)
class Text:
    """Sentences in the files of a project.

    title: one line. formula: what a call computes. storage: a note on how a type is stored, or "". shape: the error message of
    a fixed-shape kernel for any other shape; shape_note: when it is returned. peak_operands: where the peak-rate loop of bench
    keeps its operands. reading: the headers to read, in order, each with its purpose.
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
    """Common fields of all plans. family: the registered module of its family; arch: target architectures of the project."""

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
        """A note that `build` prints for the user, or ""."""
        return ""

    @property
    def extended(self) -> bool:
        """Does it need CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED?"""
        return False

    @property
    def chosen(self) -> dict[str, str]:
        """What was decided for keys that a spec may leave out, by key."""
        return {"arch": ", ".join(self.arch)}

    @property
    def maps_are_verified(self) -> bool:
        """Is the map of owners what `verify` compares?"""
        return False

    @property
    def by_config(self) -> dict[str, ProjectPlan]:
        """The plan of each kernel by the name of its config; {"": self} for a single kernel."""
        return {"": self}


@dataclass(frozen=True, kw_only=True)
class TilePlan(ProjectPlan):
    """A kernel whose CTA computes a tile (M, N, K) with a TiledMMA. threads: per CTA."""

    atom: Atom
    tiled_mma: TiledMma
    tile: tuple[int, int, int]
    threads: int

    @property
    def extended(self) -> bool:
        return self.atom.extended

    @property
    def chosen(self) -> dict[str, str]:
        return {"tile": " x ".join(map(str, self.tile)), **super().chosen}


@dataclass(frozen=True, kw_only=True)
class OwnershipPlan(TilePlan):
    """kernel: ownership. Which thread and value own each element of A, B and C.

    staged: the operands that the instruction reads from shared memory, in smem_bytes.
    """

    ownership: tuple[Ownership, ...]
    staged: tuple[Operand, ...] = ()
    smem_bytes: int = 0

    @property
    def maps_are_verified(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class ProductPlan(TilePlan):
    """A kernel that computes a matrix product.

    operands: A and B, in that order, then other inputs. smem_limit: maximum bytes of shared memory per CTA on every
    architecture of `arch`.
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
    def accumulation(self) -> Accumulation:
        """What the kernel keeps of its sums."""
        mma = self.tiled_mma
        return replace(self.atom.accumulation, shuffled=mma.atoms[2] > 1 or isinstance(mma.permutation[2], LayoutText))

    @property
    def stages(self) -> int:
        """Tiles of A and B in shared memory."""
        return 1

    @property
    def takes_workspace(self) -> bool:
        """Can a call use a workspace in device memory?"""
        return False

    def work_of_a_cta(self, problem: Problem, clusters: int) -> tuple[int, int]:
        """(work tiles, k tiles of each), at most, that one CTA of a launch of so many clusters computes."""
        return 1, 1

    @property
    def stage_bytes(self) -> int:
        """Bytes of one stage, all operands together."""
        return sum(one.bytes_per_stage for one in self.operands)


@dataclass(frozen=True, kw_only=True)
class MicroPlan(ProductPlan):
    """One CTA, one tile."""


@dataclass(frozen=True)
class Mainloop:
    """How A and B are loaded and multiplied. cxx: the policy class; header: its file; stages: of the pipeline."""

    cxx: str
    header: str
    stages: int


@dataclass(frozen=True)
class TileScheduler:
    """The assignment of work tiles, and of parts of K, to CTAs.

    raster_group: rows of tiles (of clusters) per band, which reuses columns of B in L2. cluster: CTAs along M and N that share
    operands by multicast. split_k: CTAs that split the K of a tile. persistent: a CTA computes several tiles. stream_k: all
    CTAs share the tiles of a partial last wave, which requires a workspace.
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

    configs: the kernels of a library, () for a single kernel. The other fields of a library's plan are those of its last
    config.
    """

    mainloop: Mainloop
    scheduler: TileScheduler
    ctas_per_sm: int
    configs: tuple[Config, ...] = ()

    @property
    def accumulation(self) -> Accumulation:
        """The residue k tile comes first. Of a library: what its kernels have in common."""
        if self.configs:
            return loosest(config.plan.accumulation for config in self.configs)
        return replace(super().accumulation, turns=2)

    @property
    def stages(self) -> int:
        return self.mainloop.stages

    @property
    def chosen(self) -> dict[str, str]:
        scheduler = self.scheduler
        return {
            "stages": str(self.stages),
            "ctas_per_sm": str(self.ctas_per_sm),
            "raster": str(scheduler.raster_group * scheduler.cluster[0]),
            **super().chosen,
        }

    @property
    def by_config(self) -> dict[str, ProjectPlan]:
        return {config.name: config.plan for config in self.configs} or {"": self}

    @property
    def kernels(self) -> tuple[GemmPlan, ...]:
        """The plans of the configs, or the plan itself for a single kernel."""
        return tuple(config.plan for config in self.configs) or (self,)

    @property
    def extended(self) -> bool:
        return any(one.atom.extended for one in self.kernels)

    @property
    def takes_workspace(self) -> bool:
        return any(one.scheduler.stream_k for one in self.kernels)

    def work_of_a_cta(self, problem: Problem, clusters: int) -> tuple[int, int]:
        m, n, k = (-(-extent // of_tile) for extent, of_tile in zip(problem.shape, self.tile, strict=True))
        across, along = self.scheduler.cluster
        tiles = -(-m // across) * -(-n // along) * problem.batch
        # A part of a tile, of those that are shared, comes before the whole ones.
        return -(-tiles // clusters) + self.scheduler.stream_k, -(-k // self.scheduler.split_k)


@dataclass(frozen=True)
class Config:
    """One kernel of a library: its plan, and the rule for its problems (None: all that no earlier config takes)."""

    name: str
    when: When | None
    plan: GemmPlan
