"""The plans of kernels that are built from a TiledMMA: everything that `render` writes down.

Byte counts are per CTA, register counts per thread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from mmagen.core.layout_text import LayoutText
from mmagen.mma.accumulation import Accumulation, loosest
from mmagen.mma.atoms import Atom
from mmagen.mma.definition import Definition, definition
from mmagen.plan.facts import MOST_COUNTED, Facts
from mmagen.plan.model import Epilogue, LaunchShape, Mainloop, Operand, TiledMma, TileScheduler
from mmagen.plan.operations import columns_of_element
from mmagen.plan.project import ProjectPlan
from mmagen.spec.cost import Cost
from mmagen.spec.kernel import When
from mmagen.spec.model import Problem

if TYPE_CHECKING:  # imports the layout algebra, which is slow, and only ownership kernels need it
    from mmagen.mma.ownership import Ownership


@dataclass(frozen=True, kw_only=True)
class TilePlan(ProjectPlan):
    """A kernel whose CTA computes a tile (M, N, K) with a TiledMMA. threads: per CTA."""

    atom: Atom
    tiled_mma: TiledMma
    tile: tuple[int, int, int]
    threads: int

    @property
    def requires(self) -> str:
        return self.atom.default_arch

    @property
    def extended(self) -> bool:
        return self.atom.needs_extended_headers

    @property
    def definition(self) -> Definition | None:
        """The operation, where the project defines it itself."""
        return definition(self.atom)

    @property
    def chosen(self) -> dict[str, str]:
        return {"tile": " x ".join(map(str, self.tile)), **super().chosen}

    @property
    def derived(self) -> tuple[str, ...]:
        """Of the TiledMMA: threads, what it covers, and the multiples that follow."""
        atom, mma = self.atom, self.tiled_mma
        count, others = math.prod(mma.atoms), self.threads - mma.threads
        beside = f", and {others} that load or take turns" if others else ""
        shape = (atom.m, atom.n, atom.k)
        alone = tuple(number * extent for number, extent in zip(mma.atoms, shape, strict=True))
        repeats = tuple(extent // covered for extent, covered in zip(self.tile, mma.extent, strict=True))
        covered, of_atoms, of_tile = (" x ".join(map(str, extents)) for extents in (mma.extent, alone, repeats))
        return (
            f"threads {self.threads}: {count} atom{'s' * (count != 1)} of {atom.threads}{beside}",
            f"the TiledMMA covers {covered}: "
            + ("what the atoms cover" if mma.extent == alone else f"by the permutation, in multiples of the atoms' {of_atoms}"),
            f"the CTA tile is {of_tile} of it, and so a multiple",
            f"each thread has {self.tile[0] * self.tile[1] // (mma.threads // mma.atoms[2])} of the tile's sums",
        )


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
        inputs = " x ".join(self.operand(one.letter).multiplied for one in self.operands)
        return f"{inputs} + {self.atom.type_d.word} -> {self.epilogue.out.word}"

    @property
    def ignores_scalars(self) -> bool:
        words = {one.word for one in self.epilogue.operations}
        return bool(words) and not {"alpha", "beta_c"} <= words

    @property
    def parts(self) -> tuple[str, ...]:
        """What the kernel has beyond D = alpha * A * B + beta * C, by the names that `verify` knows."""
        made = {"epilogue": self.epilogue.operations, "packed": self.operand("A").packed > 1}
        own = (name for name, has in made.items() if has)
        return tuple(dict.fromkeys((*(one.part for one in self.arguments.all), *own)))

    @cached_property
    def majors(self) -> tuple[str, str, str]:
        """The contiguous modes of A, B and D."""
        return self.operand("A").major, self.operand("B").major, self.epilogue.major

    def operand(self, letter: str) -> Operand:
        """The operand of a call of that letter, "A" or "B"."""
        return self._by_letter[letter]

    @cached_property
    def _by_letter(self) -> Mapping[str, Operand]:
        """Cached: mmagen tune asks for operands a million times."""
        return {one.letter: self._operand(one.letter) for one in self.operands}

    def _operand(self, letter: str) -> Operand:
        """What operand() returns."""
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
    def leaves_flags(self) -> bool:
        """Does a call leave anything in its workspace that another call with the same parameters reads?"""
        return False

    @property
    def most_launches(self) -> int:
        """Kernels that one call launches, at most."""
        return 1

    def work_of_a_cta(self, problem: Problem, clusters: int) -> tuple[int, int]:
        """(work tiles, k tiles of each), at most, that one CTA of a launch of so many clusters computes."""
        return 1, 1

    @property
    def facts(self) -> Facts:
        a, b, d = self.operand("A").element, self.operand("B").element, self.epilogue.out
        a_major, b_major, d_major = self.majors
        about, columns = super().facts, columns_of_element(self.epilogue.operations)
        matrices: dict[str, Any] = {
            "a": {"type": a.word, "contiguous": a_major, **self._stored_a},
            "b": {"type": b.word, "contiguous": b_major} | self._packed,
            "d": {"type": d.word, "contiguous": d_major} | ({"columns_of_element": columns} if columns > 1 else {}),
            "accumulator": self.atom.type_d.word,
            "scalar": self.epilogue.scalar.word,
            "shape": None if self.any_shape else [*self.tile],
            "workspace": self.takes_workspace,
            "configs": [],
        }
        return replace(
            about,
            majors=self.majors,
            bytes=(a.bytes, b.bytes, d.bytes, self.epilogue.scalar.bytes),
            smem_bytes=self.smem_bytes,
            shape=self.text.shape,
            group_a=self.operand("A").group // self.operand("A").packed,
            kept_a=self.operand("A").kept,
            packed_b=self.operand("B").group,
            packed_a=self.operand("A").packed,
            description={**about.description, **matrices},
            columns_of_element=columns,
        )

    @property
    def _stored_a(self) -> dict[str, int | str]:
        """For the description of an A of packed elements: how many are one in memory. Of a sparse A: of each group along K so many
        are kept; the contiguous mode before compression."""
        one = self.operand("A")
        if one.packed > 1:
            return {"packed": one.packed}
        return {"group": one.group, "kept": one.kept, "dense": self.spec.layout.a_major} if one.group > 1 else {}

    @property
    def _packed(self) -> dict[str, int]:
        """For the description of a B of which several elements are one in memory: how many."""
        return {"packed": self.operand("B").group} if self.operand("B").group > 1 else {}

    @property
    def stage_bytes(self) -> int:
        """Bytes of one stage, all operands together."""
        return sum(one.bytes_per_stage for one in self.operands)


@dataclass(frozen=True, kw_only=True)
class MicroPlan(ProductPlan):
    """One CTA, one tile."""


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
    def tile_of_d(self) -> tuple[int, int, int]:
        """The CTA tile, M and N those of D."""
        return self.tile

    @property
    def cluster_of_d(self) -> tuple[int, int]:
        """CTAs of a cluster along M and N of D."""
        return self.scheduler.cluster

    @property
    def accumulation(self) -> Accumulation:
        """The residue k tile comes first. Of a library: what its kernels have in common."""
        if self.configs:
            return loosest(config.plan.accumulation for config in self.configs)
        one = super().accumulation
        return replace(one, turns=2, residue=self.tile[2] if one.of_pieces else 0)

    @property
    def any_shape(self) -> bool:
        return True

    @property
    def stages(self) -> int:
        return self.mainloop.stages

    @property
    def most_stages(self) -> int:
        """Those of the launch that has the most."""
        return self.stages

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

    def launched(self, launches: tuple[LaunchShape, ...], own: LaunchShape) -> Self:
        """This plan as `own` of the launches of its kernel; () for a kernel that is compiled for it."""
        return replace(self, scheduler=replace(self.scheduler, launches=launches, tile_n=own.tile_n, widths=own.widths))

    def why_not_tile_n(self, tile_n: int) -> str:
        """Why a launch cannot compute so many columns of a tile, or ""."""
        return f"{self.atom.name} has no narrower form"

    @property
    def compiled_for_cluster(self) -> str:
        """Why a launch cannot decide on the cluster, or ""."""
        return f"{self.atom.name} has no clusters"

    @property
    def by_kernel(self) -> dict[str, ProjectPlan]:
        found: dict[str, ProjectPlan] = {}
        for config in self.configs:
            found.setdefault(config.kernel, config.plan)
        return found or {"": self}

    @property
    def kernels(self) -> tuple[GemmPlan, ...]:
        """The plans of the configs, or the plan itself for a single kernel."""
        return tuple(config.plan for config in self.configs) or (self,)

    @property
    def extended(self) -> bool:
        return any(one.atom.needs_extended_headers for one in self.kernels)

    @property
    def bytes_of_pieces(self) -> int:
        """Of an element of A or B, in the workspace, from which the kernel then loads it; 0 where it loads what a call passes."""
        return 0

    @property
    def copies_operands(self) -> bool:
        """Does a call copy operands that the kernel cannot address to its workspace, where that pays?"""
        return any(one.copies_operands for one in self.kernels if one is not self)

    @property
    def sums_in_workspace(self) -> bool:
        return any(one.scheduler.takes_workspace for one in self.kernels)

    @property
    def selects_width(self) -> bool:
        return bool(self.scheduler.widths)

    @property
    def takes_workspace(self) -> bool:
        return self.kernels_take_workspace or self.copies_operands

    @property
    def workspace_use(self) -> str:
        """What it is for."""
        uses = {
            "partial sums": self.sums_in_workspace,
            "copies of operands that do not meet TMA's alignment requirements": self.copies_operands,
        }
        return " and ".join([*filter(None, (self.needs_workspace,)), *(use for use, has in uses.items() if has)])

    @property
    def leaves_flags(self) -> bool:
        return any(one.scheduler.shares_last_wave for one in self.kernels)

    @property
    def most_launches(self) -> int:
        of_one = max(1 if one.scheduler.workspace_splits is None else 2 for one in self.kernels)
        return of_one + (self.copies_operands or bool(self.needs_workspace))

    @property
    def facts(self) -> Facts:
        about = super().facts
        return replace(
            about,
            smem_bytes=max(one.smem_bytes for one in self.kernels),
            cluster_ctas=max(one.scheduler.cluster_ctas for one in self.kernels),
            most_k=self._most_k,
            description={**about.description, "configs": [config.name for config in self.configs]},
        )

    @property
    def _most_k(self) -> int:
        """The longest K of a sparse A, else 0: kernels count the words of a line of metadata in 32 bits."""
        lines = [one.columns for one in self.arguments.tensors if one.part == "sparse"]
        return min((MOST_COUNTED // one.times * one.step for one in lines), default=0)

    def tiles_of(self, problem: Problem) -> int:
        """Output tiles of clusters, of all matrices of a batch or of all groups."""
        (m, n, _), (across, along) = self.tile_of_d, self.cluster_of_d
        shapes = problem.groups.shapes(problem.n, problem.k) if problem.groups else (problem.shape,)
        of_each = sum(-(-rows // (m * across)) * -(-columns // (n * along)) for rows, columns, _ in shapes)
        return of_each if problem.groups else of_each * problem.batch

    def work_of_a_cta(self, problem: Problem, clusters: int) -> tuple[int, int]:
        k, tiles = max(-(-problem.k // self.tile_of_d[2]), 1), self.tiles_of(problem)
        if self.scheduler.workspace_splits is not None:
            splits = min(self.scheduler.workspace_splits or clusters, k)
            return -(-tiles * splits // clusters), -(-k // splits) if self.scheduler.workspace_splits else k
        # A part of a tile, of those that are shared, comes before the whole ones.
        return -(-tiles // clusters) + self.scheduler.shares_last_wave, -(-k // self.scheduler.split_k)


@dataclass(frozen=True)
class Config:
    """One choice of a library: its plan, and the rule for its problems. Configs without a rule share what no rule takes: each
    problem goes to the one with the least predicted time.

    kernel: the name of the compiled kernel; several choices may launch the same one in other clusters.
    """

    name: str
    when: When | None
    plan: GemmPlan
    cost: Cost | None = None
    kernel: str = ""
