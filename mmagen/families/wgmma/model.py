"""What the plan of a wgmma GEMM has besides those of every GEMM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from mmagen.families.wgmma import decisions, pieces
from mmagen.families.wgmma.mixed import WeightLayout
from mmagen.families.wgmma.scaling import ScaleLayout
from mmagen.mma.accumulation import Accumulation
from mmagen.mma.atoms import Atom, with_columns
from mmagen.mma.sparse_atoms import SparseAtom
from mmagen.plan import sentences
from mmagen.plan.facts import Facts
from mmagen.plan.model import MOST_BOX_LINES, LaunchShape, Mainloop, Operand
from mmagen.plan.operations import SUMS, columns_of_element
from mmagen.plan.plans import GemmPlan
from mmagen.plan.policies import Policy

TILE_N = Policy(
    "mmagen::Sm90MainloopTileN<Config>",
    "sm90_mainloop_tile_n",
    "wgmma on stages of shared memory that TMA loads; the launch decides how many columns of a tile are computed",
)
_FEW_ROWS_TYPES = ("bf16", "f16", "tf32", "s8", "u8", "e4m3", "e5m2")  # of sm90_few_rows.cuh


@dataclass(frozen=True, kw_only=True)
class WgmmaMainloop(Mainloop):
    """promote: each k tile's sum is added to f32 registers. prefetch: stages prefetched into L2 while the previous kernel still
    runs. scales: of the kernel's A and B, () for neither. scale_bytes: shared memory of those that change along K.
    partial_registers: per thread, for sums of a k tile that are still to be added up, 0 without promotion. weights: of
    the kernel's A, which is converted. pieces: of f32 operands. ring_bytes: shared memory that launches divide into stages, 0 for a
    kernel that is compiled for one width."""

    promote: bool
    prefetch: int
    scales: tuple[ScaleLayout, ...] = ()
    scale_bytes: int = 0
    partial_registers: int = 0
    weights: WeightLayout | None = None
    pieces: pieces.Pieces | None = None
    ring_bytes: int = 0

    @property
    def scales_k(self) -> bool:
        """Do scales change along K?"""
        return any(one.along_k > 0 for one in self.scales)

    @property
    def scales_tile(self) -> bool:
        """Is a finished tile multiplied by scales?"""
        return any(one.kind and not one.along_k for one in self.scales)


@dataclass(frozen=True, kw_only=True)
class WarpgroupRoles:
    """The roles of warpgroups: producer and consumers.

    schedule: warpgroup, cooperative or pingpong. consumers: number of consumer warpgroups. producer_registers,
    consumer_registers: per thread after setmaxnreg, 0 without it; usable_registers: per consumer thread in either case.
    """

    schedule: str
    consumers: int
    producer_registers: int
    consumer_registers: int
    usable_registers: int


@dataclass(frozen=True, kw_only=True)
class WgmmaGemmPlan(GemmPlan):
    """A GEMM with TMA loads and wgmma.

    swapped: the kernel computes the transpose of a call's D, with the call's B as its A. atom, tile, tiled_mma, scheduler and
    `operands` are the kernel's; spec, epilogue.major, operand() and `..._of_d` those of a call.
    """

    mainloop: WgmmaMainloop
    roles: WarpgroupRoles
    swapped: bool = False

    def _operand(self, letter: str) -> Operand:
        one = super()._operand("BA"["AB".index(letter)] if self.swapped else letter)
        if self.swapped:
            one = replace(one, letter=letter, major="K" if one.contiguous_k else "MN"["AB".index(letter)])
        split = self.mainloop.pieces
        return pieces.of_call(one, split.a_major if letter == "A" else split.b_major) if split else one

    @property
    def tile_of_d(self) -> tuple[int, int, int]:
        m, n, k = self.tile
        n = self.scheduler.tile_n or n
        return (n, m, k) if self.swapped else (m, n, k)

    @property
    def cluster_of_d(self) -> tuple[int, int]:
        m, n = self.scheduler.cluster
        return (n, m) if self.swapped else (m, n)

    @property
    def d_row_major(self) -> bool:
        """Are rows of the kernel's D contiguous?"""
        return self.epilogue.row_major != self.swapped

    @property
    def launched_atoms(self) -> tuple[Atom, ...]:
        """The wgmmas of launches that compute so many columns of a tile, the widest first; () if all compute whole tiles."""
        if not self.scheduler.several_widths:
            return ()
        found = sorted({n for launch in self.scheduler.launches for n in launch.columns(self.atom.n)}, reverse=True)
        return tuple(atom for n in found if (atom := with_columns(self.atom, n)))

    @property
    def named_atoms(self) -> tuple[Atom, ...]:
        """The wgmmas that the code names: that of whole tiles, also where no launch computes these, and those of launches."""
        return (self.atom, *(atom for atom in self.launched_atoms if atom.n != self.atom.n))

    def launched(self, launches: tuple[LaunchShape, ...], own: LaunchShape) -> Self:
        one = super().launched(launches, own)
        if not one.scheduler.several_widths:
            return one
        computed, mma, (a, b) = decisions.as_computed(one.spec), one.tiled_mma, one.operands
        widths = [atom.n for atom in one.launched_atoms]
        staged = decisions.epilogue_of_widths(computed, one.atom, mma, one.tile, a, b, widths)
        ring = decisions.ring_bytes(computed, mma, a, b, staged)
        one = replace(
            one,
            mainloop=replace(one.mainloop, ring_bytes=ring),
            epilogue=replace(staged, major=one.epilogue.major),
            smem_bytes=ring + decisions.smem_bytes(computed, mma, 0, a, b, staged),
        )
        if one.mainloop.header == TILE_N.header:
            return one
        reading = [*one.text.reading]
        base = next(i for i, (path, _) in enumerate(reading) if path == sentences.header(one.mainloop.header))
        reading.insert(base + 1, (sentences.header(TILE_N.header), TILE_N.what))  # which is built on it
        mainloop = replace(one.mainloop, cxx=TILE_N.cxx, header=TILE_N.header)
        return replace(one, mainloop=mainloop, text=replace(one.text, reading=tuple(reading)))

    @property
    def stages(self) -> int:
        """Of this launch; if its calls decide how many columns they compute, of whole tiles."""
        return self.stages_of(self.scheduler.tile_n or self.tile[1])

    def stages_of(self, columns: int) -> int:
        """Stages of a launch that computes so many columns of a tile."""
        if not (ring := self.mainloop.ring_bytes):
            return self.mainloop.stages
        a, b = self.operands
        return decisions.ring_stages(self.spec, self.tiled_mma, a, b, self.epilogue, ring, columns)

    def stages_and_buffers(self, columns: int, k: int) -> tuple[int, int]:
        """Of a call with so many columns of a tile and extent K: stages, and buffers of the epilogue for each warpgroup."""
        if not (ring := self.mainloop.ring_bytes):
            return self.mainloop.stages, self.epilogue.buffers
        a, b = self.operands
        k_tiles = -(-k // self.tile[2])
        return decisions.stages_and_buffers(self.spec, self.tiled_mma, a, b, self.epilogue, ring, columns, k_tiles)

    @property
    def most_stages(self) -> int:
        return max((self.stages_of(atom.n) for atom in self.launched_atoms), default=self.stages)

    def why_not_tile_n(self, tile_n: int) -> str:
        a, b = self.operands
        share, line = 8 * self.scheduler.cluster[0], 16 * columns_of_element(self.epilogue.operations)
        reasons = {
            f"the tile has {self.tile[1]} columns, of several {self.atom.name}": self.tile[1] != self.atom.n,
            f"{b.letter} has {b.mode} contiguous": not b.contiguous_k,
            f"{a.letter} is read from registers": self.atom.a_in_registers,
            "the sums of k tiles are promoted": self.mainloop.promote,
            f"groups are {self.scheduler.grouped}": bool(self.scheduler.grouped),
            f"the tile has no more than {self.tile[1]}": tile_n >= self.tile[1],
            f"there is no {self.atom.name} of that N": with_columns(self.atom, tile_n) is None,
            f"each of {self.scheduler.cluster[0]} CTAs loads a share of B, whose rows are a multiple of 8": tile_n % share > 0,
            "rows of D in a tile are not a multiple of 16 bytes": self.d_row_major
            and tile_n * self.epilogue.out.bytes % line > 0,
        }
        return next((why for why, holds in reasons.items() if holds), "")

    @property
    def compiled_for_cluster(self) -> str:
        reasons = {
            f"schedule {self.roles.schedule} has no clusters": self.roles.schedule == "warpgroup",
            f"{self.scheduler.split_k} CTAs of a cluster share the K of a tile": self.scheduler.split_k > 1,
            "A is sparse": isinstance(self.atom, SparseAtom),
            "operands have scales": bool(self.mainloop.scales),
            "A is converted from weights": self.mainloop.weights is not None,
            "operands are split into pieces": self.mainloop.pieces is not None,
        }
        reasons |= {
            f"a tile of {one.letter} has {one.extent_across} lines, of which TMA loads {MOST_BOX_LINES} in a box": True
            for one in self.operands
            if one.extent_across > MOST_BOX_LINES
        }
        return next((why for why, holds in reasons.items() if holds), "")

    @property
    def copies_operands(self) -> bool:
        if self.configs:
            return super().copies_operands
        return not (self.loads_by_tma_alone or self.mainloop.pieces)

    @property
    def few_rows(self) -> bool:
        """A library has it where sm90_few_rows.cuh can compute what its kernels do: operands of one type that mma.sync multiplies,
        with K contiguous, and an epilogue that takes each sum on its own."""
        a, b = map(self.operand, "AB")
        loadable = a.element == b.element and a.element.word in _FEW_ROWS_TYPES and a.major == b.major == "K"
        gathers = {one.word for one in self.epilogue.operations} & {*SUMS, "amax", "gated"}
        other_sums = self.atom.type_d.word == "f16" or any(
            one.spec.scale or (isinstance(one, WgmmaGemmPlan) and one.mainloop.promote) for one in self.kernels
        )
        return bool(self.configs) and self.copies_operands and loadable and not (gathers or other_sums)

    @property
    def loads_by_tma_alone(self) -> bool:
        if self.configs:
            return any(one.loads_by_tma_alone for one in self.kernels)
        return bool(self.scheduler.grouped or self.mainloop.weights) or isinstance(self.atom, SparseAtom)

    @property
    def bytes_of_pieces(self) -> int:
        split = self.mainloop.pieces
        return split.count * self.operands[0].element.bytes if split else 0

    @property
    def needs_workspace(self) -> str:
        if self.scheduler.describes_groups:
            return "tensor maps and sizes of the groups"
        return "the bf16 pieces of A and B" if self.mainloop.pieces else ""

    @property
    def facts(self) -> Facts:
        splits = [one.mainloop.pieces for one in self.kernels if isinstance(one, WgmmaGemmPlan) and one.mainloop.pieces]
        return replace(super().facts, most_k=min(one.most_k for one in splits)) if splits else super().facts

    @property
    def chosen(self) -> dict[str, str]:
        return {
            "schedule": self.roles.schedule,
            "cluster": " x ".join(map(str, self.scheduler.cluster)),
            "split_k": str(self.scheduler.split_k),
            **super().chosen,
            "stages": str(self.stages_of(self.tile[1])),  # as the spec counts them, of whole tiles
        }

    @property
    def accumulation(self) -> Accumulation:
        """The k tiles come in order."""
        one = super().accumulation
        if self.configs:
            return one
        weights = self.mainloop.weights
        promoted = weights.chunk if weights else self.tile[2] if self.mainloop.promote else 0
        split = self.mainloop.pieces
        if split:
            one = replace(one, products=len(split.products), left_out=split.left_out)
        return replace(one, turns=1, promoted=promoted)
