"""Documents of specs that somebody might write, one function per kind of kernel; many are legal, none must crash."""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

from mmagen.core.targets import capability
from mmagen.mma.atoms import Atom
from mmagen.mma.catalogue import operations
from mmagen.plan.rules import OUT_TYPES
from mmagen.spec.model import LAYOUTS
from tests.properties import epilogues
from tests.support.atoms import ATOMS, WGMMA_NAMES, atom_named

Document = dict[str, Any]

# What compiles and runs in seconds: elements of D per tile, elements per thread, MMAs that a thread does per k tile.
_MOST_OUTPUTS = 96 * 96
_MOST_SUMS = 16
_MOST_MMAS = {1: 64, 8: 16, 32: 8}
_LARGE = 4  # times these of one spec in six
_MOST_MMAS_OF_WGMMA = 8
_ARCHS = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120")
# Atoms along M, N and K, by the threads of one.
_COUNTS = {
    1: ((16, 16, 1), (8, 8, 1), (32, 4, 1), (4, 8, 1), (3, 32, 1), (5, 32, 1), (6, 16, 1), (12, 8, 1), (32, 1, 1), (8, 4, 2)),
    8: ((2, 2, 1), (1, 4, 1), (4, 1, 1), (3, 4, 1), (2, 2, 2), (4, 3, 1), (4, 2, 1), (1, 1, 4)),
    32: (
        *((1, 1, 1), (2, 2, 1), (2, 2, 1), (1, 2, 1), (2, 1, 1), (4, 1, 1), (1, 4, 1), (3, 1, 1), (1, 3, 1), (5, 1, 1)),
        *((3, 2, 1), (6, 1, 1), (1, 1, 2), (2, 1, 2), (1, 2, 2), (1, 1, 3), (1, 2, 3), (1, 3, 4), (3, 4, 1), (2, 4, 1)),
    ),
    128: (*((1, 1, 1), (2, 1, 1), (1, 2, 1)) * 3, (3, 1, 1), (1, 3, 1), (4, 1, 1), (2, 2, 1)),
}


def fma_or_mma_sync(dice: random.Random) -> Atom:
    """An atom whose operands are in registers: every generation and signature is as frequent as every other."""
    return _fair(dice, tuple(name for name, atom in ATOMS.items() if atom.generation != "SM90"))


def dmma(dice: random.Random) -> Atom:
    """An mma.sync atom of SM90, of f64 or of complex numbers."""
    return atom_named(dice.choice([o.name for o in operations() if o.arch == "sm_90" and o.type_d in ("f64", "c64")]))


def wgmma(dice: random.Random) -> Atom:
    """A wgmma atom of any types, mostly a narrow one, and seldom one of the extended shapes."""
    most, extended = (64 if dice.random() < 0.8 else 256), dice.random() < 0.08
    return _fair(dice, _wgmma_names(most, extended))


@cache
def _wgmma_names(most: int, extended: bool) -> tuple[str, ...]:
    return tuple(name for name in WGMMA_NAMES if atom_named(name).n <= most and atom_named(name).extended == extended)


def _fair(dice: random.Random, names: tuple[str, ...]) -> Atom:
    groups = _groups(names)
    return atom_named(dice.choice(groups[dice.choice(list(groups))]))


