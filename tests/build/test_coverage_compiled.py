"""How much of their kernels the chosen problems of some specs reach: not less than when these figures were taken."""

from __future__ import annotations

import pytest

from mmagen.report.coverage import kernel_name, missed_by_all
from mmagen.verify.emulated.session import run_task, tasks

pytestmark = pytest.mark.nvcc

# spec -> kernel -> per cent of the outcomes of branches and loops. The rest: divisors of 1 in rasters, k of 0, bands of rows
# in large tiles, and copies of loops that the compiler made for slices and sources.
SHARES = {
    "sm90_gemm_bf16_pingpong": {"sm90_kernel": 94, "sm90_unaligned_kernel": 60},
    "sm80_gemm_classic": {"gemm_kernel<true>": 46, "gemm_kernel<false>": 28},
}


@pytest.mark.parametrize("spec", SHARES)
def test_the_chosen_problems_reach_as_much_as_ever(spec, compiled):
    made = compiled(spec)
    found: dict[str, list] = {}
    for task in tasks(made.plan, made.ptx, (), 1, None):
        if task.distribution == "small_int":
            (coverage,) = run_task(task).records[0]["details"]["coverage"]
            found.setdefault(kernel_name(coverage["entry"]), []).append(coverage)
    assert found.keys() == SHARES[spec].keys()
    for kernel, of_kernel in found.items():
        goals = of_kernel[0]["goals"]
        assert 100 * (goals - len(missed_by_all(of_kernel))) / goals >= SHARES[spec][kernel], kernel
