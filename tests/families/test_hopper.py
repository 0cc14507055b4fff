"""plan for wgmma: every legality rule with a spec that breaks it, whose remedy then works; the numbers of some tiles."""

from __future__ import annotations

import random
import time

import pytest

from mmagen.core.errors import Fault, SpecFaults
from mmagen.families import plan
from mmagen.families.wgmma import rules as hopper_rules
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.generate.render import render
from mmagen.plan.model import SmemCopy, Swizzle, Tma
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import LAYOUTS, WGMMA_KEYS, Spec

LARGE = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM90_64x256x16_F32BF16BF16_SS",
    "layout": "TN",
    "tile": [128, 256, 64],
    "atoms_layout": [2, 1, 1],
    "cluster": [2, 1],
    "epilogue": {"out": "bf16"},
}
PINGPONG = LARGE | {"tile": [64, 256, 64], "atoms_layout": [1, 1, 1], "schedule": "pingpong"}
SIMPLE = LARGE | {"tile": [64, 256, 64], "atoms_layout": [1, 1, 1], "cluster": None}
SPLIT = LARGE | {"cluster": None, "split_k": 2}
FP8 = LARGE | {"atom": "SM90_64x128x32_F32E4M3E4M3_SS_TN", "tile": [128, 128, 128]}
TF32 = LARGE | {"atom": "SM90_64x128x8_F32TF32TF32_SS_TN", "tile": [128, 128, 32], "epilogue": {}}
S8 = LARGE | {"atom": "SM90_64x128x32_S32S8S8_SS_TN", "tile": [128, 128, 128], "epilogue": {}}
NARROW = LARGE | {"atom": "SM90_64x8x32_F32E4M3E4M3_SS_TN", "tile": [128, 8, 128], "cluster": None}
MICRO = {
    "mmagen": 1,
    "name": "g",
    "kernel": "micro",
    "atom": "SM90_64x64x16_F32BF16BF16_SS",
    "layout": "TN",
    "tile": [64, 64, 64],
}
MMA_SYNC = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM80_16x8x16_F32F16F16F32_TN",
    "tile": [128, 128, 32],
    "atoms_layout": [2, 2, 1],
}


def planned(document: dict, **changes: object) -> WgmmaGemmPlan:
    return plan(Spec.model_validate(document | changes))


def faults(document: dict) -> tuple[Fault, ...]:
    with pytest.raises(SpecFaults) as caught:
        plan(Spec.model_validate(document))
    return caught.value.faults


