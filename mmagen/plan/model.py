"""The value types of plans: frozen, printable, easy to construct in tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mmagen.core.layout_text import LayoutText
from mmagen.mma.atoms import ElementType
from mmagen.plan.operations import Operation
from mmagen.spec.kernel import Launch, launch_suffix


@dataclass(frozen=True)
class TiledMma:
    """The TiledMMA: atoms_layout and permutation are the spec's, the rest is derived.

    extent: the tile (M, N, K) that the TiledMMA covers, in elements.
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
class GmemCopy:
    """How the threads of a CTA partition an operand tile for the copy global -> shared memory.

    along, across: threads along and across the contiguous mode. vector: elements per access, along it.
    """

    along: int
    across: int
    vector: int

    @property
    def threads(self) -> int:
        return self.along * self.across


MOST_BOX_LINES = 256  # CUtensorMap


@dataclass(frozen=True)
class Tma:
    """How TMA loads an operand's tile: in panels as wide as one swizzled line along the contiguous mode.

    swizzle_bytes: width of a line, within which 16-byte chunks are swizzled (16: no swizzle). panels: per tile. box_across:
    lines per box. boxes: per panel, loaded by one CTA (and multicast to the CTAs that share the tile). hint: L2 eviction
    priority, a value of mmagen::CacheHint.
    """

    swizzle_bytes: int
    panels: int
    box_across: int
    boxes: int
    hint: str


@dataclass(frozen=True)
class SmemCopy:
    """How fragments are loaded from shared memory. matrices: 8x8 matrices per ldmatrix, 0 for ordinary loads; transposed:
    ldmatrix.trans; elements: contiguous elements per ordinary load of a thread."""

    matrices: int = 0
    transposed: bool = False
    elements: int = 1


@dataclass(frozen=True)
class Operand:
    """A or B on its way from global memory to fragments.

    letter: "A" or "B". major: the contiguous mode, K, or M (A) or N (B). extent_mn, extent_k: of the CTA tile. line: contiguous
    elements in one line of the shared-memory layout atom, which has `lines` lines. smem_copy: shared memory -> fragments, None
    if wgmma reads shared memory directly. group, kept: of each `group` neighbours along K of a sparse operand `kept` are stored,
    and of packed elements all in `kept` of memory; extent_k counts these, and bytes_per_stage includes metadata. word: the type
    of the elements that are multiplied, "" where it is `element`.
    """

    letter: str
    element: ElementType
    major: str
    extent_mn: int
    extent_k: int
    swizzle: Swizzle
    line: int
    lines: int
    copy_wide: GmemCopy | None
    copy_narrow: GmemCopy | None
    smem_copy: SmemCopy | None
    bytes_per_stage: int
    tma: Tma | None = None
    group: int = 1
    kept: int = 1
    word: str = ""

    @property
    def multiplied(self) -> str:
        """The type of the elements that are multiplied."""
        return self.word or self.element.word

    @property
    def packed(self) -> int:
        """Elements that are multiplied in one of memory."""
        return self.group // self.kept if self.multiplied != self.element.word else 1

    @property
    def sparse(self) -> bool:
        """Are elements left out in memory?"""
        return self.kept * self.packed != self.group

    @property
    def mode(self) -> str:
        """The mode other than K: M for A, N for B."""
        return "M" if self.letter == "A" else "N"

    @property
    def contiguous_k(self) -> bool:
        return self.major == "K"

    @property
    def gmem_copies(self) -> tuple[tuple[str, GmemCopy], ...]:
        """The copies by name: no wide one if rows are not whole vectors, none at all with TMA."""
        return tuple((name, copy) for name, copy in (("Wide", self.copy_wide), ("Narrow", self.copy_narrow)) if copy)

    @property
    def extent_along(self) -> int:
        return self.extent_k if self.contiguous_k else self.extent_mn

    @property
    def extent_across(self) -> int:
        return self.extent_mn if self.contiguous_k else self.extent_k


