"""Specs drawn from a seed: every key and family; most start from a plausible spec and change a few keys at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import yaml

from mmagen.mma.catalogue import operations
from mmagen.spec.epilogue import OutType
from mmagen.spec.model import Spec
from tests.properties import epilogues, hopper, kernels, rare, reach
from tests.properties.kernels import Document

_KERNELS: tuple[tuple[int, Callable[[random.Random], Document]], ...] = (
    (36, kernels.gemm),
    (34, hopper.wgmma_gemm),
    (10, hopper.sparse_gemm),
    (12, kernels.micro),
    (6, kernels.ownership),
    (4, kernels.instruction),
    (7, hopper.library),
    (1, kernels.peak),
)
# How many keys are changed at random; None: all keys are random.
_CHANGES = (0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 4, None)
# Keys that are drawn by dice of their own, with how often: so most specs of a seed stay those that records name.
_LATER = {"weights": 0.06, "split": 0.04}
# Kernels that are drawn by dice of their own, with how often.
_RARE: tuple[tuple[float, Callable[[random.Random], Document]], ...] = (
    (0.04, rare.mma_sp_gemm),
    (0.05, rare.wide_cluster),
    (0.03, rare.library),
    (0.05, rare.pointers),
    (0.03, rare.shared_weights),
    (0.04, rare.tuned_library),
    (0.03, rare.packed_gemm),
)
_STRIDES = 0.05  # of the specs with problems have strides of a batch
_RESPELLED = 0.15  # of the specs
_OUT = list(get_args(OutType))


class _Dumper(yaml.SafeDumper):
    """Writes a list that occurs twice twice: no spec may have anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@dataclass(frozen=True)