# rule: (a legal spec, what breaks it, key, part of what, part of remedy, what the remedy says)
RULES = {
    "N that no wgmma has": (
        LARGE,
        {"atom": "SM90_64x100x16_F32BF16BF16_SS"},
        ("atom",),
        "SM90_64x100x16",
        "multiples of 8 up to 256: the nearest is SM90_64x96x16_F32BF16BF16_SS or SM90_64x104x16",
        {"atom": "SM90_64x96x16_F32BF16BF16_SS", "tile": [128, 96, 64]},
    ),
    "N that no integer wgmma has": (
        S8,
        {"atom": "SM90_64x40x32_S32S8S8_SS_TN"},
        ("atom",),
        "SM90_64x40x32",
        "8, 24 and the multiples of 16 up to 256: the nearest is SM90_64x32x32_S32S8S8_SS_TN or SM90_64x48x32",
        {"atom": "SM90_64x48x32_S32S8S8_SS_TN", "tile": [128, 48, 128]},
    ),
    "sm_90 without its a": (
        LARGE,
        {"arch": ["sm_90"]},
        ("arch", 0),
        "sm_90 does not have wgmma",
        "wgmma requires exactly sm_90a",
        {"arch": ["sm_90a"]},
    ),
    "arch after wgmma": (
        LARGE,
        {"arch": ["sm_90a", "sm_100a"]},
        ("arch", 1),
        "sm_100a does not have",
        "requires exactly sm_90a",
        {"arch": ["sm_90a"]},
    ),
    "arch before wgmma": (
        LARGE,
        {"arch": ["sm_80"]},
        ("arch", 0),
        "sm_80 does not have wgmma",
        "requires exactly sm_90a",
        {"arch": ["sm_90a"]},
    ),
    "cluster in micro": (
        LARGE,
        {"kernel": "micro"},
        ("cluster",),
        "one CTA with one tile and has no cluster",
        "omit it",
        {"kernel": "micro", "cluster": None},
    ),
    "tile of micro": (
        MICRO,
        {"tile": [64, 72, 64]},
        ("tile", 1),
        "72 is not a multiple of the 64",
        "64",
        {"tile": [64, 64, 64]},
    ),
    "micro beyond registers": (
        MICRO,
        {"tile": [128, 256, 64]},
        ("tile",),
        "256 registers per thread, the maximum is 255",
        "more warpgroups",
        {"tile": [128, 256, 64], "atoms_layout": [2, 1, 1]},
    ),
    "micro beyond shared memory": (
        MICRO,
        {"tile": [64, 64, 1024]},
        ("tile",),
        "262,144 B of shared memory",
        "smaller",
        {"tile": [64, 64, 512]},
    ),
    "layout of micro": (
        MICRO | {"atom": "SM90_64x64x8_F32TF32TF32_SS_TN"},
        {"layout": "NT"},
        ("layout",),
        "K contiguous only",
        "TN",
        {"layout": "TN"},
    ),
    "a cluster in ownership": (
        LARGE,
        {"kernel": "ownership", "cluster": [2, 1]},
        ("cluster",),
        "kernel ownership is one CTA with one tile and has no cluster",
        "omit it",
        {"kernel": "ownership", "cluster": None},
    ),
    "ownership beyond shared memory": (
        MICRO,
        {"kernel": "ownership", "tile": [64, 64, 1024]},
        ("tile",),
        "262,144 B of shared memory",
        "smaller",
        {"kernel": "ownership", "tile": [64, 64, 512]},
    ),
    "ownership of too much": (
        MICRO,
        {"kernel": "ownership", "tile": [1024, 512, 16]},
        ("tile",),
        "67,108,864 (thread, element) pairs",
        "omit tile",
        {"kernel": "ownership", "tile": [512, 256, 16]},
    ),
    "tf32 in rows of M": (
        TF32,
        {"layout": "NN"},
        ("layout",),
        "wgmma reads tf32 K contiguous only, and A is M contiguous",
        "TN",
        {"layout": "TN"},
    ),
    "8 bits in rows of N": (
        S8,
        {"layout": "TT"},
        ("layout",),
        "wgmma reads s8 K contiguous only, and B is N contiguous",
        "TN",
        {"layout": "TN"},
    ),
    "8 bits through registers": (
        S8,
        {"atom": "SM90_64x128x32_S32S8S8_RS_TN", "layout": "NT"},
        ("layout",),
        "A is M contiguous and B is N contiguous",
        "TN",
        {"atom": "SM90_64x128x32_S32S8S8_RS_TN", "layout": "TN"},
    ),
    "permutation": (
        LARGE,
        {"permutation": [None, 256, None]},
        ("permutation", 1),
        "256 permutes operands",
        "null",
        {"permutation": [None, None, None]},
    ),
    "atoms_layout with a gap": (
        LARGE,
        {"atoms_layout": "(2,1,1):(2,1,1)"},
        ("atoms_layout",),
        "is not a bijection onto atoms 0 .. 1",
        "e.g. (2,1,1):(1,2,2)",
        {"atoms_layout": "(2,1,1):(1,2,2)"},
    ),
    "atoms along K": (
        LARGE,
        {"atoms_layout": [2, 1, 2]},
        ("atoms_layout",),
        "2 atoms along K",
        "atoms_layout [2, 1, 1]",
        {"atoms_layout": [2, 1, 1]},
    ),
    "five warpgroups": (
        SIMPLE,
        {"atoms_layout": [5, 1, 1], "tile": [320, 256, 64], "schedule": "warpgroup"},
        ("atoms_layout",),
        "5 warpgroups; schedule warpgroup allows at most 4",
        "atoms_layout [3, 1, 1] with tile [192, 256, 64]",
        {"atoms_layout": [3, 1, 1], "tile": [192, 256, 64], "schedule": "warpgroup"},
    ),
    "four that cooperate": (
        LARGE,
        {"atoms_layout": [4, 1, 1], "tile": [256, 256, 64]},
        ("atoms_layout",),
        "4 warpgroups; schedule cooperative allows at most 3",
        "atoms_layout [2, 1, 1] with tile [128, 256, 64]",
        {"atoms_layout": [2, 1, 1], "tile": [128, 256, 64]},
    ),
    "three that cooperate": (
        LARGE,
        {"atoms_layout": [3, 1, 1], "tile": [192, 256, 64]},
        ("tile",),
        "exceed the 128 of a thread",
        "tile",
        {},
    ),
    "stream K in turns": (
        PINGPONG,
        {"stream_k": "last_wave"},
        ("stream_k",),
        "does not support stream_k",
        "no stream_k",
        {"stream_k": None},
    ),
    "stream K of a split": (
        SPLIT,
        {"stream_k": "last_wave"},
        ("stream_k",),
        "already splits every tile",
        "no stream_k",
        {"stream_k": None},
    ),
    "pingpong of one": (
        PINGPONG,
        {"warpgroups": 1},
        ("warpgroups",),
        "at least two consumer warpgroups",
        "warpgroups 2",
        {"warpgroups": 2},
    ),
    "pingpong of four": (PINGPONG, {"warpgroups": 4}, ("warpgroups",), "too few registers", "warpgroups 2", {"warpgroups": 2}),
    "pingpong of a shared tile": (
        PINGPONG,
        {"atoms_layout": [2, 1, 1], "tile": [128, 256, 64]},
        ("atoms_layout",),
        "with schedule pingpong each has its own",
        "atoms_layout [1, 1, 1] with tile [64, 256, 64]",
        {"atoms_layout": [1, 1, 1], "tile": [64, 256, 64]},
    ),
    "turns without pingpong": (
        LARGE,
        {"warpgroups": 2},
        ("warpgroups",),
        "the schedule is cooperative",
        "omit it",
        {"warpgroups": None},
    ),
    "cluster of three": (
        LARGE,
        {"cluster": [3, 1]},
        ("cluster",),
        "[3, 1] has an extent that is not a power of two",
        "cluster [4, 1]",
        {"cluster": [4, 1]},
    ),
    "cluster of 32": (
        LARGE,
        {"cluster": [8, 4]},
        ("cluster",),
        "[8, 4] are 32 CTAs",
        "cluster [4, 4]",
        {"cluster": [4, 4]},
    ),
    "cluster without a producer": (
        SIMPLE,
        {"cluster": [2, 1]},
        ("cluster",),
        "schedule warpgroup does not support clusters",
        "cluster [1, 1]",
        {"cluster": [1, 1]},
    ),
    "cluster that shares too little": (
        NARROW,
        {"cluster": [2, 1]},
        ("cluster",),
        "2 CTAs share a tile of B with only 8 lines",
        "a multiple of 8 lines: the nearest legal is cluster [1, 1]",
        {"cluster": [1, 1]},
    ),
    "split_k in turns": (
        PINGPONG,
        {"split_k": 2},
        ("split_k",),
        "schedule pingpong does not support split_k",
        "split_k 1",
        {"split_k": 1},
    ),
    "split_k without a producer": (
        SIMPLE,
        {"split_k": 2},
        ("split_k",),
        "schedule warpgroup does not support split_k",
        "split_k 1",
        {"split_k": 1},
    ),
    "split_k of f16 sums": (
        SPLIT,
        {"atom": "SM90_64x256x16_F16F16F16_SS", "epilogue": {}},
        ("split_k",),
        "f16 partial sums would be rounded",
        "split_k 1",
        {"atom": "SM90_64x256x16_F16F16F16_SS", "epilogue": {}, "split_k": 1},
    ),
    "split_k of one slice": (NARROW, {"split_k": 2}, ("split_k",), "share equally the 1 slices", "split_k 1", {"split_k": 1}),
    "split_k beyond the stages": (
        SPLIT,
        {"tile": [128, 256, 16], "stages": 4},
        ("split_k",),
        "65,536 B, but 4 stages have 49,152 B",
        "stages 6",
        {"tile": [128, 256, 16], "stages": 6},
    ),
    "accumulation of bf16": (
        LARGE,
        {"accumulation": "precise"},
        ("accumulation",),
        "bf16 products lose no precision",
        "omit it",
        {"accumulation": None},
    ),
    "precise f16": (
        FP8,
        {"accumulation": "precise", "atom": "SM90_64x128x32_F16E4M3E4M3_SS_TN"},
        ("accumulation",),
        "SM90_64x128x32_F16E4M3E4M3_SS_TN are f16",
        "atom SM90_64x128x32_F32E4M3E4M3_SS_TN",
        {"accumulation": "precise"},
    ),
    "precise at long last": (
        FP8,
        {"accumulation": "precise", "tile": [128, 128, 256]},
        ("tile", 2),
        "256 products would be summed",
        "tile [128, 128, 128]",
        {"accumulation": "precise"},
    ),
    "tile of no whole extents": (
        LARGE,
        {"tile": [128, 200, 64]},
        ("tile", 1),
        "200 is not a multiple of the 256",
        "tile [128, 256, 64]",
        {},
    ),
    "K tile of no whole wgmma": (
        LARGE,
        {"tile": [128, 256, 60]},
        ("tile", 2),
        "60 is not a multiple of the 16",
        "tile [128, 256, 64]",
        {},
    ),
    "rows too short for TMA": (
        NARROW,
        {"epilogue": {"out": "e4m3"}},
        ("epilogue",),
        "8 e4m3 of a row of D, which are 8 B",
        "a wider epilogue.out, or epilogue.major M",
        {"epilogue": {"out": "e4m3", "major": "M"}},
    ),
    "too many stages": (
        LARGE,
        {"stages": 5},
        ("stages",),
        "5 need 279,552 B of shared memory, the maximum per CTA is 232,448 B",
        "stages 4",
        {"stages": 4},
    ),
    "stages beyond their barriers": (
        NARROW,
        {"tile": [128, 8, 32], "stages": 64},
        ("stages",),
        "64 need",
        "at most",
        {"tile": [128, 8, 32], "stages": 45},
    ),
    "stages beyond the room for barriers": (
        NARROW,
        {"atom": "SM90_64x8x16_F32BF16BF16_SS", "tile": [64, 8, 16], "atoms_layout": [1, 1, 1], "stages": 64},
        ("stages",),
        "64 need two mbarriers each, and there is room for those of 59",
        "at most 59: the nearest legal is stages 59",
        {"atom": "SM90_64x8x16_F32BF16BF16_SS", "tile": [64, 8, 16], "atoms_layout": [1, 1, 1], "stages": 59},
    ),
    "tile beyond shared memory": (
        LARGE,
        {"tile": [128, 256, 256]},
        ("tile",),
        "two stages of this tile and the epilogue need 427,008 B",
        "tile [128, 256, 128]",
        {"tile": [128, 256, 128]},
    ),
    "accumulators beyond registers": (
        LARGE,
        {"tile": [256, 256, 64]},
        ("tile",),
        "256 registers per thread for accumulators and about 30 for the rest exceed the 232",
        "tile [128, 256, 64]",
        {},
    ),
    "accumulators beyond one warpgroup's": (
        SIMPLE,
        {"tile": [128, 256, 64]},
        ("tile",),
        "exceed the 255",
        "tile [64, 256, 64]",
        {},
    ),
    "accumulators of precise": (
        FP8,
        {"atom": "SM90_64x256x32_F32E4M3E4M3_SS_TN", "tile": [128, 256, 128], "accumulation": "precise"},
        ("tile",),
        "256 registers per thread for accumulators and their partial sums",
        "atom SM90_64x192x32_F32E4M3E4M3_SS_TN with tile [128, 192, 128]",
        {"atom": "SM90_64x192x32_F32E4M3E4M3_SS_TN", "tile": [128, 192, 128], "accumulation": "precise"},
    ),
    "fragments of A": (
        LARGE | {"atom": "SM90_64x64x16_F32BF16BF16_RS", "tile": [512, 64, 64], "cluster": None},
        {"tile": [512, 64, 80]},
        ("tile",),
        "128 registers per thread for accumulators, 80 for fragments of A",
        "tile [512, 64, 64]",
        {},
    ),
    "CTAs beyond registers": (
        SIMPLE | {"tile": [64, 128, 16], "atom": "SM90_64x128x16_F32BF16BF16_SS"},
        {"ctas_per_sm": 6},
        ("ctas_per_sm",),
        "exceed the 80",
        "ctas_per_sm 5",
        {"ctas_per_sm": 5},
    ),
    "CTAs beyond threads": (
        NARROW,
        {"ctas_per_sm": 6, "tile": [128, 8, 32]},
        ("ctas_per_sm",),
        "6 x 384 threads exceed the 2048",
        "at most 5",
        {"ctas_per_sm": 2, "tile": [128, 8, 32]},
    ),
    "half an integer": (
        S8,
        {"problems": [{"shape": [8, 8, 8], "alpha": 0.5}]},
        ("problems", 0),
        "not both integers",
        "epilogue.out",
        {"problems": [{"shape": [8, 8, 8], "alpha": 0.5}], "epilogue": {"out": "f32"}},
    ),
    "out that cannot be converted": (
        S8,
        {"epilogue": {"out": "f64"}},
        ("epilogue", "out"),
        "f64 cannot be converted from s32",
        "one of s32",
        {"epilogue": {"out": "s8"}},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_explains_itself_and_its_remedy_works(rule):
    legal, change, key, what, remedy, fix = RULES[rule]
    planned(legal)
    found = faults(legal | change)
    assert {fault.key for fault in found} == {key}, found
    assert what in found[0].what and remedy in found[0].remedy, found[0]
    planned(legal | fix)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schedule", "pingpong"),
        ("cluster", [1, 1]),
        ("split_k", 1),
        ("warpgroups", 2),
        ("stream_k", "last_wave"),
        ("prefetch", 2),
        ("cache", {"a": "evict_last"}),
        ("accumulation", "fast"),
    ],
)
def test_keys_of_wgmma_are_for_wgmma(key, value):
    (fault,) = faults(MMA_SYNC | {key: value})
    assert (fault.key, fault.what.split(";")[0]) == ((key,), f"{key} requires a wgmma atom")
    assert "SM80_16x8x16_F32F16F16F32_TN" in fault.what and "omit it" in fault.remedy
    assert key in WGMMA_KEYS


