"""What `plan` decides, as frozen values that print themselves and that a test can build by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmagen.core.layout_text import LayoutText
from mmagen.mma.atoms import Atom, ElementType
from mmagen.spec.kernel import When
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:  # the layout algebra takes long to import, and only ownership kernels need it
    from mmagen.mma.ownership import Ownership


@dataclass(frozen=True)
class TiledMma:
    """The TiledMMA: atoms_layout and permutation are the spec's; the rest follows.

    extent: the tile (M, N, K) that all threads cover together once, in elements.
    """

    atoms_layout: LayoutText
    atoms: tuple[int, int, int]
    permutation: tuple[int | LayoutText | None, ...]
    extent: tuple[int, int, int]
    threads: int


@dataclass(frozen=True)
class Swizzle:
    """CuTe's Swizzle<bits, base, shift> in units of elements; bits == 0 is the identity."""

    bits: int
    base: int
    shift: int


@dataclass(frozen=True)
class Fill:
    """How the threads of a CTA cover an operand tile when it is copied from global memory.

    threads: (along, across) the contiguous mode; vector: elements per access along it.
    """

    along: int
    across: int
    vector: int

    @property
    def threads(self) -> int:
        return self.along * self.across


@dataclass(frozen=True)
class Tma:
    """How TMA brings an operand's tile: in panels of one line's width along the contiguous mode.

    swizzle_bytes: width of a line, over which 16-byte chunks are swizzled (16: they are not). panels: of the tile.
    box_across: lines of a box; boxes: of each panel, that one CTA loads (for all that share the tile). hint: how L2 should
    treat what is read, a value of mmagen::CacheHint.
    """

    swizzle_bytes: int
    panels: int
    box_across: int
    boxes: int
    hint: str


@dataclass(frozen=True)
class SmemCopy:
    """How fragments are read from shared memory. matrices: 8x8 matrices that one ldmatrix moves, 0 for ordinary loads;
    transposed: ldmatrix.trans; elements: of a thread, side by side, that an ordinary load moves."""

    matrices: int = 0
    transposed: bool = False
    elements: int = 1


@dataclass(frozen=True)
class Operand:
    """A or B on its way from global memory to fragments.

    letter: "A" or "B". major: its contiguous mode, K, or M (A) or N (B). extent_mn, extent_k: the CTA tile.
    line: contiguous elements in one row of the shared-memory layout atom, `lines` rows of it make the atom.
    smem_copy: from shared memory to fragments, None where wgmma reads shared memory itself.
    """

    letter: str
    element: ElementType
    major: str
    extent_mn: int
    extent_k: int
    swizzle: Swizzle
    line: int
    lines: int
    fill_wide: Fill | None
    fill_narrow: Fill | None
    smem_copy: SmemCopy | None
    bytes_per_stage: int
    tma: Tma | None = None

    @property
    def mode(self) -> str:
        """The mode that is not K: M for A, N for B."""
        return "M" if self.letter == "A" else "N"

    @property
    def contiguous_k(self) -> bool:
        return self.major == "K"

    @property
    def fills(self) -> tuple[tuple[str, Fill], ...]:
        """The fills that exist, by name; a tile whose rows are no whole vectors has no wide one, TMA needs none."""
        return tuple((name, fill) for name, fill in (("Wide", self.fill_wide), ("Narrow", self.fill_narrow)) if fill)

    @property
    def extent_along(self) -> int:
        return self.extent_k if self.contiguous_k else self.extent_mn

    @property
    def extent_across(self) -> int:
        return self.extent_mn if self.contiguous_k else self.extent_k


@dataclass(frozen=True)
class Epilogue:
    """How accumulators become D.

    slice: rows of D (columns, where D is M contiguous or leaves by TMA) staged in shared memory at a time. pad: elements
    added to a staged row so that fragments are written without bank conflicts. vector: elements of D in one wide store.
    """

    out: ElementType
    major: str
    scalar: ElementType
    slice: int
    pad: int
    vector: int
    smem_bytes: int

    @property
    def row_major(self) -> bool:
        return self.major == "N"


@dataclass(frozen=True)
class Hopper:
    """What only wgmma kernels of sm_90a have.

    schedule: warpgroup, cooperative or pingpong. cluster: CTAs along M and N that share operands. consumers: warpgroups
    that multiply; threads: of a CTA, the producer's included. producer_registers, consumer_registers: of a thread after
    they were moved, 0 where they are not; usable_registers: what a consumer may use either way. promote: whether
    each k tile's sum leaves the tensor core for f32 registers. persistent: whether a CTA walks over several tiles.
    stream_k: whether all CTAs share the tiles of a last wave. prefetch: stages brought into L2 ahead of the launch.
    """

    schedule: str
    cluster: tuple[int, int]
    split_k: int
    consumers: int
    threads: int
    producer_registers: int
    consumer_registers: int
    usable_registers: int
    promote: bool
    persistent: bool
    stream_k: bool
    prefetch: int
    epilogue_buffers: int


@dataclass(frozen=True)
class Kernel:
    """The part of a plan that families of atoms decide by different rules. mainloop: a header's name, or None."""

    a: Operand
    b: Operand
    epilogue: Epilogue
    stages: int
    smem_bytes: int
    accumulator_registers: int
    fragment_registers: int
    raster_group: int
    mainloop: str | None
    hopper: Hopper | None = None


@dataclass(frozen=True)
class Text:
    """title: one line. formula: what a call computes. storage: a warning about how a type is stored, or "".
    shape: what a kernel of fixed shape says to any other shape; shape_note: when it does. roles: who does what in a
    wgmma kernel. operands_at: where the loop that bench divides by has its operands."""

    title: str
    formula: str
    storage: str
    shape: str
    shape_note: str
    roles: str = ""
    operands_at: str = ""


@dataclass(frozen=True)
class Plan:
    """Everything that `render` writes down. All byte and register counts are per CTA and per thread.

    configs: the kernels of a library that chooses between several; all that they need not share is then the last one's.
    """

    spec: Spec
    spec_sha: str
    atom: Atom
    tiled_mma: TiledMma
    tile: tuple[int, int, int]
    a: Operand
    b: Operand
    epilogue: Epilogue
    stages: int
    ctas_per_sm: int
    mainloop: str | None
    smem_bytes: int
    smem_limit: int
    accumulator_registers: int
    fragment_registers: int
    raster_group: int
    arch: tuple[str, ...]
    problems: tuple[Problem, ...]
    runtime: tuple[str, ...]
    test_runtime: tuple[str, ...]
    ownership: tuple[Ownership, ...]
    reading: tuple[tuple[str, str], ...]
    text: Text
    hopper: Hopper | None
    configs: tuple[Config, ...] = ()

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
        """Does a kernel of it have one of the widths of wgmma that CuTe has in headers of their own?"""
        return any(one.atom.extended for one in (self, *(config.plan for config in self.configs)))

    @property
    def streams(self) -> bool:
        """Does a kernel of it take a workspace?"""
        return any(one.hopper is not None and one.hopper.stream_k for one in (self, *(config.plan for config in self.configs)))

    @property
    def threads(self) -> int:
        return self.hopper.threads if self.hopper else self.tiled_mma.threads


@dataclass(frozen=True)
class Config:
    """One kernel of a library: the problems that it is for, unless an earlier one is (None: all), and its own plan."""

    name: str
    when: When | None
    plan: Plan
