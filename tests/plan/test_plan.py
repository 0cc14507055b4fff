"""plan: the numbers of the classic tile; every rule is in test_rules.py."""

from __future__ import annotations

from mmagen.families import plan
from mmagen.plan.model import GmemCopy, Mainloop, SmemCopy, Swizzle
from mmagen.spec.model import Spec

CLASSIC = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM80_16x8x16_F32F16F16F32_TN",
    "layout": "TN",
    "tile": [128, 128, 32],
    "atoms_layout": [2, 2, 1],
    "permutation": [32, 32, 16],
    "stages": 3,
    "epilogue": {"out": "f16"},
}
MICRO = {"mmagen": 1, "name": "m", "kernel": "micro", "atom": "SM80_16x8x16_F32F16F16F32_TN", "tile": [32, 32, 32]}
OWNERSHIP = {"mmagen": 1, "name": "o", "kernel": "ownership", "atom": "SM80_16x8x16_F32F16F16F32_TN"}
TURING = CLASSIC | {"atom": "SM75_16x8x8_F32F16F16F32_TN", "permutation": [32, 32, 8], "stages": 2}
VOLTA = MICRO | {"atom": "SM70_8x8x4_F32F16F16F32_NT", "atoms_layout": [2, 2, 1]}
INTEGER = CLASSIC | {"atom": "SM80_16x8x32_S32S8S8S32_TN", "permutation": [32, 32, 32], "tile": [128, 128, 64], "epilogue": {}}
SCALAR = CLASSIC | {
    "atom": "UniversalFMA<float>",
    "layout": "NT",
    "tile": [128, 128, 8],
    "atoms_layout": [16, 16, 1],
    "permutation": [None, None, None],
    "stages": 2,
    "epilogue": {},
}


# --- The classic tile, by hand ---------------------------------------------------------------------------------------


def test_the_classic_tile():
    """128x128x32, 2x2 warps, permutation 32x32x16, f16 in and out, three stages."""
    it = plan(Spec.model_validate(CLASSIC))
    assert (it.tiled_mma.extent, it.tiled_mma.atoms, it.threads) == ((32, 32, 16), (2, 2, 1), 128)
    assert it.operand("A").bytes_per_stage == it.operand("B").bytes_per_stage == 128 * 32 * 2
    assert it.smem_bytes == 3 * (8192 + 8192) == 49152
    assert it.epilogue.smem_bytes == 32 * (128 + 8) * 4 == 17408, "smaller than the stages, whose bytes it takes"
    assert (it.epilogue.slice, it.epilogue.pad, it.epilogue.vector) == (32, 8, 8)
    assert it.accumulator_registers == 128 * 128 // 128
    assert it.fragment_registers == 2 * (128 * 16 // 2 // 64 + 128 * 16 // 2 // 64) == 64
    # A row of 32 f16 is 64 bytes: two rows fill the banks, and 2 bits choose among its four 16-byte chunks.
    assert (it.operand("A").line, it.operand("A").lines, it.operand("A").swizzle) == (32, 8, Swizzle(2, 3, 3))
    assert it.operand("A").copy_wide == GmemCopy(4, 32, 8) and it.operand("A").copy_narrow == GmemCopy(32, 4, 1)
    assert it.operand("A").smem_copy == it.operand("B").smem_copy == SmemCopy(matrices=4)
    assert (it.arch, it.smem_limit, it.mainloop) == (
        ("sm_80",),
        166912,
        Mainloop("MainloopMultistage", "mainloop_multistage", 3),
    )


def test_the_classic_tile_in_other_layouts():
    it = plan(Spec.model_validate(CLASSIC | {"layout": "NT"}))
    assert it.operand("A").smem_copy == it.operand("B").smem_copy == SmemCopy(matrices=4, transposed=True)
    assert (it.operand("A").line, it.operand("A").lines, it.operand("A").swizzle) == (64, 8, Swizzle(3, 3, 3))
    without = plan(Spec.model_validate(CLASSIC | {"permutation": [None, None, None]}))
    assert without.tiled_mma.extent == (32, 16, 16) and without.operand("B").smem_copy == SmemCopy(matrices=2)


def test_stages_follow_from_what_fits():
    assert plan(Spec.model_validate(CLASSIC | {"stages": None})).stages == 4
    assert plan(Spec.model_validate(CLASSIC | {"stages": None, "tile": [128, 128, 64], "arch": ["sm_89"]})).stages == 3
    assert plan(Spec.model_validate(TURING | {"stages": None})).mainloop.header == "mainloop_register_staged"
    assert plan(Spec.model_validate(TURING | {"stages": None, "arch": ["sm_80"]})).mainloop.header == "mainloop_multistage"


def test_the_sha_is_of_the_meaning():
    one = plan(Spec.model_validate(CLASSIC)).spec_sha
    assert one == plan(Spec.model_validate(dict(reversed(CLASSIC.items())) | {"atoms_layout": "(2,2,1)"})).spec_sha
    assert one != plan(Spec.model_validate(CLASSIC | {"stages": 4})).spec_sha
