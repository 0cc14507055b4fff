"""TiledMMAs to try an atom in: counts, strides and nesting of atoms, permutations of every kind, tiles of several extents."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from mmagen.core.layout_text import LayoutText
from mmagen.mma.atoms import Atom
from mmagen.mma.catalogue import operations
from mmagen.mma.ownership import PermutationMode
from mmagen.mma.sparse_atoms import find_sparse
from mmagen.mma.sparse_forms import FORMS
from mmagen.plan.model import TiledMma
from mmagen.plan.tiling import faults, tiled_mma
from mmagen.spec.model import Spec
from tests.support.atoms import ATOMS, WGMMA_NAMES, atom_named


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


_MOST_ELEMENTS = 2**15  # of a matrix, so that an oracle's answers stay short


@cache
def random_tilings(count: int, seed: int) -> tuple[Tiling, ...]:
    """The first `count` of an endless list of different TiledMMAs that specs may have: any atom, atoms_layout with strides in
    any order, permutations of any nesting. Of wgmma, which takes no permutation, atoms and atoms_layout vary. Complex atoms, which
    have the layouts of f64's, are left out."""
    dice, in_registers = random.Random(seed), [one for one in ATOMS.values() if one.type_d.parts == 1]
    found: dict[Tiling, None] = {}
    while len(found) < count:
        atom = atom_named(dice.choice(WGMMA_NAMES)) if dice.random() < 0.3 else dice.choice(in_registers)
        one = None if atom.extended else random_tiling(dice, atom)
        if one:
            found.setdefault(one)
    return tuple(found)


@cache
def random_sparse_tilings(count: int, seed: int) -> tuple[Tiling, ...]:
    """The same of sparse atoms: wgmma that CuTe has outside of its extended headers, and mma.sp of 8-bit types and 64 columns, the
    only ones that CuTe has too."""
    dice = random.Random(seed)
    wgmma = [o.name for o in operations() if o.kind == "wgmma" and o.sparse and not o.extended and find_sparse(o.name)]
    mma = [name for name, form in FORMS.items() if form.k == CUTE_SPARSE_K]
    found: dict[Tiling, None] = {}
    while len(found) < count:
        atom = find_sparse(dice.choice(wgmma if dice.random() < 0.5 else mma))
        assert atom
        one = random_tiling(dice, atom)
        if one:
            found.setdefault(one)
    return tuple(found)


CUTE_SPARSE_K = 64  # of CuTe's mma.sp with types of 8 bits and less


def random_tiling(dice: random.Random, atom: Atom) -> Tiling | None:
    """One of `random_tilings`, of that atom; None where its kind of kernel or the size forbids it."""
    counts = [dice.choice((1, 1, 2, 2, 3, 4)), dice.choice((1, 1, 2, 3, 4, 8)), dice.choice((1, 1, 1, 2, 3))]
    if atom.wgmma:
        counts = [dice.choice((1, 2, 3)), dice.choice((1, 1, 2)), 1]
    strides, step = [0, 0, 0], 1
    for mode in dice.sample(range(3), 3):
        strides[mode], step = step, step * counts[mode]
    natural = [extent * n for extent, n in zip((atom.m, atom.n, atom.k), counts, strict=True)]
    permutation = [None] * 3 if atom.wgmma else [_random_permutation(dice, least) for least in natural]
    spec = Spec(
        mmagen=1,
        name="t",
        kernel="ownership",
        atom=atom.name,
        atoms_layout=LayoutText(tuple(counts), tuple(strides)),
        permutation=tuple(permutation),
    )
    if any(faults(spec, atom)):
        return None
    mma = tiled_mma(spec, atom)
    m, n, k = (extent * dice.choice((1, 1, 2, 3)) for extent in mma.extent)
    return Tiling(atom, mma, (m, n, k)) if max(m * n, m * k, n * k) <= _MOST_ELEMENTS else None


def _random_permutation(dice: random.Random, least: int) -> PermutationMode:
    """Nothing, an extent, or a layout of up to four modes whose strides are in any order."""
    kind = dice.random()
    if kind < 0.4:
        return None
    size = least * dice.choice((1, 2, 2, 3, 4))
    if kind < 0.55:
        return size
    shape = []
    while size > 1 and len(shape) < 3:
        extent = dice.choice([n for n in range(2, size + 1) if size % n == 0])
        shape.append(extent)
        size //= extent
    shape = [*shape, size] if size > 1 or not shape else shape
    strides, step = [0] * len(shape), 1
    for mode in dice.sample(range(len(shape)), len(shape)):
        strides[mode], step = step, step * shape[mode]
    return LayoutText(tuple(shape), tuple(strides))