@pytest.mark.parametrize(
    "change",
    [
        {"tile": [2**31 - 1] * 3},
        {"tile": [16384, 16384, 16384]},
        {"atoms_layout": [1024, 1, 1]},
        {"atoms_layout": [2**31 - 1, 1, 1]},
        {"atoms_layout": "(1024,1024,1024):(0,0,0)"},
        {"stages": 2**31 - 1},
        {"ctas_per_sm": 16},
        {"cluster": [2**31 - 1, 2**31 - 1]},
        {"raster": 1, "cluster": [8, 8], "split_k": 7},
        {"permutation": [2**31 - 1] * 3},
        {"atom": "SM90_64x8x16_F32BF16BF16_SS", "tile": [16384, 16384, 16384], "cluster": None},
    ],
    ids=str,
)
def test_absurd_values_end_quickly_in_faults(change):
    start = time.process_time()
    assert faults(LARGE | change)
    assert time.process_time() - start < 1


# --- Remedies in general ---------------------------------------------------------------------------------------------


def _document(dice: random.Random) -> dict:
    """What somebody might mean, and more often than not something odd in one place."""
    types, k = dice.choice(
        [
            ("F32BF16BF16", 16),
            ("F32F16F16", 16),
            ("F16F16F16", 16),
            ("F32TF32TF32", 8),
            ("S32S8U8", 32),
            ("F32E4M3E5M2", 32),
            ("F16E5M2E5M2", 32),
        ]
    )
    n = dice.choice([8, 16, 24, 64, 96, 112, 128, 192, 256])
    schedule = dice.choice(["warpgroup", "cooperative", "cooperative", "pingpong"])
    atoms = dice.choice(
        {
            "warpgroup": [[1, 1, 1], [2, 2, 1], [4, 1, 1]],
            "cooperative": [[1, 1, 1], [2, 1, 1], [1, 2, 1], [3, 1, 1]],
            "pingpong": [[1, 1, 1]],
        }[schedule]
    )
    tile = [64 * atoms[0] * dice.choice([1, 1, 1, 2]), n * atoms[1] * dice.choice([1, 1, 2]), k * dice.choice([1, 2, 4, 4])]
    document = {
        "mmagen": 1,
        "name": "random_one",
        "kernel": "gemm",
        "atom": f"SM90_64x{n}x{k}_{types}_{dice.choice(['SS', 'SS', 'RS'])}{'' if k == 16 else '_TN'}",
        "layout": dice.choice(list(LAYOUTS)) if k == 16 else "TN",
        "tile": tile,
        "atoms_layout": atoms,
        "schedule": schedule,
        "cluster": dice.choice([None, [2, 1], [1, 2], [2, 2], [4, 2]]) if schedule != "warpgroup" else None,
        "stages": dice.choice([None, None, 2, 3]),
        "epilogue": {"out": None, "major": dice.choice("NNM")},
    }
    odd = [
        {"tile": [tile[0] + 8, *tile[1:]]},
        {"tile": [4 * tile[0], *tile[1:]]},
        {"tile": [*tile[:2], 16 * tile[2]]},
        {"permutation": [64, None, None]},
        {"layout": "NT"},
        {"atoms_layout": [4, 1, 1]},
        {"atoms_layout": [1, 1, 2]},
        {"schedule": "pingpong"},
        {"schedule": None},
        {"cluster": [3, 1]},
        {"cluster": [8, 1]},
        {"cluster": [4, 4]},
        {"cluster": [16, 2]},
        {"split_k": 2},
        {"split_k": 4},
        {"split_k": 8, "cluster": None},
        {"warpgroups": 1},
        {"warpgroups": 3},
        {"stages": 9},
        {"stages": 90},
        {"ctas_per_sm": 2},
        {"ctas_per_sm": 4},
        {"accumulation": "precise"},
        {"accumulation": "fast"},
        {"epilogue": {"out": "e4m3"}},
    ]
    return document | (dice.choice(odd) if dice.random() < 0.7 else {})


