"""Documents of wgmma gemms: dense, sparse, with weights of few bits, in groups; and of libraries."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from mmagen.mma.atoms import Atom
from mmagen.mma.catalogue import operations
from mmagen.mma.sparse_atoms import SparseAtom, find_sparse
from mmagen.spec.model import LAYOUTS
from mmagen.spec.scale import BLOCKS
from tests.properties import epilogues, kernels
from tests.properties.kernels import Document
from tests.support.atoms import atom_named


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


def wgmma_gemm(dice: random.Random) -> Document:
    """A gemm of wgmma with all its keys."""
    atom = kernels.wgmma(dice)
    document = kernels.wgmma_tiled(dice, atom)
    return epilogues.with_scalars(dice, _scheduled(dice, atom, document))


def sparse_gemm(dice: random.Random) -> Document:
    """A gemm of sparse wgmma with the keys of a dense one; most problems are those that TMA can address."""
    atom = sparse(dice)
    document = kernels.wgmma_tiled(dice, atom)
    document["tile"][2] = dice.choice((*atom.depths, *atom.depths[:2])) if dice.random() < 0.95 else atom.k
    document["layout"] = dice.choice(list(LAYOUTS) if atom.takes_majors or dice.random() < 0.1 else ("TN", "NN"))
    if dice.random() < 0.5:
        document["sparse"] = atom.sparsity if dice.random() < 0.9 else dice.choice(("2:4", "1:2"))
    document = _scheduled(dice, atom, document)
    if dice.random() < 0.9:
        document.pop("operands", None)
    if "problems" in document and dice.random() < 0.9:
        document["problems"] = [addressable(one, document["layout"], atom.type_b.bytes) for one in document["problems"]]
    return epilogues.with_scalars(dice, document)


def addressable(problem: Any, letters: str, size: int) -> Document:
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
    return document | kernels.epilogue_list(dice, atom) | ({} if grouped else kernels.problems(dice))


def _grouped(dice: random.Random, document: Document) -> Document:
    """The document with groups, mostly without the keys that do not go with them."""
    legal = dice.random() < 0.9
    kept = {key: value for key, value in document.items() if not legal or key not in _NOT_OF_GROUPS}
    found = kept | {"grouped": dice.choice(("contiguous", "masked", "pointers"))}
    if legal and (found.get("scale") or {}).get("a") == "128x128" and found["grouped"] == "contiguous":
        found["grouped"] = "masked"
    if dice.random() < 0.5:
        of_groups = _problem_of_pointers if found["grouped"] == "pointers" else _problem_of_groups
        found["problems"] = [of_groups(dice, found["grouped"]) for _ in range(dice.choice((1, 2)))]
    return found


def _problem_of_pointers(dice: random.Random, _: str) -> Document:
    """Groups of any small M, N and K, empty ones among them."""

    def extent() -> int:
        return dice.choice((0, 1, 7, 16, 33, 64, dice.randint(1, 150)))

    groups = [[extent(), extent() // 2 * 2, extent()] for _ in range(dice.choice((1, 2, 5, 34)))]
    found: Document = {"shape": [max(1, *(one[mode] for one in groups)) for mode in range(3)], "groups": groups}
    if dice.random() < 0.3:
        found |= {"alpha": 2.0, "beta": -1.0}
    if dice.random() < 0.5:
        found["ld_pad"] = dice.choice((3, 8, 16))
    return found


_NOT_OF_GROUPS = ("split_k", "stream_k", "prefetch")


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
    return scale if dice.random() < 0.9 else {"a": None, "b": None} | scale


def mixed_gemm(dice: random.Random) -> Document:
    """A gemm with weights of few bits, whose activations TMA can mostly address."""
    kind = dice.choice(("BF16BF16", "F16F16"))
    atom = atom_named(f"SM90_64x{dice.choice((8, 16, 32, 64))}x16_F32{kind}_RS")
    document = {"kernel": "gemm", "atom": atom.name, "layout": "TN", "operands": "swapped", "weights": weights(dice)}
    counts = dice.choice(((1, 1, 1), (2, 1, 1)))
    document |= {"tile": [64 * counts[0], atom.n, dice.choice((128, 128, 256))], "atoms_layout": list(counts)}
    document["schedule"] = dice.choice(("cooperative", "cooperative", "pingpong" if counts == (1, 1, 1) else "cooperative"))
    if document["schedule"] == "cooperative" and dice.random() < 0.4:
        document |= dice.choice(({"split_k": dice.choice((2, 3, 4, "auto"))}, {"stream_k": "always"}))
    if dice.random() < 0.3:
        document["cluster"] = dice.choice(([2, 1], [1, 2]))
    document |= kernels.epilogue(dice, atom) | kernels.epilogue_list(dice, atom) | kernels.problems(dice)
    if "problems" in document and dice.random() < 0.9:
        document["problems"] = [addressable(one, "TN", 1) for one in document["problems"]]
    return epilogues.with_scalars(dice, document)


def split_gemm(dice: random.Random) -> Document:
    """A gemm of f32 operands as bf16 pieces, mostly with the other keys of dense ones."""
    atom = atom_named(f"SM90_64x{dice.choice((8, 16, 32, 64, 64, 128))}x16_F32BF16BF16_{dice.choice(('SS',) * 9 + ('RS',))}")
    document = _scheduled(dice, atom, kernels.wgmma_tiled(dice, atom))
    if dice.random() < 0.9:
        if document.pop("grouped", None):
            document.pop("problems", None)
        document["tile"][2] = dice.choice((16, 32, 32, 64))
    document["split"] = dice.choice(("bf16x3", "bf16x6"))
    if dice.random() < 0.3:
        document["accumulation"] = dice.choice(("precise", "fast")) if document["split"] == "bf16x3" else "precise"
    return epilogues.with_scalars(dice, document)


def weights(dice: random.Random) -> Document:
    """Any types, groups and zero points; mostly those that go together."""
    kind = dice.choice(("s4", "u4", "s8", "e4m3"))
    found: Document = {"type": kind}
    for key, values in (
        ("group", (32, 64, 128, 256, 96, None)),
        ("scale", ("bf16", "f16", "f32", None)),
        ("scale_major", "NK"),
    ):
        if dice.random() < 0.6:
            found[key] = dice.choice(values)
    if dice.random() < (0.5 if kind == "u4" else 0.05):
        found["zero"] = "u8"
    return found


def library(dice: random.Random) -> Document:
    """Two or three kernels that share types: each overrides some keys."""
    maker = dice.choices((wgmma_gemm, kernels.gemm, sparse_gemm), (50, 35, 15))[0]
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