@cache
def _groups(names: tuple[str, ...]) -> dict[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        atom = atom_named(name)
        of = (atom.generation, atom.type_d.word, atom.type_a.word, atom.type_b.word, str(atom.a_in_registers))
        found.setdefault(of, []).append(name)
    return found


# --- Parts of a document ---------------------------------------------------------------------------------------------


def layout(dice: random.Random, atom: Atom) -> str | dict[str, str]:
    """BLAS letters, or spelled out."""
    only_tn = atom.wgmma and not atom.takes_majors and dice.random() < 0.9
    letters = "TN" if only_tn else dice.choice(list(LAYOUTS))
    return letters if dice.random() < 0.85 else dict(zip("ab", LAYOUTS[letters], strict=True))


def atoms_layout(dice: random.Random, counts: tuple[int, int, int]) -> list[int] | str:
    """The counts, or a CuTe layout of them with the strides in another order or a nested mode."""
    if dice.random() < 0.7:
        return list(counts)
    shapes = [_split(dice, count) if dice.random() < 0.3 else (count,) for count in counts]
    strides = _strides(dice, [extent for shape in shapes for extent in shape])
    return f"({','.join(map(_modes, shapes))}):({','.join(_modes(tuple(strides.pop(0) for _ in shape)) for shape in shapes)})"


def permutation(dice: random.Random, least: int, split: tuple[int, int]) -> tuple[int | str | None, int]:
    """An entry, and how many elements it covers. least: what the atoms cover; split: extent of one and their number."""
    chance = dice.random()
    if chance < 0.55:
        return None, least
    times = dice.choice((1, 1, 2, 2, 3, 4))
    if chance < 0.75:
        return least * times, least * times
    if chance < 0.9:  # what CuTe can split into atoms
        shape = tuple(extent for extent in (*_split(dice, split[0]), split[1], *_split(dice, times)) if extent > 1) or (1,)
    else:
        shape = _split(dice, least * times)
    return f"{_modes(shape)}:{_modes(tuple(_strides(dice, list(shape))))}", least * times


def _split(dice: random.Random, size: int) -> tuple[int, ...]:
    """Factors of size, in any order."""
    found = []
    while size > 1 and len(found) < 3:
        factor = dice.choice([*[n for n in range(2, size + 1) if size % n == 0][:6], size])
        found.append(factor)
        size //= factor
    return (*found, size) if size > 1 else tuple(found) or (1,)


def _strides(dice: random.Random, shape: list[int]) -> list[int]:
    """Strides of a bijection: those of the modes in random order."""
    strides, reach = [0] * len(shape), 1
    for i in dice.sample(range(len(shape)), len(shape)):
        strides[i] = reach
        reach *= shape[i]
    return strides


def _modes(extents: tuple[int, ...]) -> str:
    return str(extents[0]) if len(extents) == 1 else f"({','.join(map(str, extents))})"


def epilogue(dice: random.Random, atom: Atom) -> Document:
    """A type of D and its order; nothing for the defaults."""
    found: Document = {}
    if dice.random() < 0.5:
        found["out"] = dice.choice((*OUT_TYPES[atom.type_d.word], None))
    if dice.random() < 0.4:
        found["major"] = dice.choice("NM")
    return {"epilogue": found} if found else {}


def arch(dice: random.Random, atom: Atom) -> Document:
    """Nothing, or architectures that mostly have the atom."""
    if dice.random() < 0.75:
        return {}
    if atom.wgmma:
        return {"arch": ["sm_90a"]}
    legal = [name for name in _ARCHS if int(name[3:].rstrip("a")) >= atom.min_arch]
    return {"arch": dice.sample(legal, min(len(legal), dice.choice((1, 1, 2, 3))))}


def problems(dice: random.Random) -> Document:
    """Nothing, or a few small problems of odd sizes, batches, leading dimensions and factors."""
    if dice.random() < 0.6:
        return {}
    return {"problems": [problem(dice) for _ in range(dice.choice((1, 1, 2, 3)))]}


def problem(dice: random.Random) -> Any:
    """One, in any of its three forms."""
    shape = [dice.choice((1, 2, 7, 16, 17, 31, 33, 64, 65, 95, 128, 130, dice.randint(1, 200))) for _ in "MNK"]
    batch = dice.choice((1, 1, 1, 2, 3))
    form = dice.random()
    if form < 0.3:
        return shape if batch == 1 else [*shape, batch]
    found: Document = {"shape": shape}
    if batch > 1:
        found["batch"] = batch
    if dice.random() < 0.4:
        found["ld_pad"] = dice.choice((1, 3, 4, 8, 16, 17))
    if dice.random() < 0.3:
        found["offset"] = dice.choice((1, 2, 3, 4, 8, 64))
    if dice.random() < 0.4:
        found["alpha"] = dice.choice((0.0, -1.0, 2.0, 1, -3, 0.5, 1.25e-3))
    if dice.random() < 0.4:
        found["beta"] = dice.choice((1.0, -1.0, 2, 0, 0.25, 3.0))
    if batch > 1 and dice.random() < 0.3:
        found[dice.choice(("batch_stride_a", "batch_stride_b", "batch_stride_c"))] = dice.choice((0, 0, 1 << 17))
    return found


# --- Kernels ---------------------------------------------------------------------------------------------------------


def gemm(dice: random.Random) -> Document:
    """A gemm of mma.sync, FMA or DMMA."""
    atom = dmma(dice) if dice.random() < 0.12 else fma_or_mma_sync(dice)
    document = _tiled(dice, atom, "gemm", k_blocks=(1, 2, 2, 2, 4, 3))
    if dice.random() < 0.35:
        document["stages"] = dice.choice((2, 2, 3, 4, 5, dice.randint(2, 40)))
    if dice.random() < 0.2:
        document["ctas_per_sm"] = dice.choice((1, 2, 2, 3, 4))
    if dice.random() < 0.2:
        document["raster"] = dice.choice((1, 2, 3, 5, 8, 16, 100))
    return epilogues.with_scalars(dice, document | epilogue_list(dice, atom) | problems(dice))


def split_gemm(dice: random.Random) -> Document:
    """A gemm of f32 operands that mma.sync splits into bf16 pieces."""
    atom = atom_named(dice.choice(("SM80_16x8x8_F32BF16BF16F32_TN", *("SM80_16x8x16_F32BF16BF16F32_TN",) * 3)))
    document = _tiled(dice, atom, "gemm", k_blocks=(1, 2, 2, 2, 4)) | {"split": dice.choice(("bf16x3", "bf16x6"))}
    if dice.random() < 0.3:
        document["stages"] = dice.choice((2, 3, 4))
    if dice.random() < 0.2:
        document["accumulation"] = dice.choice(("precise", "precise", "fast"))
    return epilogues.with_scalars(dice, document | epilogue_list(dice, atom) | problems(dice))


def epilogue_list(dice: random.Random, atom: Atom) -> Document:
    return {"epilogue": epilogues.operations(dice, atom)} if dice.random() < 0.3 else {}


def micro(dice: random.Random) -> Document:
    """One tile of any atom."""
    atom = wgmma(dice) if dice.random() < 0.3 else dmma(dice) if dice.random() < 0.1 else fma_or_mma_sync(dice)
    document = _tiled(dice, atom, "micro", k_blocks=(1, 1, 2, 2, 3, 4))
    return _of_one_tile(dice, document)


def ownership(dice: random.Random) -> Document:
    """Thread-value layouts of any atom."""
    atom = wgmma(dice) if dice.random() < 0.5 else dmma(dice) if dice.random() < 0.05 else fma_or_mma_sync(dice)
    return _of_one_tile(dice, _tiled(dice, atom, "ownership", k_blocks=(1, 1, 2)))


def instruction(dice: random.Random) -> Document:
    """A single instruction that is not an atom: sparse, block-scaled, of other types."""
    newest = 90 if dice.random() < 0.8 else 999  # the emulator's newest, mostly
    names = [
        o.name
        for o in operations()
        if not (o.name in ATOMS or o.name in WGMMA_NAMES or o.kind == "tcgen05" or o.extended) and capability(o.arch) <= newest
    ]
    return {"kernel": "micro", "atom": dice.choice(names)}


def peak(dice: random.Random) -> Document:
    """A measurement, which only a GPU can make."""
    return {"kernel": "peak", "atom": dice.choice(operations()).name}


def _tiled(dice: random.Random, atom: Atom, kernel: str, k_blocks: tuple[int, ...]) -> Document:
    """Atom, layout, TiledMMA and tile; a tile of whole vectors, mostly."""
    if atom.wgmma:
        return wgmma_tiled(dice, atom) | {"kernel": kernel}
    counts = dice.choice(_COUNTS[atom.threads])
    units = tuple(zip((atom.m, atom.n, atom.k), counts, strict=True))
    entries = [permutation(dice, extent * count, (extent, count)) for extent, count in units]
    times = [dice.choice((1, 1, 2, 2, 3, 4)), dice.choice((1, 1, 2, 2, 3, 4)), dice.choice(k_blocks)]
    tile = [covered * n for (_, covered), n in zip(entries, times, strict=True)]
    if kernel == "gemm" and dice.random() < 0.85:  # A and B in vectors of 16 bytes
        tile = [math.lcm(extent, 16 // atom.type_a.bytes) for extent in tile]
        tile[2] *= 2 if tile[2] == entries[2][1] and dice.random() < 0.7 else 1
    if dice.random() < 0.9:
        _shrink(atom, counts, tile, [covered for _, covered in entries], _LARGE if dice.random() < 1 / 6 else 1)
    document = {"kernel": kernel, "atom": atom.name, "layout": layout(dice, atom), "tile": tile}
    document["atoms_layout"] = atoms_layout(dice, counts)
    if any(entry is not None for entry, _ in entries):
        document["permutation"] = [entry for entry, _ in entries]
    return document | epilogue(dice, atom) | arch(dice, atom)


def _shrink(atom: Atom, counts: tuple[int, int, int], tile: list[int], least: list[int], large: int) -> None:
    """Halve extents until the tile compiles and runs in seconds, or none can be halved."""
    many = math.prod(counts)
    while (
        tile[0] * tile[1] > _MOST_OUTPUTS
        or tile[0] * tile[1] > large * _MOST_SUMS * atom.threads * counts[0] * counts[1]
        or math.prod(tile) > large * _MOST_MMAS[atom.threads] * atom.m * atom.n * atom.k * many
    ):
        halves = [i for i in range(3) if tile[i] % (2 * least[i]) == 0 and tile[i] > (1, 1, 2)[i] * least[i]]
        if not halves:
            return
        tile[max(halves, key=lambda i: tile[i] / least[i])] //= 2


def wgmma_tiled(dice: random.Random, atom: Atom) -> Document:
    counts = dice.choice(_COUNTS[128])
    tile = [atom.m * counts[0], atom.n * counts[1], atom.k * dice.choice((1, 2, 2, 4, 4, 8))]
    for i in (0, 1):
        if tile[0] * tile[1] <= _MOST_OUTPUTS // 2 and tile[2] < _MOST_MMAS_OF_WGMMA * atom.k:
            tile[i] *= dice.choice((1, 1, 2, 3))
    document = {"kernel": "gemm", "atom": atom.name, "layout": layout(dice, atom), "tile": tile}
    if counts != (1, 1, 1) or dice.random() < 0.3:
        document["atoms_layout"] = atoms_layout(dice, counts)
    return document | epilogue(dice, atom) | arch(dice, atom)


def _of_one_tile(dice: random.Random, document: Document) -> Document:
    if dice.random() < 0.2:
        del document["tile"]
    elif dice.random() < 0.15:
        document["problems"] = [document["tile"]]
    return document