def _hold(it: GemmPlan) -> None:
    assert isinstance(it, WgmmaGemmPlan)
    roles, scheduler, wgmma = it.roles, it.scheduler, it.atom
    assert it.threads == 128 * (roles.consumers + (roles.schedule != "warpgroup"))
    assert all(tile % extent == 0 for tile, extent in zip(it.tile, it.tiled_mma.extent, strict=True))
    for operand, ctas in zip(it.operands, reversed(scheduler.cluster), strict=True):
        tma = operand.tma
        assert tma.swizzle_bytes in (16, 32, 64, 128) and operand.line * operand.element.bytes == tma.swizzle_bytes
        assert operand.line * tma.panels == operand.extent_along
        assert tma.box_across * tma.boxes * ctas == operand.extent_across
        assert tma.box_across % 8 == 0 and tma.box_across <= 256
        assert operand.contiguous_k or (wgmma.m if operand.letter == "A" else wgmma.n) % operand.line == 0
        assert bool(operand.smem_copy) == (operand.letter == "A" and wgmma.a_in_registers)
    staged, count = it.epilogue, it.tile[0] * it.tile[1] // it.tiled_mma.threads * 2
    line = (staged.slice if staged.row_major else 16) * staged.out.bytes
    assert wgmma.n % staged.slice == 0 and staged.slice % 8 == 0 and line in (16, 32, 64, 128)
    assert count // staged.slice % scheduler.split_k == 0
    assert it.smem_bytes <= it.smem_limit and it.smem_bytes % 1024 == 0 and it.stages >= 2
    assert 16 * it.stages + 8 * roles.consumers <= 1024
    assert it.accumulator_registers + it.fragment_registers + 30 <= roles.usable_registers <= 255
    registers = roles.producer_registers + roles.consumers * roles.consumer_registers
    assert 128 * registers * it.ctas_per_sm <= 65536 and roles.producer_registers % 8 == roles.consumer_registers % 8 == 0
    assert scheduler.cluster_ctas == scheduler.split_k * scheduler.cluster[0] * scheduler.cluster[1] <= 16
    assert scheduler.raster_group >= 1


