"""Every family finds all that is wrong with a spec in one run: shape beside keys, types, architectures and problems."""

from __future__ import annotations

from typing import Any

import pytest

from mmagen.core.errors import Key, SpecFaults
from mmagen.families import plan
from mmagen.spec.model import Spec

HEAD = {"mmagen": 1, "name": "g"}
MMA = HEAD | {"atom": "SM80_16x8x16_F32F16F16F32_TN"}
WGMMA = HEAD | {"atom": "SM90_64x64x16_F32BF16BF16_SS"}
GEMM: dict[str, Any] = {"kernel": "gemm", "tile": [128, 128, 32], "atoms_layout": [2, 2, 1]}
WGMMA_GEMM: dict[str, Any] = {"kernel": "gemm", "tile": [128, 64, 64], "atoms_layout": [2, 1, 1]}
TOO_LARGE = {"problems": [[8, 8, 8], {"shape": [8, 8, 8], "alpha": 1e300}]}
NOT_ITS_TILE = {"problems": [[1, 2, 3]]}
S8 = {"epilogue": {"out": "s8"}}

# what is wrong: (spec, the keys of all its faults)
CASES: dict[str, tuple[dict[str, Any], set[Key]]] = {
    "mma.sync gemm, tile": (
        MMA | GEMM | S8 | {"arch": ["sm_75"], "cluster": [1, 1], "tile": [100, 128, 24]},
        {("epilogue", "out"), ("arch", 0), ("cluster",), ("tile", 0), ("tile", 2)},
    ),
    "mma.sync gemm, layout": (
        MMA | GEMM | TOO_LARGE | {"arch": ["sm_999"], "split_k": 2, "permutation": [16, None, None]},
        {("problems", 1), ("arch", 0), ("split_k",), ("permutation", 0)},
    ),
    "mma.sync gemm, budgets": (
        MMA | GEMM | TOO_LARGE | {"prefetch": 1, "tile": [256, 256, 32], "stages": 11},
        {("problems", 1), ("prefetch",), ("tile",), ("stages",)},
    ),
    "wgmma gemm, tile": (
        WGMMA | WGMMA_GEMM | S8 | {"arch": ["sm_90"], "cluster": [3, 1], "tile": [100, 72, 64]},
        {("epilogue", "out"), ("arch", 0), ("cluster",), ("tile", 0), ("tile", 1)},
    ),
    "wgmma gemm, layout": (
        WGMMA | WGMMA_GEMM | TOO_LARGE | {"warpgroups": 2, "permutation": [64, None, None], "atoms_layout": [2, 1, 2]},
        {("problems", 1), ("warpgroups",), ("permutation", 0), ("atoms_layout",)},
    ),
    "mma.sync micro, tile": (
        MMA | S8 | NOT_ITS_TILE | {"kernel": "micro", "arch": ["sm_75"], "stages": 2, "cluster": [1, 1], "tile": [17, 8, 16]},
        {("epilogue", "out"), ("problems", 0), ("arch", 0), ("stages",), ("cluster",), ("tile", 0)},
    ),
    "mma.sync micro, layout": (
        MMA | S8 | {"kernel": "micro", "raster": 2, "atoms_layout": "(2,2,1):(1,4,8)"},
        {("epilogue", "out"), ("raster",), ("atoms_layout",)},
    ),
    "wgmma micro, tile": (
        WGMMA | S8 | NOT_ITS_TILE | {"kernel": "micro", "arch": ["sm_90"], "stages": 2, "split_k": 1, "tile": [64, 72, 16]},
        {("epilogue", "out"), ("problems", 0), ("arch", 0), ("stages",), ("split_k",), ("tile", 1)},
    ),
    "wgmma micro, layout": (
        WGMMA | S8 | {"kernel": "micro", "raster": 2, "permutation": [64, None, None]},
        {("epilogue", "out"), ("raster",), ("permutation", 0)},
    ),
    "ownership, tile": (
        MMA
        | S8
        | NOT_ITS_TILE
        | {"kernel": "ownership", "arch": ["sm_75"], "stages": 2, "cluster": [1, 1], "tile": [17, 8, 16]},
        {("epilogue", "out"), ("problems", 0), ("arch", 0), ("stages",), ("cluster",), ("tile", 0)},
    ),
    "ownership, layout": (
        MMA | {"kernel": "ownership", "arch": ["sm_75"], "raster": 2, "permutation": [17, None, None]},
        {("arch", 0), ("raster",), ("permutation", 0)},
    ),
    "library": (
        MMA
        | GEMM
        | S8
        | {
            "cluster": [1, 1],
            "configs": [
                {"name": "g", "when": {"m": [1, 64]}, "tile": [100, 128, 32]},
                {"name": "large", "permutation": [16, None, None]},
                {"name": "never"},
            ],
        },
        {
            ("epilogue", "out"),
            ("cluster",),
            ("configs", 0, "name"),
            ("configs", 0, "tile", 0),
            ("configs", 1, "permutation", 0),
            ("configs", 2),
        },
    ),
    "an operation that the kernel is not built from": (
        HEAD | GEMM | {"atom": "SM80_16x8x256_S32U1U1S32_TN_XORPOPC", "arch": ["sm_999"], "tile": [128, 128, 99999]},
        {("kernel",), ("arch", 0), ("tile", 2)},
    ),
    "no operation": (
        HEAD | GEMM | {"atom": "SM80_nothing", "arch": ["sm_999"], "atoms_layout": "(2,2,1):(1,4,8)"},
        {("atom",), ("arch", 0), ("atoms_layout",)},
    ),
    "one instruction": (
        HEAD | {"kernel": "micro", "atom": "SM80_16x8x64_S32S4S4S32_TN", "arch": ["sm_75"], "stages": 2, "tile": [16, 8, 64]},
        {("arch", 0), ("stages",), ("tile",)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_all_faults_are_found_in_one_run(case):
    spec, keys = CASES[case]
    with pytest.raises(SpecFaults) as caught:
        plan(Spec.model_validate(spec))
    assert {fault.key for fault in caught.value.faults} == keys
    assert len(caught.value.faults) == len(keys), "each once"
    assert all(fault.what and fault.remedy for fault in caught.value.faults)


TILE = {"tile": [64, 64, 32]}
BLOCK = {"atoms_layout": [16, 16, 1]}


@pytest.mark.parametrize(
    ("kernel", "atom", "others"),
    [
        ("gemm", "SM80_16x8x256_S32U1U1S32_TN_XORPOPC", {"micro": {}, "peak": {}}),
        ("ownership", "SM80_16x8x64_S32S4S4S32_TN", {"micro": {}, "gemm": {"tile": [64, 64, 128]}, "peak": {}}),
        ("peak", "UniversalFMA<float>", {"ownership": BLOCK, "micro": BLOCK, "gemm": TILE | BLOCK}),
        ("gemm", "SM100_2x1x1_F32F32F32F32", {"micro": {}, "peak": {}}),
        ("gemm", "SM100_MMA_F8F6F4_2x1SM_SS", {}),  # works on tensor memory, which no kernel fills
    ],
)
def test_a_kernel_that_is_not_built_from_the_atom_names_those_that_are(kernel, atom, others):
    with pytest.raises(SpecFaults) as caught:
        plan(Spec.model_validate(HEAD | {"kernel": kernel, "atom": atom} | (TILE if kernel == "gemm" else {})))
    (fault,) = caught.value.faults
    assert (fault.key, fault.what) == (("kernel",), f"no kernel {kernel} is built from {atom}")
    assert fault.remedy == (f"use kernel {' or '.join(others)}, or another atom" if others else "use another atom")
    for other, more in others.items():
        plan(Spec.model_validate(HEAD | {"kernel": other, "atom": atom} | more))
