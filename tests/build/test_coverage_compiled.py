"""How much of their kernels the chosen problems of specs of every family reach: not less than when these figures were taken."""

from __future__ import annotations

import pytest

from mmagen.report.coverage import kernel_name, missed_by_all
from mmagen.spec.registered import REGISTERED
from tests.support.selection import representatives

pytestmark = pytest.mark.nvcc

# spec -> kernel -> per cent of the outcomes of branches and loops; docs/architecture.md says what the rest is.
SHARES = {
    "hello_micro": {"micro_kernel": 50},
    "sm75_gemm_f16": {"gemm_kernel<true>": 73, "gemm_kernel<false>": 54},
    "sm80_gemm_classic": {"gemm_kernel<true>": 59, "gemm_kernel<false>": 36},
    "sm80_gemm_sparse_s8": {"gemm_kernel<true>": 60, "gemm_kernel<false>": 35},
    "sm80_gemm_s4": {"gemm_kernel<true>": 52, "gemm_kernel<false>": 45},
    "sm80_gemm_sliced_k": {"gemm_kernel<true>": 63, "gemm_kernel<false>": 40},
    "sm80_micro_s4": {"instruction_kernel": 100},
    "sm90_gemm_f64": {"gemm_kernel<true>": 50, "gemm_kernel<false>": 35},
    "sm90_micro_bf16": {"micro_kernel": 50},
    "sm90_gemm_bf16_pingpong": {"copy_operands_kernel": 48, "sm90_kernel": 94, "sm90_unaligned_kernel": 95},
    "sparse_bf16": {"sm90_kernel": 81},
    "sm90_gemm_splitk": {"copy_operands_kernel": 58, "sm90_kernel": 95, "sm90_unaligned_kernel": 95},
    "c2_stream": {"copy_operands_kernel": 48, "sm90_kernel": 91, "sm90_unaligned_kernel": 93},
}
# What tests/build/test_emulated.py and test_emulated_hopper.py emulate in every run too, from which the shares are taken.
_IN_EVERY_RUN = (
    "hello_micro",
    "sm75_gemm_f16",
    "sm80_gemm_classic",
    "sm80_gemm_sliced_k",
    "sm80_micro_s4",
    "sm90_micro_bf16",
    "sm90_gemm_bf16_pingpong",
    "sm90_gemm_splitk",
    "c2_stream",
)


def test_every_family_that_multiplies_has_a_floor():
    from mmagen.families import plan
    from mmagen.spec.load import load
    from tests.support.mutations import ODD, SPECS

    paths = [next(folder / f"{spec}.yaml" for folder in (SPECS, ODD) if (folder / f"{spec}.yaml").exists()) for spec in SHARES]
    found = {plan(load(path.read_bytes(), path.name).spec).family for path in paths}
    others = {"mmagen.families.ownership", "mmagen.families.wgmma.ownership", "mmagen.families.peak.family"}
    assert {module for _, module in REGISTERED} - found == others


@pytest.mark.parametrize("spec", representatives(SHARES, _IN_EVERY_RUN))
def test_the_chosen_problems_reach_as_much_as_ever(spec, emulated):
    found: dict[str, list] = {}
    for record in emulated(spec).records:
        if record["input_dist"] == "small_int":
            for coverage in record["details"]["coverage"]:
                found.setdefault(kernel_name(coverage["entry"]), []).append(coverage)
    assert found.keys() == SHARES[spec].keys()
    for kernel, of_kernel in found.items():
        goals = of_kernel[0]["goals"]
        assert 100 * (goals - len(missed_by_all(of_kernel))) >= SHARES[spec][kernel] * goals, kernel
