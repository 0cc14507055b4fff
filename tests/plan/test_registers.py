"""Estimated registers are within 10 % of those of ptxas, of kernels of each kind; docs/results/h200-predictions.md has more."""

from __future__ import annotations

import pytest

from mmagen.families import family_of
from mmagen.families import plan as planned
from mmagen.plan.devices import DEVICES
from mmagen.spec.load import load
from tests.support.mutations import SPECS

# Of the kernel that takes most, by ptxas of CUDA 13.0.88 for the first architecture of the spec. None of them spills.
BY_PTXAS = {
    "fma_gemm_f32": 162,
    "sm61_gemm_s8": 122,
    "sm70_gemm_f16": 128,
    "sm75_gemm_f16": 168,
    "sm75_gemm_s8": 214,
    "sm80_gemm_f16_col_d": 208,
    "sm80_gemm_f16_epilogue": 118,
    "sm80_gemm_s8_nt_out8": 221,
    "sm80_gemm_sliced_k": 164,
    "sm80_gemm_tf32_nt": 240,
    "sm89_gemm_e4m3": 160,
    "sm89_gemm_e4m3_amax": 128,
    "sm89_gemm_e5m2_tt": 221,
    "sm90_gemm_warpgroup": 112,
    "sm90_gemm_warpgroup4": 87,
}


@pytest.mark.parametrize("name", BY_PTXAS)
def test_estimated_registers_are_near_those_of_ptxas(name):
    plan = planned(load((SPECS / f"{name}.yaml").read_bytes(), name).spec)
    (numbers,) = family_of(plan).numbers(plan, DEVICES[-1], {})
    assert not numbers.measured
    assert numbers.occupancy.registers == pytest.approx(BY_PTXAS[name], rel=0.1)
