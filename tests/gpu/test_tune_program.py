"""The program of `mmagen tune`, where a sparse A is compressed and weights are packed before they are multiplied."""

from __future__ import annotations

import pytest

from mmagen.build.build import build
from mmagen.families.reading import read
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.plan.plans import GemmPlan
from mmagen.toolchain.find import find_toolchain
from mmagen.tuning.measure import BASELINES, Settings, run
from tests.support.mutations import SPECS

pytestmark = [pytest.mark.nvcc, pytest.mark.gpu]
PROBLEMS = ("64,512,1024", "1,208,272", "300,512,640")


@pytest.mark.parametrize("name", ["sm90_gemm_sparse_bf16", "sm90_gemm_s4_bf16", "sm90_gemm_e4m3_blocks"])
def test_each_kernel_is_right_and_has_a_baseline(name, tmp_path):
    plan, _ = read((SPECS / f"{name}.yaml").read_bytes(), name)
    assert isinstance(plan, GemmPlan)
    write(render(plan), tmp_path / name)
    [built] = build([tmp_path / name], find_toolchain(), programs=("tune",))
    assert built.ok, built.reason
    kernels = [config.name for config in plan.configs]
    found = run(built.programs["tune"], kernels, PROBLEMS, Settings(sample_ms=0.2, samples=2))
    assert not found.lost and not found.skipped and not found.message
    of = {(record["name"], record["problem"]): record for record in found.records}
    for problem in PROBLEMS:
        for kernel in kernels:
            record = of[kernel, problem]
            assert record["disposition"] == "passed" and record["ms_median"] > 0, record["reason"]
    for problem in (PROBLEMS[0], PROBLEMS[2]):
        assert all((baseline, problem) in of for baseline in BASELINES), of[kernels[0], problem]["reason"]
