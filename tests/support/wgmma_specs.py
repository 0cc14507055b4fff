"""Specs of wgmma kernels that tests change in one place, and what becomes of them."""

from __future__ import annotations

import pytest

from mmagen.core.errors import Fault, SpecFaults
from mmagen.families import plan
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.spec.model import Spec

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