@pytest.mark.parametrize("seed", range(4))
def test_random_specs_are_refused_with_a_remedy_that_works_or_hold(seed):
    dice = random.Random(seed)
    made = refused = mended = 0
    for _ in range(250):
        spec = Spec.model_validate(_document(dice))
        try:
            it = plan(spec)
        except SpecFaults as error:
            assert all(fault.key and fault.what and fault.remedy for fault in error.faults)
            refused += 1
            mended += _mend(spec)
        else:
            _hold(it)
            made += 1
    assert made > 25 and refused > 25 and mended > 25, "the dice must find all of them"


def _mend(spec: Spec) -> int:
    """Follows the recommended change of a spec with a single breach: it must leave none."""
    found = hopper_rules.breaches(spec)
    if len(found) != 1 or (change := hopper_rules.nearest(spec, found[0])) is None:
        return 0
    again = Spec.model_validate(spec.model_copy(update=change).model_dump(mode="json"))
    assert hopper_rules.breaches(again) == [], (spec, change)
    return 1


# --- Numbers by hand -------------------------------------------------------------------------------------------------


def test_the_large_tile():
    """128x256x64 for two warpgroups, B shared by two CTAs."""
    it = planned(LARGE)
    assert it.roles.schedule == "cooperative" and (it.roles.consumers, it.threads) == (2, 384)
    # 65536 / 384 registers are 168 in whole eights; 128 x 40 stay with the producer, 256 threads share the rest.
    assert (it.roles.producer_registers, it.roles.consumer_registers) == (40, (168 * 384 - 40 * 128) // 256) == (40, 232)
    assert (it.stages, it.epilogue.slice, it.epilogue.smem_bytes) == (4, 64, 8 * 2 * 16 * 64 * 2)
    assert it.smem_bytes == 4 * (128 + 256) * 64 * 2 + 32768 + 1024 == 230400
    assert (it.operand("A").tma, it.operand("B").tma) == (Tma(128, 1, 128, 1, "kNormal"), Tma(128, 1, 128, 1, "kNormal"))
    assert it.operand("A").swizzle == Swizzle(3, 3, 3) and it.operand("A").gmem_copies == ()
    assert it.scheduler.raster_group == 4 and it.arch == ("sm_90a",) and it.scheduler.persistent and not it.mainloop.promote


def test_the_large_tile_in_other_layouts():
    it = planned(LARGE, layout="NT")
    assert it.atom.cxx == ("cute::SM90_64x256x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::MN, cute::SM90::GMMA::Major::MN>")
    # A panel is 64 elements of M (N) wide and 64 lines of K long, of which two CTAs load half each.
    assert (it.operand("A").tma, it.operand("B").tma) == (Tma(128, 2, 64, 1, "kNormal"), Tma(128, 4, 32, 1, "kNormal"))
    rs = planned(LARGE, atom="SM90_64x128x16_F32BF16BF16_RS", tile=[128, 128, 64], layout="NN")
    assert rs.atom.cxx.endswith("<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>"), "in registers there is one order"
    assert (
        rs.operand("A").smem_copy == SmemCopy(matrices=4, transposed=True)
        and rs.operand("B").smem_copy is None
        and rs.fragment_registers == 64 * 64 // 128 // 2
    )


def test_a_line_does_not_reach_into_the_next_atom():
    it = planned(
        LARGE, atom="SM90_64x24x16_F32BF16BF16_SS", tile=[64, 96, 64], atoms_layout=[1, 1, 1], layout="TT", cluster=None
    )
    assert it.operand("B").tma == Tma(16, 12, 64, 1, "kNormal"), "96 elements are 64-byte lines, but an atom has 24"


def test_boxes_are_whole_swizzles_of_at_most_256_lines():
    it = planned(
        LARGE,
        atom="SM90_64x120x16_F32BF16BF16_SS",
        tile=[64, 360, 16],
        atoms_layout=[1, 3, 1],
        cluster=None,
        schedule="cooperative",
    )
    assert it.operand("B").tma == Tma(32, 1, 120, 3, "kNormal")


def test_schedules_and_their_registers():
    assert planned(SIMPLE).roles.schedule == "warpgroup" and planned(SIMPLE).threads == 128
    assert planned(SIMPLE).roles.consumer_registers == 0 and planned(SIMPLE).roles.usable_registers == 255
    three = planned(PINGPONG, warpgroups=3, atom="SM90_64x128x16_F32BF16BF16_SS", tile=[64, 128, 64])
    assert (three.roles.consumers, three.threads) == (3, 512)
    assert (three.roles.producer_registers, three.roles.consumer_registers) == (32, 160)
    one = planned(SIMPLE, schedule="cooperative")
    assert one.threads == 256 and one.roles.consumer_registers == 0, "256 threads have 255 registers each anyway"
    assert planned(SPLIT).scheduler.persistent is False and planned(PINGPONG).scheduler.persistent is True


@pytest.mark.parametrize(
    ("split_k", "cluster", "in_cluster", "through_workspace"),
    [
        (None, None, 1, None),
        (1, None, 1, None),
        (8, [2, 1], 8, None),
        (8, [2, 2], 1, 8),
        (3, None, 1, 3),
        (16, None, 1, 16),
        (1000, [2, 1], 1, 1000),
        ("auto", [1, 2], 1, 0),
    ],
)
def test_parts_of_k_are_summed_in_a_cluster_that_fits_them_and_else_through_a_workspace(
    split_k, cluster, in_cluster, through_workspace
):
    plan = planned(SPLIT, split_k=split_k, cluster=cluster)
    scheduler = plan.scheduler
    assert (scheduler.split_k, scheduler.workspace_splits) == (in_cluster, through_workspace)
    assert plan.sums_in_workspace == (through_workspace is not None) and not plan.leaves_flags
    assert scheduler.persistent == (in_cluster == 1)


@pytest.mark.parametrize(
    ("stream_k", "scheduler"),
    [("last_wave", "StreamKTileScheduler<Config, false>"), ("always", "StreamKTileScheduler<Config, true>")],
)
def test_last_waves_are_shared_however_full_they_are_only_where_the_spec_says_so(stream_k, scheduler):
    it = planned(LARGE, stream_k=stream_k)
    assert it.sums_in_workspace and it.leaves_flags and it.most_launches == 2, "copies of operands may come first"
    assert f"using TileScheduler = mmagen::{scheduler};" in render(it)["include/g/config.cuh"].decode()


SWAPPED = SIMPLE | {"atom": "SM90_64x16x16_F32BF16BF16_SS", "tile": [64, 16, 64], "schedule": "cooperative"}
SWAPPED |= {"operands": "swapped"}


@pytest.mark.parametrize(("layout", "computed"), [("TN", "TN"), ("NN", "TT"), ("TT", "NN"), ("NT", "NT")])
@pytest.mark.parametrize("major", ["N", "M"])
def test_a_swapped_kernel_computes_the_transpose(layout, computed, major):
    cache = {"a": "evict_last", "b": "evict_first"}
    it = planned(SWAPPED, layout=layout, epilogue={"out": "bf16", "major": major}, cache=cache, cluster=[1, 2])
    a, b = it.operands
    assert ("K" if a.contiguous_k else "M", "K" if b.contiguous_k else "N") == LAYOUTS[computed]
    assert (a.extent_mn, b.extent_mn, a.tma.hint, b.tma.hint) == (64, 16, "kEvictFirst", "kEvictLast")
    assert it.majors == (*LAYOUTS[layout], major) and it.d_row_major == (major == "M")
    assert [it.operand(letter).letter for letter in "AB"] == ["A", "B"]
    assert (it.tile, it.tile_of_d, it.cluster_of_d) == ((64, 16, 64), (16, 64, 64), (2, 1))
    straight = planned(SWAPPED, layout=computed, operands=None, epilogue={"out": "bf16", "major": "NM"["NM".index(major) - 1]})
    assert (a.swizzle, a.smem_copy, it.smem_bytes) == (straight.operand("A").swizzle, None, straight.smem_bytes)
    assert it.epilogue.slice == straight.epilogue.slice


def test_a_call_of_a_swapped_kernel_has_the_types_in_order():
    it = planned(FP8 | SWAPPED, atom="SM90_64x16x32_F32E4M3E5M2_SS_TN", tile=[64, 16, 128])
    assert it.types == "e5m2 x e4m3 + f32 -> bf16" and "e5m2 x e4m3" in it.text.title
    assert [one.element.word for one in it.operands] == ["e4m3", "e5m2"]


@pytest.mark.parametrize(("operands", "major", "other"), [("in_order", "N", "M"), ("swapped", "M", "N")])
def test_a_slice_that_tma_cannot_store_is_named_as_the_spec_has_it(operands, major, other):
    """Eight e4m3 of a row of the kernel's D are 8 bytes."""
    document = NARROW | {"atom": "SM90_64x8x32_F16E4M3E4M3_SS_TN", "operands": operands}
    out = {"out": "e4m3", "major": major}
    found = faults(document | {"epilogue": out})
    assert [one.key for one in found] == [("epilogue",)] and f"epilogue.major {other}" in found[0].remedy
    assert dict(found[0].change)[("epilogue",)]["major"] == major
    assert planned(document, epilogue=out | {"major": other}).epilogue.major == other


def test_split_k_gives_every_cta_as_many_slices():
    assert planned(SPLIT).epilogue.slice == 64
    assert planned(SPLIT, split_k=8).epilogue.slice == 32, "four slices of 64 columns are not enough for eight CTAs"


def test_the_sha_of_other_kernels_knows_nothing_of_wgmma():
    dumped = Spec.model_validate(MMA_SYNC).model_dump(mode="json")
    assert not set(WGMMA_KEYS) & set(dumped)
    assert Spec.model_validate(SPLIT).model_dump(mode="json")["split_k"] == 2
