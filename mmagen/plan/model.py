"""The values that plans are made of: frozen, printable, and simple to build by hand in a test."""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.core.layout_text import LayoutText
from mmagen.mma.atoms import ElementType


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
class GmemCopy:
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
    copy_wide: GmemCopy | None
    copy_narrow: GmemCopy | None
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
    def gmem_copies(self) -> tuple[tuple[str, GmemCopy], ...]:
        """The copies that exist, by name; none is wide where rows are not whole vectors, and TMA needs none."""
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

    slice: rows of D (columns, where D is M contiguous or leaves by TMA) staged in shared memory at a time. pad: elements
    added to a staged row so that fragments are written without bank conflicts. vector: elements of D in one wide store.
    buffers: slices of a warp that TMA may still be storing while the next one is staged, 0 where TMA stores nothing.
    """

    out: ElementType
    major: str
    scalar: ElementType
    slice: int
    pad: int
    vector: int
    smem_bytes: int
    buffers: int = 0

    @property
    def row_major(self) -> bool:
        return self.major == "N"
