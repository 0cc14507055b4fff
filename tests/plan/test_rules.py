"""Every rule of the plan of kernels without wgmma: what a spec that breaks it is told, and that the remedy works."""

from __future__ import annotations

import time

import pytest

from mmagen.core.errors import Fault, SpecFaults
from mmagen.families import plan
from mmagen.spec.model import Spec
from tests.plan.test_plan import CLASSIC, INTEGER, MICRO, OWNERSHIP, SCALAR, TURING, VOLTA


def faults(document: dict) -> tuple[Fault, ...]:
    with pytest.raises(SpecFaults) as caught:
        plan(Spec.model_validate(document))
    return caught.value.faults


# rule: (a legal spec, what breaks it, key, part of what, part of remedy, what the remedy says)
RULES = {
    "unknown atom": (
        CLASSIC,
        {"atom": "SM80_16x8x16_F32F16F16F32_NT"},
        ("atom",),
        "'SM80_16x8x16_F32F16F16F32_NT'",
        "SM80_16x8x16_F32F16F16F32_TN",
        {"atom": "SM80_16x8x16_F32F16F16F32_TN"},
    ),
    "arch that is none": (
        CLASSIC,
        {"arch": ["sm_80", "sm_999"]},
        ("arch", 1),
        "there is no sm_999",
        "sm_90",
        {"arch": ["sm_80", "sm_90"]},
    ),
    "arch whose suffix there is not": (
        CLASSIC,
        {"arch": ["sm_80", "sm_90f"]},
        ("arch", 1),
        "there is no sm_90f",
        "from sm_90 on also with a, from sm_100 on with f",
        {"arch": ["sm_80", "sm_90"]},
    ),
    "arch before the atom": (
        CLASSIC,
        {"arch": ["sm_90", "sm_75"]},
        ("arch", 1),
        "sm_75 does not have SM80_16x8x16",
        "requires sm_80",
        {"arch": ["sm_90", "sm_80"]},
    ),
    "atoms_layout with a gap": (
        CLASSIC,
        {"atoms_layout": "(2,2,1):(1,4,8)"},
        ("atoms_layout",),
        "(2,2,1):(1,4,8) is not a bijection onto atoms 0 .. 3",
        "e.g. (2,2,1):(1,2,4)",
        {"atoms_layout": "(2,2,1):(1,2,4)"},
    ),
    "atoms_layout with a double": (
        CLASSIC,
        {"atoms_layout": "(2,2,1):(1,1,4)"},
        ("atoms_layout",),
        "0 .. 3",
        "every thread must belong to one atom, e.g. (2,2,1):(1,2,4)",
        {"atoms_layout": "(2,2,1):(1,2,4)"},
    ),
    "too many threads": (
        MICRO,
        {"atoms_layout": [33, 1, 1], "tile": [528, 8, 16]},
        ("atoms_layout",),
        "33 atoms of 32 threads are 1056 threads",
        "at most 32 atoms",
        {"atoms_layout": [32, 1, 1], "tile": [512, 8, 16]},
    ),
    "quad pairs that leave a warp": (
        VOLTA,
        {"atoms_layout": [1, 3, 1], "tile": [24, 24, 8]},
        ("atoms_layout",),
        "3 quad pairs do not fill a warp",
        "a multiple of 4, e.g. [2, 2, 1]",
        {"atoms_layout": [2, 2, 1], "tile": [32, 32, 8]},
    ),
    "threads that leave a warp": (
        SCALAR,
        {"atoms_layout": [4, 4, 1], "tile": [16, 16, 8]},
        ("atoms_layout",),
        "16 threads are not a whole number of warps",
        "a multiple of 32, e.g. [16, 16, 1]",
        {"atoms_layout": [16, 16, 1]},
    ),
    "small permutation": (
        CLASSIC,
        {"permutation": [16, 32, 16]},
        ("permutation", 0),
        "16 is smaller than the 32 elements that the atoms cover along M",
        "32, another multiple, or null",
        {"permutation": [32, 32, 16]},
    ),
    "odd permutation": (
        CLASSIC,
        {"permutation": [32, 40, 16]},
        ("permutation", 1),
        "40 is not a multiple of the 16 elements that the atoms cover along N",
        "along N: 32, another multiple",
        {"permutation": [32, 32, 16]},
    ),
    "permutation that is none": (
        CLASSIC,
        {"permutation": [32, "(8,2,2):(1,16,16)", 16]},
        ("permutation", 1),
        "(8,2,2):(1,16,16) is not a bijection onto 0 .. 31",
        "e.g. (8,2,2):(1,8,16)",
        {"permutation": [32, "(8,2,2):(1,8,16)", 16]},
    ),
    "permutation beyond any tile": (
        CLASSIC,
        {"permutation": [2**30, 32, 16]},
        ("permutation", 0),
        "cover 1073741824 elements",
        "at most 16384",
        {"permutation": [32, 32, 16]},
    ),
    "tile of no whole extents": (
        CLASSIC,
        {"tile": [128, 100, 32]},
        ("tile", 1),
        "100 is not a multiple of the 32 that the TiledMMA covers along N",
        "the nearest legal is 96 or 128",
        {"tile": [128, 96, 32]},
    ),
    "tile below one extent": (
        CLASSIC,
        {"tile": [5, 128, 32]},
        ("tile", 0),
        "5 is not a multiple of the 32",
        "the nearest legal is 32",
        {"tile": [32, 128, 32]},
    ),
    "K tile below one block": (
        CLASSIC,
        {"tile": [128, 128, 8]},
        ("tile", 2),
        "8 is not a multiple of the 16",
        "the nearest legal is 16",
        {"tile": [128, 128, 16]},
    ),
    "tile beyond any CTA": (
        CLASSIC,
        {"tile": [2**31 - 1, 128, 32]},
        ("tile", 0),
        "2147483647 along M exceeds what any CTA",
        "at most 16384",
        {"tile": [128, 128, 32]},
    ),
    "rows of no whole vectors": (
        SCALAR,
        {"atoms_layout": [32, 6, 1], "tile": [128, 126, 8]},
        ("tile", 1),
        "126 f32 of B are not a whole number of 16-byte vectors",
        "the nearest legal is 120 or 132",
        {"atoms_layout": [32, 6, 1], "tile": [128, 120, 8]},
    ),
    "out that cannot be converted": (
        INTEGER,
        {"epilogue": {"out": "f64"}},
        ("epilogue", "out"),
        "f64 cannot be converted from s32",
        "one of s32, s8, u8, f32, f16, bf16",
        {"epilogue": {"out": "s8"}},
    ),
    "stages of one tile": (
        MICRO,
        {"stages": 3},
        ("stages",),
        "kernel micro is one CTA with one tile and has no stages",
        "omit it",
        {"stages": None},
    ),
    "CTAs of one tile": (
        OWNERSHIP,
        {"ctas_per_sm": 2},
        ("ctas_per_sm",),
        "kernel ownership is one CTA",
        "omit it",
        {"ctas_per_sm": None},
    ),
    "raster of one tile": (MICRO, {"raster": 4}, ("raster",), "has no raster", "omit it", {"raster": None}),
    "stages without cp.async": (
        TURING,
        {"stages": 3},
        ("stages",),
        "3 stages require cp.async",
        "2, or omit it",
        {"stages": 2},
    ),
    "too many stages": (
        CLASSIC,
        {"stages": 11},
        ("stages",),
        "11 need 180,224 B of shared memory, the maximum per CTA is 166,912 B",
        "at most 10",
        {"stages": 10},
    ),
    "too many stages for two CTAs": (
        CLASSIC,
        {"stages": 6, "ctas_per_sm": 2},
        ("stages",),
        "the maximum per CTA is 82,944 B with 2 CTAs per SM",
        "at most 5",
        {"stages": 5, "ctas_per_sm": 2},
    ),
    "tile beyond shared memory": (
        CLASSIC,
        {"tile": [128, 128, 256], "stages": None, "arch": ["sm_86"]},
        ("tile",),
        "two stages of this tile need 262,144 B of shared memory, the maximum per CTA is 101,376 B",
        "make the tile smaller",
        {"tile": [128, 128, 64], "stages": None, "arch": ["sm_86"]},
    ),
    "CTAs beyond shared memory": (
        CLASSIC,
        {"tile": [64, 64, 64], "stages": 2, "ctas_per_sm": 6},
        ("tile",),
        "two stages of this tile need 32,768 B",
        "lower ctas_per_sm",
        {"tile": [64, 64, 64], "stages": 2, "ctas_per_sm": 4},
    ),
    "epilogue beyond shared memory": (
        CLASSIC,
        {"tile": [256, 128, 32], "atoms_layout": [4, 4, 1], "permutation": [256, 32, 16], "arch": ["sm_86"]},
        ("tile",),
        "the epilogue stages 256 rows of D",
        "the tile's N smaller, or the permutation's M",
        {"tile": [256, 128, 32], "atoms_layout": [4, 4, 1], "permutation": [128, 32, 16], "arch": ["sm_86"]},
    ),
    "accumulators beyond registers": (
        CLASSIC,
        {"tile": [256, 128, 32]},
        ("tile",),
        "the accumulators take 256 registers per thread",
        "spread it over more than 4 warps",
        {"tile": [256, 128, 32], "atoms_layout": [4, 2, 1], "permutation": [64, 32, 16]},
    ),
    "CTAs beyond registers": (
        CLASSIC,
        {"ctas_per_sm": 3, "stages": 2},
        ("ctas_per_sm",),
        "of 168 available with 3 x 128 threads",
        "lower ctas_per_sm",
        {"ctas_per_sm": 2, "stages": 2},
    ),
    "CTAs beyond threads": (
        SCALAR,
        {"ctas_per_sm": 5, "tile": [32, 32, 8]},
        ("ctas_per_sm",),
        "5 x 256 threads exceed the 1024 of an SM",
        "at most 4",
        {"ctas_per_sm": 4, "tile": [32, 32, 8]},
    ),
    "micro beyond shared memory": (
        MICRO,
        {"tile": [32, 32, 1536], "atoms_layout": [1, 1, 32]},
        ("tile",),
        "the tile needs 196,608 B of shared memory, the maximum per CTA is 166,912 B",
        "make the tile smaller",
        {"tile": [32, 32, 1024], "atoms_layout": [1, 1, 32]},
    ),
    "micro beyond registers": (
        MICRO,
        {"tile": [128, 128, 32]},
        ("tile",),
        "take 640 registers per thread, the maximum is 255",
        "more warps in atoms_layout",
        {"tile": [128, 128, 32], "atoms_layout": [2, 4, 1]},
    ),
    "ownership of too much": (
        OWNERSHIP,
        {"tile": [1024, 1024, 16]},
        ("tile",),
        "33,554,432 (thread, element) pairs",
        "omit tile",
        {"tile": None},
    ),
    "ownership of too many": (
        OWNERSHIP,
        {"permutation": [1024, 1024, None]},
        ("atoms_layout",),
        "33,554,432 (thread, element) pairs",
        "make atoms_layout or permutation smaller",
        {"permutation": [64, 64, None]},
    ),
    "micro's only problem": (
        MICRO,
        {"problems": [[32, 32, 64]]},
        ("problems", 0),
        "32x32x64 is not the one tile",
        "omit problems, or use [32, 32, 32]",
        {"problems": [[32, 32, 32]]},
    ),
    "half an integer": (
        INTEGER,
        {"problems": [[8, 8, 8], {"shape": [8, 8, 8], "alpha": 0.5}]},
        ("problems", 1),
        "alpha 0.5 and beta 0.0 are not both integers",
        "a floating-point epilogue.out",
        {"problems": [{"shape": [8, 8, 8], "alpha": 0.5}], "epilogue": {"out": "f32"}},
    ),
    "a factor that does not fit": (
        CLASSIC,
        {"problems": [{"shape": [8, 8, 8], "beta": -1e32}]},
        ("problems", 0),
        "beta -1e+32 is too large for f32, since a term of D may exceed it",
        "magnitude is 1e+31",
        {"problems": [{"shape": [8, 8, 8], "beta": -1e31}]},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_explains_itself_and_its_remedy_works(rule):
    legal, change, key, what, remedy, fix = RULES[rule]
    plan(Spec.model_validate(legal))
    found = faults(legal | change)
    assert [fault.key for fault in found] == [key], found
    assert what in found[0].what and remedy in found[0].remedy, found[0]
    plan(Spec.model_validate(legal | fix))


def test_several_faults_are_told_at_once():
    found = faults(CLASSIC | {"arch": ["sm_75"], "permutation": [16, "(8,2):(1,1)", 16], "epilogue": {"out": "s8"}})
    assert [fault.key for fault in found] == [("arch", 0), ("epilogue", "out"), ("permutation", 0), ("permutation", 1)]
    found = faults(CLASSIC | {"tile": [100, 100, 24]})
    assert [fault.key for fault in found] == [("tile", 0), ("tile", 1), ("tile", 2)]
    found = faults(CLASSIC | {"tile": [256, 128, 32], "stages": 11, "problems": [{"shape": [8, 8, 8], "alpha": 1e300}]})
    assert [fault.key for fault in found] == [("problems", 0), ("stages",), ("tile",)]


@pytest.mark.parametrize(
    "change",
    [
        {"tile": [2**31 - 1] * 3},
        {"tile": [2**30, 2**30, 2**30]},
        {"tile": [16384, 16384, 16384]},
        {"atoms_layout": [1024, 1, 1]},
        {"atoms_layout": [2**31 - 1, 1, 1]},
        {"permutation": [2**31 - 1] * 3},
        {"permutation": ["(32768,32768):(1,32768)", "(2,2,2,2,2,2,2,2):(1,2,4,8,16,32,64,128)", None]},
        {"atoms_layout": "(1024,1024,1024):(0,0,0)"},
        {"stages": 2**31 - 1},
        {"ctas_per_sm": 16, "tile": [8192, 8192, 32]},
    ],
    ids=str,
)
@pytest.mark.parametrize("kernel", ["gemm", "micro", "ownership"])
def test_absurd_values_end_quickly_in_faults(kernel, change):
    document = CLASSIC | {"stages": None, "kernel": kernel} | change
    start = time.process_time()
    assert faults(document)
    assert time.process_time() - start < 1
