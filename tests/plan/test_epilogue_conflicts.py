"""Bank conflicts of epilogues: those that ncu counted on an H200, and those that the emulator counts, exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mmagen.families import plan
from mmagen.families.wgmma import epilogue_conflicts as of_wgmma
from mmagen.inspect.page import inspect
from mmagen.plan import bank_conflicts
from mmagen.plan.epilogue_conflicts import Staging, staging
from mmagen.spec.load import load
from mmagen.spec.model import Spec
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.task import Task
from mmagen.verify.emulated.verify import parse_problem

ROOT = Path(__file__).resolve().parents[2]
_RECORDED = json.loads((ROOT / "tests/emulate/recorded/h200_ncu.json").read_text("utf-8"))["kernels"]
_SWIZZLED = [one for one in _RECORDED if not one["spec"].endswith("unswizzled")]
_REPEATED = {"sm80_gemm_tf32_nt": 2}  # passes that the hardware repeated (docs/results/h200-bank-conflicts.md)
_LEFT_APART = {
    "sm80_gemm_sliced_k": 4
}  # pairs of partial sums that the compiler loads and stores as two words, 2 passes more each


def planned(name: str):
    path = ROOT / f"specs/{name}.yaml"
    return plan(load(path.read_bytes(), path.name).spec)


@pytest.mark.parametrize("kernel", _SWIZZLED, ids=lambda one: one["spec"])
def test_a_tile_takes_the_passes_that_ncu_counted(kernel):
    it = planned(kernel["spec"])
    epilogue = staging(it)
    k_tiles = -(-int(kernel["problem"].split(",")[2]) // it.tile[2])
    loads = k_tiles * it.tile[2] // it.tiled_mma.extent[2] * it.threads // 32
    fragments = [bank_conflicts.load(it, operand) for operand in it.operands]
    apart = 2 * _LEFT_APART.get(kernel["spec"], 0)
    assert kernel["store_wavefronts"] == epilogue.stores.taken + apart
    assert kernel["store_conflicts"] == epilogue.stores.taken - epilogue.stores.ideal + apart
    more = _REPEATED.get(kernel["spec"], 0) + apart
    assert kernel["load_wavefronts"] == epilogue.loads.taken + loads * sum(one.taken for one in fragments) + more
    assert kernel["load_conflicts"] == epilogue.loads.taken - epilogue.loads.ideal + more
    if not apart:
        assert epilogue.conflicts == kernel["load_conflicts"] + kernel["store_conflicts"] - more


def test_the_classic_epilogue_in_numbers():
    """Eight sums of 4 bytes a thread: every other 16-byte vector, so that threads 0 and 4 of a quarter warp share banks."""
    assert staging(planned("sm80_gemm_classic")) == Staging(
        stores=bank_conflicts.Passes(512, 512), loads=bank_conflicts.Passes(1024, 512)
    )
    text = inspect(planned("sm80_gemm_classic"))
    assert "from shared memory  1024 wavefronts per CTA tile, 2-way bank conflicts: 512 more than without" in text


def _traffic(it, ptx, problem: str, header: str) -> list:
    task = Task(it, ptx, parse_problem(problem), "small_int", 1)
    _, (report,) = multiply(task, operands(it, task.problem, task.distribution, task.seed))
    return [one for one in report.traffic if one.space == "shared" and one.file.endswith(header)]


@pytest.mark.nvcc
def test_the_emulator_counts_the_same_loads(compiled):
    it = planned("sm80_gemm_classic")
    found = [
        one
        for header in ("epilogue_staged.cuh", "algorithm/copy.hpp", "arch/copy.hpp")
        for one in _traffic(it, compiled("sm80_gemm_classic").ptx, "128,128,128", header)
        if one.instruction.split()[0].startswith("ld.shared")
    ]
    assert sum(one.units for one in found) == staging(it).loads.taken
    assert sum(one.units - one.ideal for one in found) == 512


@pytest.mark.nvcc
@pytest.mark.more
def test_the_emulator_counts_the_same_stores_of_wgmma_kernels(compiled):
    """Two CTAs of the config for small problems."""
    it = planned("sm90_gemm_f16_f32")
    found = _traffic(it, compiled("sm90_gemm_f16_f32").ptx, "128,256,64", "sm90_epilogue_tma.cuh")
    expected = of_wgmma.staging(it.kernels[0])
    assert (sum(one.units for one in found), sum(one.ideal for one in found)) == (2 * expected.taken, 2 * expected.ideal)
    assert expected.taken == 2 * expected.ideal


@pytest.mark.parametrize(
    ("out", "major", "ways"), [("bf16", "N", 1), ("bf16", "M", 1), ("f32", "N", 2), ("f32", "M", 1), ("e4m3", "N", 1)]
)
def test_slices_of_wgmma_kernels(out, major, ways):
    document = planned("sm90_gemm_bf16_tn").spec.model_dump(mode="json", by_alias=True)
    it = plan(Spec.model_validate(document | {"epilogue": {"out": out, "major": major}}))
    assert of_wgmma.staging(it).ways == ways
