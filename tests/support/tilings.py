"""TiledMMAs to try an atom in: counts, strides and nesting of atoms, permutations of every kind, tiles of several extents."""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.core.layout_text import LayoutText
from mmagen.mma.atoms import Atom
from mmagen.mma.ownership import PermutationMode
from mmagen.plan.model import TiledMma
from mmagen.plan.tiling import tiled_mma
from mmagen.spec.model import Spec


@dataclass(frozen=True)
class Tiling:
    """One TiledMMA of an atom and a tile that its extents divide."""

    atom: Atom
    mma: TiledMma
    tile: tuple[int, int, int]

    @property
    def name(self) -> str:
        permutation = ",".join("_" if entry is None else str(entry) for entry in self.mma.permutation)
        return f"{self.atom.name} {self.mma.atoms_layout} [{permutation}] {'x'.join(map(str, self.tile))}"


def _interleaved(least: int) -> LayoutText:
    """Four pieces of `least`, the middle two exchanged."""
    return LayoutText((least, 2, 2), (1, 2 * least, least))


def _scattered(least: int) -> LayoutText:
    """Neighbours end up `least` apart: runs of one."""
    return LayoutText((2, least), (least, 1))


# (atoms_layout, a permutation for each of M, N, K made from what the atoms cover there, extents in the tile)
_KINDS = (
    ("(1,1,1):(1,1,1)", (None, None, None), (1, 1, 1)),
    ("(2,2,1):(1,2,4)", (lambda n: 2 * n, lambda n: 2 * n, None), (1, 1, 2)),
    ("(2,2,1):(2,1,4)", (None, _interleaved, None), (2, 1, 1)),
    ("(2,1,2):(1,2,2)", (None, _scattered, lambda n: 2 * n), (1, 2, 1)),
    ("((2,2),1,1):((2,1),4,4)", (_interleaved, None, _scattered), (1, 1, 1)),
    ("(1,2,4):(8,4,1)", (None, lambda n: 3 * n, _interleaved), (2, 2, 2)),
    ("(4,1,1):(1,4,4)", (_scattered, None, None), (1, 3, 2)),
)


def tiling(atom: Atom, kind: int) -> Tiling:
    """Number `kind` of the ways; quad pairs, of which a warp needs four, get four times the atoms along N."""
    text, permutations, extents = _KINDS[kind]
    atoms = LayoutText.parse(text)
    if atom.threads == 8 and atoms.size % 4:
        m, n, k = atoms.shape
        atoms = LayoutText.compact((m, 4 * n, k))
    counts = [LayoutText.compact(extent).size for extent in atoms.shape]
    natural = [extent * count for extent, count in zip((atom.m, atom.n, atom.k), counts, strict=True)]
    permutation: tuple[PermutationMode, ...] = tuple(
        entry and entry(least) for entry, least in zip(permutations, natural, strict=True)
    )
    spec = Spec(mmagen=1, name="t", kernel="ownership", atom=atom.name, atoms_layout=atoms, permutation=permutation)
    mma = tiled_mma(spec, atom)
    m, n, k = (extent * times for extent, times in zip(mma.extent, extents, strict=True))
    return Tiling(atom, mma, (m, n, k))


KINDS = range(len(_KINDS))
