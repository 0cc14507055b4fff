"""Documents of specs that somebody might write, one function per kind of kernel; many are legal, none must crash."""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

from mmagen.core.targets import capability
from mmagen.mma.atoms import Atom
from mmagen.mma.catalogue import operations
from mmagen.mma.sparse_atoms import SparseAtom, find_sparse
from mmagen.plan.rules import OUT_TYPES
from mmagen.spec.model import LAYOUTS
from mmagen.spec.scale import BLOCKS
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
    """An f64 mma.sync atom of SM90."""
    return atom_named(dice.choice([o.name for o in operations() if o.arch == "sm_90" and o.type_d == "f64"]))


def wgmma(dice: random.Random) -> Atom:
    """A wgmma atom of any types, mostly a narrow one, and seldom one of the extended shapes."""
    most, extended = (64 if dice.random() < 0.8 else 256), dice.random() < 0.08
    return _fair(dice, _wgmma_names(most, extended))


@cache
def _wgmma_names(most: int, extended: bool) -> tuple[str, ...]:
    return tuple(name for name in WGMMA_NAMES if atom_named(name).n <= most and atom_named(name).extended == extended)


def sparse(dice: random.Random) -> SparseAtom:
    """A sparse wgmma atom with A in shared memory, mostly a narrow one."""
    most = 64 if dice.random() < 0.8 else 256
    types = dice.choice(list(_sparse_atoms(most)))
    return dice.choice(_sparse_atoms(most)[types])


@cache
def _sparse_atoms(most: int) -> dict[tuple[str, ...], list[SparseAtom]]:
    """Of at most so many columns, by their types."""
    found: dict[tuple[str, ...], list[SparseAtom]] = {}
    for one in operations():
        if (atom := find_sparse(one.name)) and atom.n <= most and not atom.from_extended_headers:
            found.setdefault((atom.type_d.word, atom.type_a.word, atom.type_b.word), []).append(atom)
    return found


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
    return epilogues.with_scalars(dice, document | _epilogue_list(dice, atom) | problems(dice))


def _epilogue_list(dice: random.Random, atom: Atom, grouped: bool = False) -> Document:
    return {"epilogue": epilogues.operations(dice, atom, grouped)} if dice.random() < 0.3 else {}


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


def wgmma_gemm(dice: random.Random) -> Document:
    """A gemm of wgmma with all its keys."""
    atom = wgmma(dice)
    document = _scheduled(dice, atom, _wgmma_tiled(dice, atom))
    if atom.a_in_registers and atom.type_a.word in ("bf16", "f16") and dice.random() < 0.4:
        document = _with_weights(dice, atom, document)
    return epilogues.with_scalars(dice, document)


def _with_weights(dice: random.Random, atom: Atom, document: Document) -> Document:
    """With weights of few bits, and mostly what goes with them; problems that TMA can address."""
    kind = dice.choice(("s4", "u4", "u4", "s8", "e4m3"))
    weights: Document = {"type": kind, "group": dice.choice((None, 32, 64, 128, 128, 256))}
    if dice.random() < 0.5:
        weights |= {"scale": dice.choice(("f32", atom.type_a.word)), "scale_major": dice.choice("NK")}
    if kind == "u4" and dice.random() < 0.6:
        weights["zero"] = "u8"
    if dice.random() < 0.1:
        return document | {"weights": weights}
    found = {key: value for key, value in document.items() if key not in ("grouped", "scale", "accumulation", "problems")}
    m, n, _ = document["tile"]
    found |= {"weights": weights, "operands": "swapped", "layout": "TN", "tile": [m, n, dice.choice((128, 128, 256))]}
    if document.get("schedule") == "warpgroup":
        found["schedule"] = "cooperative"
    shapes = [[dice.randint(1, 40), dice.randint(1, 300), 8 * dice.randint(1, 40)] for _ in range(2)]
    return found | {"problems": [{"shape": shape, "beta": dice.choice((0.0, -1.0))} for shape in shapes]}