@dataclass(frozen=True)
class Epilogue:
    """How accumulators become D.

    slice: rows of D (columns, if D is M contiguous or stored by TMA) staged in shared memory at a time. pad: elements added to
    a staged row to avoid bank conflicts of fragment stores. vector: elements of D per wide store. buffers: slices of a
    warpgroup that TMA stores may have in flight, 0 without TMA stores. most_buffers: the same, in calls that have fewer stages
    for it.
    operations: what is done to an accumulator, in order; () for alpha * accumulator + beta * C.
    """

    out: ElementType
    major: str
    scalar: ElementType
    slice: int
    pad: int
    vector: int
    smem_bytes: int
    buffers: int = 0
    most_buffers: int = 0
    operations: tuple[Operation, ...] = ()

    @property
    def row_major(self) -> bool:
        return self.major == "N"

    @property
    def scalars(self) -> frozenset[str]:
        """Which of alpha and beta a call has."""
        words = {one.word for one in self.operations}
        found = {name for word, name in (("alpha", "alpha"), ("beta_c", "beta")) if word in words}
        return frozenset(found if self.operations else ("alpha", "beta"))


@dataclass(frozen=True)
class Mainloop:
    """How A and B are loaded and multiplied. cxx: the policy class; header: its file; stages: of the pipeline."""

    cxx: str
    header: str
    stages: int


class LaunchShape(NamedTuple):
    """What a launch of a compiled kernel decides: CTAs along M and N of its clusters, and how many columns of a tile it computes, 0
    for all. widths: from which each call selects, see KernelShape.of_call(); () if there is nothing to select."""

    m: int
    n: int
    tile_n: int = 0
    widths: tuple[int, ...] = ()

    @staticmethod
    def of(launch: Launch) -> LaunchShape:
        """Of a spec's launch."""
        tile_n = launch.tile_n if isinstance(launch.tile_n, int) else 0
        return LaunchShape(*launch.cluster, tile_n, launch.widths)

    @property
    def narrow(self) -> bool:
        """May a call compute fewer columns than a tile has?"""
        return bool(self.tile_n or self.widths)

    def columns(self, all_columns: int) -> tuple[int, ...]:
        """How many of a tile's columns a call may compute."""
        return (*self.widths, all_columns) if self.widths else (self.tile_n or all_columns,)

    @property
    def suffix(self) -> str:
        """Of the names of a choice and of its functions: `c2x1`, `c2x1_n112`, `c2x1_fit`."""
        return launch_suffix((self.m, self.n), self.widths or self.tile_n)


@dataclass(frozen=True)
class TileScheduler:
    """The assignment of work tiles, and of parts of K, to CTAs.

    raster_group: rows of tiles (of clusters) per band, which reuses columns of B in L2. cluster: CTAs along M and N that share
    operands by multicast. split_k: CTAs of a cluster that split the K of a tile. workspace_splits: parts of K that CTAs sum up
    through a workspace, at most; 0 for as many as fit the problem, None for no such parts. persistent: a CTA computes several
    tiles. stream_k: which last waves all CTAs share through a workspace: "never", "last_wave" (one that is less than two thirds
    full) or "always" (any that is not full). grouped: how groups are given, "contiguous", "masked" or "pointers"; "" for a
    kernel without groups. describes_groups: a kernel that runs before writes what is known of them to the workspace. launches:
    of the compiled kernel; () if it is compiled for `cluster`. tile_n: columns of a tile that this launch computes, 0 for all.
    widths: as LaunchShape has them. raster: rows of CTA tiles per band.
    """

    raster_group: int
    cluster: tuple[int, int] = (1, 1)
    split_k: int = 1
    workspace_splits: int | None = None
    persistent: bool = False
    stream_k: str = "never"
    grouped: str = ""
    describes_groups: bool = False
    launches: tuple[LaunchShape, ...] = ()
    tile_n: int = 0
    widths: tuple[int, ...] = ()
    raster: int = 1

    @property
    def several_widths(self) -> bool:
        """Do launches of the compiled kernel decide how many columns of a tile they compute?"""
        return any(launch.narrow for launch in self.launches)

    @property
    def launch(self) -> LaunchShape:
        """This one."""
        return LaunchShape(*self.cluster, self.tile_n, self.widths)

    @property
    def band_of_config(self) -> int:
        """Rows per band as the kernel's Config has them: of CTA tiles if the cluster is set at launch."""
        return self.raster if self.launches else self.raster_group

    @property
    def cluster_ctas(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.split_k

    @property
    def takes_workspace(self) -> bool:
        """Can a call use a workspace in device memory?"""
        return self.shares_last_wave or self.workspace_splits is not None

    @property
    def shares_last_wave(self) -> bool:
        return self.stream_k != "never"
