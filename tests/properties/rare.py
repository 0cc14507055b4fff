"""Documents of what the usual draws seldom have: mma.sp, clusters of up to 16 CTAs, libraries of different kernels."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from mmagen.mma.sparse_atoms import SparseMma, find_sparse
from mmagen.mma.sparse_forms import FORMS
from mmagen.spec.model import LAYOUTS
from tests.properties import epilogues, hopper, kernels
from tests.properties.kernels import Document
from tests.support.atoms import atom_named

_WARPS = ((1, 1, 1), (2, 2, 1), (2, 1, 1), (1, 2, 1), (4, 1, 1), (1, 4, 1), (1, 3, 1), (2, 3, 1), (1, 1, 2))
_ROWS = 64  # of a block of metadata
_WIDE = ([16, 1], [1, 16], [8, 2], [2, 8], [4, 4], [8, 1], [1, 8], [4, 2], [2, 4], [3, 1], [1, 3], [5, 1], [3, 3])


def mma_sp_gemm(dice: random.Random) -> Document:
    """A gemm of mma.sp, of any types."""
    types = dice.choice(list(_forms()))
    atom = dice.choice(_forms()[types])
    counts = dice.choice(_WARPS)
    tile = [_ROWS * dice.choice((1, 1, 2)), atom.n * counts[1] * dice.choice((1, 2, 2, 3, 4)), dice.choice(atom.depths)]
    document: Document = {"kernel": "gemm", "atom": atom.name, "tile": tile, "layout": dice.choice(list(LAYOUTS))}
    document["atoms_layout"] = kernels.atoms_layout(dice, counts)
    if dice.random() < 0.3:
        document["permutation"] = [dice.choice((None, 16 * counts[0])), dice.choice((None, 16 * counts[1])), None]
    if dice.random() < 0.4:
        document["sparse"] = atom.sparsity
    for key, values in (("stages", (2, 3, 4, 7)), ("ctas_per_sm", (1, 2, 3)), ("raster", (1, 2, 8, 100))):
        if dice.random() < 0.25:
            document[key] = dice.choice(values)
    document |= kernels.epilogue(dice, atom) | kernels.arch(dice, atom) | kernels.epilogue_list(dice, atom)
    if dice.random() < 0.4:
        document["problems"] = [hopper.addressable(kernels.problem(dice), document["layout"], atom.type_b.bytes)]
    return epilogues.with_scalars(dice, document)


@cache
def _forms() -> dict[tuple[str, ...], list[SparseMma]]:
    found: dict[tuple[str, ...], list[SparseMma]] = {}
    for one in FORMS:
        if isinstance(atom := find_sparse(one), SparseMma):
            found.setdefault((atom.type_d.word, atom.type_a.word, atom.type_b.word), []).append(atom)
    return found


def wide_cluster(dice: random.Random) -> Document:
    """A wgmma gemm in a cluster of up to 16 CTAs, of which B or A has whole boxes, mostly."""
    document = hopper.sparse_gemm(dice) if dice.random() < 0.2 else hopper.wgmma_gemm(dice)
    document["schedule"] = dice.choice(("cooperative", "pingpong"))
    document["cluster"] = list(dice.choice(_WIDE))
    if document["schedule"] == "pingpong" or dice.random() < 0.5:
        document = {key: value for key, value in document.items() if key not in ("split_k", "stream_k")}
    if document["schedule"] == "pingpong":
        document["atoms_layout"] = [1, 1, 1]
    return document


def library(dice: random.Random) -> Document:
    """Configs with instructions, schedules and clusters of their own, and rules on several extents."""
    kind = dice.choice(("F32BF16BF16", "F32F16F16"))
    operands = dice.choice(("SS", "SS", "RS"))

    def atom(n: int) -> str:
        return atom_named(f"SM90_64x{n}x16_{kind}_{operands}").name

    document: Document = {"kernel": "gemm", "atom": atom(32), "tile": [64, 32, 64]}
    document["layout"] = dice.choice(("TN", "TT")) if operands == "RS" else dice.choice(list(LAYOUTS))
    if dice.random() < 0.3:
        document |= {"epilogue": epilogues.operations(dice, atom_named(atom(32)))}
    configs = []
    for i in range(dice.choice((2, 3, 4))):
        n, counts = dice.choice((8, 16, 32, 64)), dice.choice(((1, 1), (2, 1), (1, 2)))
        own: Document = {"name": f"c{i}", "schedule": dice.choice(("cooperative", "cooperative", "pingpong", "warpgroup"))}
        if own["schedule"] == "pingpong":
            counts = (1, 1)
        own |= {"atom": atom(n), "tile": [64 * counts[0], n * counts[1], dice.choice((32, 64))], "atoms_layout": [*counts, 1]}
        if own["schedule"] == "cooperative":
            own |= dice.choice(({}, {"split_k": 2}, {"split_k": 3}, {"stream_k": "last_wave"}, {"stream_k": "always"}))
        if own["schedule"] != "warpgroup" and dice.random() < 0.3:
            own["cluster"] = list(dice.choice(((2, 1), (1, 2), (2, 2))))
        if operands == "SS" and dice.random() < 0.25:
            own["operands"] = "swapped"
        configs.append(own)
    for own in configs[:-1]:
        own["when"] = {about: _interval(dice) for about in dice.sample(("m", "n", "k", "mn"), dice.choice((1, 1, 2, 3)))}
    return epilogues.with_scalars(dice, document | kernels.problems(dice) | {"configs": configs})


def _interval(dice: random.Random) -> list[Any]:
    low, high = dice.choice((1, 16, 64)), dice.choice((64, 100, 4096))
    return list(dice.choice(((low, high), (None, high), (low, None))))