def sparse_gemm(dice: random.Random) -> Document:
    """A gemm of sparse wgmma with the keys of a dense one; most problems are those that TMA can address."""
    atom = sparse(dice)
    document = _wgmma_tiled(dice, atom)
    document["tile"][2] = dice.choice((*atom.depths, *atom.depths[:2])) if dice.random() < 0.95 else atom.k
    document["layout"] = dice.choice(list(LAYOUTS) if atom.takes_majors or dice.random() < 0.1 else ("TN", "NN"))
    if dice.random() < 0.5:
        document["sparse"] = atom.sparsity if dice.random() < 0.9 else dice.choice(("2:4", "1:2"))
    document = _scheduled(dice, atom, document)
    if dice.random() < 0.9:
        document.pop("operands", None)
    if "problems" in document and dice.random() < 0.9:
        document["problems"] = [_addressable(one, document["layout"], atom.type_b.bytes) for one in document["problems"]]
    return epilogues.with_scalars(dice, document)


def _addressable(problem: Any, letters: str, size: int) -> Document:
    """The problem whose lines of B begin at multiples of 16 bytes. size: bytes of an element."""
    found: Document = dict(problem) if isinstance(problem, dict) else {"shape": problem[:3], "batch": (*problem, 1)[3]}
    line, step = found["shape"][2 if letters[1] == "N" else 1], 16 // size
    pad = found.get("ld_pad", 0)
    return found | {"ld_pad": pad + -(line + pad) % step, "offset": found.get("offset", 0) // step * step}


def _scheduled(dice: random.Random, atom: Atom, document: Document) -> Document:
    """With the keys of schedules, and all others."""
    schedule = dice.choice((None, "warpgroup", "cooperative", "cooperative", "pingpong"))
    if schedule:
        document["schedule"] = schedule
    if schedule == "pingpong":
        document["atoms_layout"] = [1, 1, 1]
        if dice.random() < 0.3:
            document["warpgroups"] = dice.choice((2, 3))
    if schedule in ("cooperative", "pingpong") and dice.random() < 0.5:
        document["cluster"] = dice.choice(([2, 1], [1, 2], [2, 2], [4, 1], [1, 4], [2, 4], [4, 2], [8, 1], [1, 8], [1, 1]))
    if schedule == "cooperative":
        document |= dice.choice(
            ({}, {}, {"stream_k": dice.choice(("last_wave", "always"))}, {"split_k": dice.choice((1, 2, 2, 4, 8, 3, "auto"))})
        )
    document |= _wgmma_tuning(dice, atom)
    if atom.type_a.word in ("e4m3", "e5m2") and dice.random() < (0.05 if isinstance(atom, SparseAtom) else 0.5):
        document |= _scaled(dice, atom, document)
    grouped = schedule != "warpgroup" and dice.random() < (0.02 if isinstance(atom, SparseAtom) else 0.2)
    if grouped:
        document = _grouped(dice, document)
    return document | _epilogue_list(dice, atom, grouped) | ({} if grouped else problems(dice))


def _grouped(dice: random.Random, document: Document) -> Document:
    """The document with groups, mostly without the keys that do not go with them."""
    legal = dice.random() < 0.9
    kept = {key: value for key, value in document.items() if not legal or key not in _NOT_OF_GROUPS}
    found = kept | {"grouped": dice.choice(("contiguous", "masked"))}
    if dice.random() < 0.5:
        found["problems"] = [_problem_of_groups(dice, found["grouped"]) for _ in range(dice.choice((1, 2)))]
    return found


_NOT_OF_GROUPS = ("split_k", "stream_k", "prefetch", "scale")


def _problem_of_groups(dice: random.Random, grouped: str) -> Document:
    """Groups of a few rows, that TMA can address."""
    if dice.random() < 0.3:
        groups: Any = {"experts": dice.randint(1, 40), "tokens": dice.randint(0, 300), "exponent": dice.choice((0, 0.5, 1.2))}
        rows = groups["tokens"]
    else:
        groups = [dice.choice((0, 0, 1, 7, 16, 31, 64, 65, dice.randint(1, 150))) for _ in range(dice.choice((1, 2, 5, 34)))]
        rows = sum(groups) if grouped == "contiguous" else max(groups)
    n, k = (16 * dice.randint(1, 9) for _ in "nk")
    found: Document = {"shape": [max(16, -(-rows // 16) * 16 + dice.choice((0, 16))), n, k], "groups": groups}
    if dice.random() < 0.3:
        found |= {"alpha": 2.0, "beta": -1.0}
    if dice.random() < 0.3:
        found["ld_pad"] = 16
    return found


def _wgmma_tuning(dice: random.Random, atom: Atom) -> Document:
    found: Document = {}
    for key, chance, values in (
        ("stages", 0.35, (2, 2, 3, 4, 7, dice.randint(2, 40))),
        ("ctas_per_sm", 0.15, (1, 2, 2, 3)),
        ("raster", 0.2, (1, 2, 3, 8, 16, 100)),
        ("prefetch", 0.15, (0, 1, 2, 9)),
        ("cache", 0.15, ({"a": "evict_last"}, {"a": "evict_first", "b": "evict_last"}, {"b": "normal"})),
        ("stream_k", 0.05, ("never",)),
        ("operands", 0.2, ("swapped", "swapped", "in_order")),
    ):
        if dice.random() < chance:
            found[key] = dice.choice(values)
    if atom.type_a.word in ("e4m3", "e5m2") and dice.random() < 0.5:
        found["accumulation"] = dice.choice(("precise", "precise", "fast"))
    return found


def _scaled(dice: random.Random, atom: Atom, document: Document) -> Document:
    """Scales, and mostly a schedule, an accumulation and a k tile that go with them; f16 accumulators seldom have scales."""
    if dice.random() < 0.1:
        return {"scale": _scale(dice)}
    if atom.type_d.word == "f16":
        return {}
    found: Document = {"scale": _scale(dice)}
    if any(kind in BLOCKS for kind in found["scale"].values()):
        found["tile"] = [*document["tile"][:2], dice.choice((32, 64, 128, 128))]
        found["accumulation"] = dice.choice(("precise", None))
        if document.get("schedule") == "warpgroup":
            found["schedule"] = "cooperative"
    return found


def _scale(dice: random.Random) -> Document:
    """Scales of one operand or of both."""
    kinds = {"a": ("tensor", "row", "1x128", "128x128"), "b": ("tensor", "column", "1x128", "128x128")}
    scale: Document = {key: dice.choice(kinds[key]) for key in dice.choice(("a", "b", "ab", "ab", "ab"))}
    for key, major in (("a", "M"), ("b", "N")):
        if "128" in scale.get(key, "") and dice.random() < 0.5:
            scale[f"{key}_major"] = dice.choice((major, "K"))
    return scale


def library(dice: random.Random) -> Document:
    """Two or three kernels that share types: each overrides some keys."""
    maker = dice.choices((wgmma_gemm, gemm, sparse_gemm), (50, 35, 15))[0]
    document = maker(dice)
    if dice.random() < 0.9:
        document = {key: value for key, value in document.items() if key != "grouped"}
        document["problems"] = [one for one in document.get("problems", ()) if isinstance(one, list) or "groups" not in one]
        document = {key: value for key, value in document.items() if value != []}
    m, n, k = document["tile"]
    configs = []
    for i in range(dice.choice((2, 2, 3))):
        own: Document = {"name": f"config{i}"}
        if dice.random() < 0.5:
            own["tile"] = dice.choice(([m, n, 2 * k], [2 * m, n, k], [m, 2 * n, k]))
        if dice.random() < 0.4:
            own["stages"] = dice.choice((2, 3, None))
        if dice.random() < 0.3:
            own["raster"] = dice.choice((1, 4))
        configs.append(own)
    for i, own in enumerate(configs[:-1]):
        own["when"] = dice.choice(({"m": [1, 64 * (i + 1)]}, {"n": [None, 100 * (i + 1)]}, {"mn": [None, 9000 * (i + 1)]}))
    return document | {"configs": configs}


def _tiled(dice: random.Random, atom: Atom, kernel: str, k_blocks: tuple[int, ...]) -> Document:
    """Atom, layout, TiledMMA and tile; a tile of whole vectors, mostly."""
    if atom.wgmma:
        return _wgmma_tiled(dice, atom) | {"kernel": kernel}
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


def _wgmma_tiled(dice: random.Random, atom: Atom) -> Document:
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
