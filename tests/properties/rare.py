"""Documents of what the usual draws seldom have: mma.sp, 4-bit operands, clusters of up to 16 CTAs, groups with matrices of their
own, weights that several warpgroups share, libraries of different kernels and with costs."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from mmagen.mma.catalogue import operations
from mmagen.mma.packed_atoms import PackedAtom, find_packed
from mmagen.mma.sparse_atoms import SparseMma, find_sparse
from mmagen.mma.sparse_forms import FORMS
from mmagen.spec.cost import Cost
from mmagen.spec.model import BATCH_STRIDES, LAYOUTS
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


def packed_gemm(dice: random.Random) -> Document:
    """A gemm of mma.sync on 4-bit integers, mostly in the layout that it takes."""
    atom = dice.choice(_packed())
    counts = dice.choice(_WARPS)
    tile = [atom.m * counts[0] * dice.choice((1, 1, 2)), atom.n * counts[1] * dice.choice((1, 2, 2, 4))]
    tile = [max(32, tile[0]), max(32, tile[1]), atom.k * counts[2] * dice.choice((2, 2, 4))]
    document: Document = {"kernel": "gemm", "atom": atom.name, "tile": tile}
    document["layout"] = "TN" if dice.random() < 0.9 else dice.choice(list(LAYOUTS))
    document["atoms_layout"] = kernels.atoms_layout(dice, counts)
    if dice.random() < 0.3:
        document["permutation"] = [None, dice.choice((None, 2 * atom.n * counts[1])), dice.choice((None, None, None, atom.k))]
    for key, values in (("stages", (2, 3, 4, 7)), ("ctas_per_sm", (1, 2, 3)), ("raster", (1, 2, 8, 100))):
        if dice.random() < 0.25:
            document[key] = dice.choice(values)
    document |= kernels.epilogue(dice, atom) | kernels.arch(dice, atom) | kernels.epilogue_list(dice, atom)
    return epilogues.with_scalars(dice, document | kernels.problems(dice))


@cache
def _packed() -> tuple[PackedAtom, ...]:
    return tuple(atom for one in operations() if (atom := find_packed(one.name)))


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


# --- Groups with matrices of their own -------------------------------------------------------------------------------

_NOT_OF_POINTERS = ("split_k", "stream_k", "prefetch", "sparse", "split", "problems")
_OF_TENSORS = ("bias", "add", "multiply", "amax", "row_sums", "column_sums", "gated")


def pointers(dice: random.Random) -> Document:
    """A grouped kernel whose groups have M, N, K and matrices of their own, mostly without the keys that do not go with them."""
    document = hopper.sparse_gemm(dice) if dice.random() < 0.05 else hopper.wgmma_gemm(dice)
    if dice.random() < 0.9:
        document = {key: value for key, value in document.items() if key not in _NOT_OF_POINTERS}
        alone = dice.random() < 0.4  # with nothing but A, B, C and D
        if alone:
            document.pop("scale", None)
        if alone and isinstance(listed := document.get("epilogue"), list):
            kept = [one for one in listed if isinstance(one, str) or not set(one) & set(_OF_TENSORS)]
            document["epilogue"] = kept or ["alpha"]
    if document.get("schedule") == "warpgroup":
        document["schedule"] = "cooperative"
    document["grouped"] = "pointers"
    document.pop("problems", None)
    if dice.random() < 0.6:
        even = any("gated" in one for one in document.get("epilogue", ()) if isinstance(one, dict))
        document["problems"] = [_problem_of_matrices(dice, even) for _ in range(dice.choice((1, 2)))]
    return epilogues.with_scalars(dice, document)


def _problem_of_matrices(dice: random.Random, even: bool) -> Document:
    """Groups by their M, N and K, or by rows alone. even: N is, mostly."""
    if dice.random() < 0.25:
        groups: Any = {"experts": dice.randint(1, 40), "tokens": dice.randint(0, 200), "seed": dice.randint(0, 9)}
        found: Document = {"shape": [200, 16 * dice.randint(1, 8), 16 * dice.randint(1, 8)], "groups": groups}
    elif dice.random() < 0.25:
        groups = [dice.choice((0, 1, 16, 65, dice.randint(0, 150))) for _ in range(dice.choice((1, 3, 34)))]
        found = {"shape": [max(1, *groups), 16 * dice.randint(1, 8), 16 * dice.randint(1, 8)], "groups": groups}
    else:
        extents = (0, 1, 8, 16, 17, 64, 65, 130)
        columns = (0, 8, 16, 64, 130) if even and dice.random() < 0.9 else extents
        groups = [[dice.choice(extents), dice.choice(columns), dice.choice(extents)] for _ in range(dice.choice((1, 2, 4, 40)))]
        found = {"shape": [max(1, *(one[mode] for one in groups)) for mode in range(3)], "groups": groups}
    if dice.random() < 0.4:
        found |= {"alpha": dice.choice((2.0, 0.5)), "beta": dice.choice((-1.0, 0, 1.0))}
    if dice.random() < 0.4:
        found["ld_pad"] = dice.choice((16, 16, 1, 8))
    return found


# --- Weights ---------------------------------------------------------------------------------------------------------


def shared_weights(dice: random.Random) -> Document:
    """A gemm with weights whose k tiles several warpgroups take in turn."""
    document = hopper.mixed_gemm(dice)
    return document | {"schedule": "cooperative", "warpgroups": dice.choice((1, 2, 2, 3, 4, 4, 5))}


# --- Libraries -------------------------------------------------------------------------------------------------------

# By the key: values that a config may override it with.
_TUNING: dict[str, tuple[Any, ...]] = {
    "ctas_per_sm": (1, 2, None),
    "raster": (1, 3, 16, None),
    "stages": (2, 3, 4, None),
    "prefetch": (0, 1, 3, None),
    "cache": (
        {"a": "evict_first", "b": "normal"},
        {"a": "normal", "b": "evict_first"},
        {"a": "evict_last", "b": "evict_last"},
        None,
    ),
    "warpgroups": (2, 3, None),
    "schedule": ("cooperative", "pingpong", "warpgroup"),
    "cluster": ([2, 1], [1, 2], None),
    "split_k": (1, 2, "auto", None),
    "stream_k": ("never", "always", None),
    "operands": ("in_order", "swapped", None),
}
_OF_REGISTERS = ("ctas_per_sm", "raster", "stages")  # that kernels of mma.sync have too


def tuned_library(dice: random.Random) -> Document:
    """Configs that override any keys, some of them with costs in place of rules."""
    maker = dice.choice((hopper.wgmma_gemm, hopper.wgmma_gemm, kernels.gemm, hopper.split_gemm, hopper.mixed_gemm))
    document = {key: value for key, value in maker(dice).items() if key not in ("grouped", "problems")}
    document |= kernels.problems(dice)
    of_registers = maker is kernels.gemm
    keys = _OF_REGISTERS if of_registers else tuple(_TUNING)
    costed = dice.random() < 0.5
    configs: list[Document] = []
    for i in range(dice.choice((2, 2, 3))):
        own: Document = {"name": f"t{i}"}
        own |= {key: dice.choice(_TUNING[key]) for key in dice.sample(keys, dice.choice((0, 1, 1, 2, 3)))}
        if of_registers and "permutation" in document and dice.random() < 0.5:
            own["permutation"] = [None, None, None]
        if own.get("schedule") == "pingpong":
            own["atoms_layout"] = [1, 1, 1]
        if costed:
            own["cost"] = cost(dice)
        configs.append(own)
    for i, own in enumerate(configs[:-1]):
        if not costed or dice.random() < 0.2:
            own["when"] = {dice.choice("mnk"): [1, 64 * (i + 1)]}
            own.pop("cost", None)
    if costed and not of_registers:
        for own in configs:
            if "when" not in own and dice.random() < 0.5:
                own["clusters"] = clusters(dice)
                own.pop("cluster", None)
                own.pop("cost", None)
    return epilogues.with_scalars(dice, document | {"configs": configs})


_WIDTHS = (8, 24, 32, 40, 48, 64, 72, 96, 112, 128, 176)


def clusters(dice: random.Random) -> list[Document]:
    """Those that one kernel is launched in, each with a cost."""
    some = dice.sample(([1, 1], [2, 1], [1, 2], [2, 2], [4, 1], [1, 4]), dice.choice((1, 2, 3)))
    return [_columns({"cluster": one, "cost": cost(dice) if dice.random() < 0.95 else None}) for one in some]


def _columns(launch: Document) -> Document:
    """The launch, now and then with tile_n: a number of columns, a list, or null. Drawn from the launch itself, so that other
    draws do not change."""
    dice = random.Random(repr(launch))
    if dice.random() < 0.6:
        return launch
    return launch | {"tile_n": dice.choice((None, dice.choice(_WIDTHS), sorted(dice.sample(_WIDTHS, dice.choice((1, 2, 4))))))}


def cost(dice: random.Random) -> Document:
    """Coefficients of a predicted time; those that a spec may lack are set now and then."""
    found: Document = {"ctas": dice.choice((1, 132, 264))}
    for key, field in Cost.model_fields.items():
        if key not in ("ctas", "fixed_part") and (field.is_required() or dice.random() < 0.5):
            found[key] = round(dice.uniform(0.01, 3), 3)
    part = random.Random(repr(found)).uniform(-1, 1)  # a draw of its own, so that others do not change
    return found | ({"fixed_part": round(part, 3)} if part >= 0 else {})


# --- Problems --------------------------------------------------------------------------------------------------------


def with_strides(dice: random.Random, document: Document) -> Document:
    """The document with strides of a batch of its problems, of D too; mostly at least a matrix."""
    problems = [
        {"shape": one[:3], "batch": 2} if isinstance(one, list) else one | ({} if "groups" in one else {"batch": 3})
        for one in document.get("problems", ())
    ]
    for one in problems:
        if "groups" not in one:
            keys = dice.sample(BATCH_STRIDES, dice.choice((1, 2)))
            one |= {key: dice.choice((1 << 16, (1 << 16) + 8, 0 if key != "batch_stride_d" else 1 << 17)) for key in keys}
    return document | ({"problems": problems} if problems else {})