class Drawn:
    """One spec: number `index` of `seed`."""

    seed: int
    index: int

    @property
    def name(self) -> str:
        """The name of the spec and of its project."""
        return f"s{self.seed}_{self.index:05d}"

    @cached_property
    def document(self) -> Document:
        """The spec as plain data."""
        dice = random.Random(f"{self.seed}:{self.index}")
        weights, makers = zip(*_KERNELS, strict=True)
        document = {"mmagen": 1, "name": self.name} | dice.choices(makers, weights)[0](dice)
        changes = dice.choice(_CHANGES)
        keys = [key for key in WILD if key not in _LATER]
        for key in dice.sample(keys, len(keys) // 2 if changes is None else changes):
            _change(dice, document, key)
        later = random.Random(f"{self.seed}:{self.index}:later")
        if later.random() < _LATER["weights"]:
            document = {"mmagen": 1, "name": self.name} | hopper.mixed_gemm(later)
        elif later.random() < _LATER["weights"] / 3:
            _change(later, document, "weights")
        split = random.Random(f"{self.seed}:{self.index}:split")
        if split.random() < _LATER["split"]:
            registers = random.Random(f"{self.seed}:{self.index}:split in registers")
            found = kernels.split_gemm(registers) if registers.random() < 0.4 else hopper.split_gemm(split)
            document = {"mmagen": 1, "name": self.name} | found
        elif split.random() < _LATER["split"] / 3:
            _change(split, document, "split")
        more = random.Random(f"{self.seed}:{self.index}:more")
        chance = more.random()
        for part, maker in _RARE:
            if 0 <= chance < part:
                document = {"mmagen": 1, "name": self.name} | maker(more)
            chance -= part
        strides = random.Random(f"{self.seed}:{self.index}:strides")
        if strides.random() < _STRIDES:
            document = rare.with_strides(strides, document)
        spelling = random.Random(f"{self.seed}:{self.index}:spelling")
        return reach.respelled(spelling, document, 0.25) if spelling.random() < _RESPELLED else document

    @property
    def features(self) -> frozenset[str]:
        """Its keys, `operations` where the epilogue is a list of them, and `sparse` of an atom that is."""
        document = self.document
        listed = {"operations"} if isinstance(document.get("epilogue"), list) else set()
        sparse = {"sparse"} if "SPARSE" in str(document.get("atom")) else set()
        return frozenset(document) | listed | sparse

    @property
    def text(self) -> str:
        """The spec as YAML."""
        return yaml.dump(self.document, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=120)


def named(name: str) -> Drawn:
    """The spec of that name. Raises ValueError."""
    seed, _, index = name.removeprefix("s").partition("_")
    return Drawn(int(seed), int(index))


def drawn(seed: int, shard: tuple[int, int] = (1, 1), having: Collection[str] = ()) -> Iterator[Drawn]:
    """Endless specs of a seed. shard: (i, n) takes every n-th of them, i from 1. having: only specs with one of these features."""
    index = shard[0] - 1
    while True:
        one = Drawn(seed, index)
        if not having or one.features.intersection(having):
            yield one
        index += shard[1]


# --- Random changes --------------------------------------------------------------------------------------------------


def _change(dice: random.Random, document: Document, key: str) -> None:
    """Another value for the key, or none."""
    if key != "kernel" and key in document and dice.random() < 0.1:
        del document[key]
    else:
        document[key] = WILD[key](dice, document.get(key))


def _atom(dice: random.Random, old: Any) -> str:
    maker = dice.choice((kernels.fma_or_mma_sync, kernels.fma_or_mma_sync, kernels.wgmma, kernels.dmma))
    name = dice.choice(operations()).name if dice.random() < 0.15 else maker(dice).name
    return name.replace("x", "y", 1) if dice.random() < 0.05 else name


def _tile(dice: random.Random, old: Any) -> Any:
    tile = list(old) if isinstance(old, list) else [64, 64, 32]
    i = dice.randrange(3)
    tile[i] = dice.choice((tile[i] + 1, tile[i] * 2, max(tile[i] // 2, 1), 8, 24, 48, 96, 16, 160, 7, dice.randint(1, 300)))
    return dice.choice((tile, tile, tile, tile, tile, tile, tile[:2], None))


def _atoms(dice: random.Random, old: Any) -> Any:
    counts = (dice.choice((1, 2, 3, 4, 5, 6, 8)), dice.choice((1, 2, 3, 4, 5, 6)), dice.choice((1, 1, 1, 2, 3)))
    odd = "({0},{1},{2}):({1},{0},1)".format(*counts)
    return dice.choice((kernels.atoms_layout(dice, counts), kernels.atoms_layout(dice, counts), odd, [0, 1, 1]))


def _permutation(dice: random.Random, old: Any) -> Any:
    least = dice.choice((8, 16, 24, 32, 48, 64))
    entries = [kernels.permutation(dice, least, (8, least // 8))[0] for _ in "MNK"]
    return dice.choice(
        (entries, [entries[0], None, None], [None, entries[1], None], [None, None, entries[2]], ["(2,2):(1,1)"] * 3)
    )


def _layout(dice: random.Random, old: Any) -> Any:
    return dice.choice(("TN", "NT", "NN", "TT", {"a": "M", "b": "K"}, {"a": "K", "b": "N"}, "TX", {"a": "N", "b": "K"}))


def _arch(dice: random.Random, old: Any) -> Any:
    names = ("sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103", "sm_120a", "sm_99")
    return dice.choice((dice.sample(names, dice.choice((1, 2, 3))), ["sm_90a"], None, []))


def _problems(dice: random.Random, old: Any) -> Any:
    odd = {
        "shape": [64, 64, 64],
        **dice.choice(
            ({"alpha": 1e300}, {"alpha": 0.3}, {"beta": 1e38}, {"ld_pad": -1}, {"offset": 65}, {"shape": [64, 2**31 - 1, 8]})
        ),
    }
    return [kernels.problem(dice), dice.choice((odd, kernels.problem(dice)))]


def _configs(dice: random.Random, old: Any) -> Any:
    first = {"name": "first", "when": {"m": [1, 64]}, "stages": 2}
    return dice.choice(([first, {"name": "rest"}], [{"name": "only", "raster": 2}], [first], [{"name": "rest"}, first], []))


def _epilogue(dice: random.Random, old: Any) -> Any:
    """Another type of D, or a list of any operations, of which some are none."""
    if dice.random() < 0.5:
        return {"out": dice.choice((*_OUT, None, "tf32")), "major": dice.choice(("N", "M", "K"))}
    of = kernels.fma_or_mma_sync(dice) if dice.random() < 0.5 else kernels.wgmma(dice)
    wrong = ([], "sum", {"bias": "both"}, {"cast": "f16", "relu": True}, {"add": "alpha"}, {"clamp": [2, 1]}, {"type": "f32"})
    return [*epilogues.operations(dice, of), *([dice.choice(wrong)] if dice.random() < 0.3 else [])]


def _pair(dice: random.Random, old: Any) -> Any:
    return [dice.choice((1, 2, 3, 4, 8, 16)), dice.choice((1, 1, 2, 4, 8, 16))]


def _of(*values: Any) -> Callable[[random.Random, Any], Any]:
    return lambda dice, old: dice.choice(values)


# Every key of a spec but its version and name, and two that no spec has.
WILD: dict[str, Callable[[random.Random, Any], Any]] = {
    "kernel": _of("gemm", "gemm", "micro", "ownership", "peak", "gem"),
    "atom": _atom,
    "layout": _layout,
    "tile": _tile,
    "atoms_layout": _atoms,
    "permutation": _permutation,
    "stages": lambda dice, old: dice.choice((1, 2, 3, 4, 8, None, dice.randint(2, 40), dice.randint(2, 40), "3")),
    "ctas_per_sm": _of(1, 2, 3, 4, 8, 16, 17, None),
    "raster": _of(0, 1, 2, 3, 7, 8, 64, 1000, 2**31 - 1, None),
    "schedule": _of("warpgroup", "cooperative", "pingpong", "ping_pong", None),
    "cluster": _pair,
    "split_k": _of(1, 2, 3, 4, 5, 8, 9, "auto", None),
    "stream_k": _of("never", "last_wave", "always", None, True),
    "operands": _of("swapped", "swapped", "in_order", None, "A"),
    "prefetch": _of(0, 1, 3, 50, -1, None),
    "cache": _of(
        {"a": "evict_first", "b": "evict_last"},
        {"a": "normal", "b": "evict_first"},
        {"b": "evict_normal"},
        {"c": "normal"},
        None,
    ),
    "warpgroups": _of(1, 2, 3, 4, 8, 9, None),
    "accumulation": _of("fast", "precise", "precise", None, "slow"),
    "sparse": _of("2:4", "1:2", None, "2to4"),
    "scale": _of(
        {"a": "row", "b": "column"}, {"a": "1x128", "b": "128x128"}, {"a": "1x128", "a_major": "K"}, {"b": "row"}, {}, None
    ),
    "weights": lambda dice, old: hopper.weights(dice) if dice.random() < 0.8 else {"type": "s4", "group": 100},
    "split": _of("bf16x3", "bf16x6", None, "bf16x9"),
    "grouped": _of("contiguous", "masked", "pointers", None, "ragged"),
    "epilogue": _epilogue,
    "arch": _arch,
    "problems": _problems,
    "configs": _configs,
    "stage": _of(2),
    "bias": _of("f32"),
}
assert set(Spec.model_fields) - {"mmagen", "name"} == set(WILD) - {"stage", "bias"}
