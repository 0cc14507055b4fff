"""Launches whose calls decide how many columns of a tile they compute: the compiled host code takes the width that the predicted
time and `mmagen inspect` expect, seen in its grids."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path

import pytest

from mmagen.cli.build import load_specs
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.plan.cost import Call, KernelShape
from mmagen.spec.model import Problem
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated import host
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.task import Task

pytestmark = pytest.mark.nvcc

SPEC = Path(__file__).resolve().parents[2] / "specs" / "sm90_gemm_bf16_widths.yaml"

# Of `tile_n` and `stages` in the parameters of a kernel (Sm90TmaLoad::Params): behind five tensor maps of 128 bytes and ten words.
_WIDTH_AND_STAGES = 5 * 128 + 10 * 4


def test_the_grid_is_that_of_the_width_that_is_expected(compiled):
    """The number of stages is compared too. As many clusters run at once as there are whole tiles, or some more: all are
    computed in one wave, and the grid has a cluster for each. Where parts of K could go through a workspace, it is one
    k tile, of which none do."""
    it = compiled("tile_n")
    assert isinstance(it.plan, WgmmaGemmPlan)
    dice = random.Random(5)
    widths: set[tuple[str, int]] = set()
    found: set[bool] = set()
    configs = [config for config in it.plan.configs if config.plan.scheduler.widths]
    for config in configs:
        kernel = KernelShape.of(config.plan)
        for _ in range(12):
            k = 64 if config.plan.scheduler.takes_workspace else dice.choice([64, 520, 640, 704, 1024])
            problem = Problem(shape=(8 * dice.randint(1, 60), 8 * dice.randint(1, 60), k), batch=dice.choice([1, 1, 3]))
            clusters = config.plan.tiles_of(problem) + dice.choice([0, 1, 5, 30])
            task = Task(config.plan, it.ptx, problem, "zeros", 1, it.plan, config.name, workspace=False)
            data = operands(config.plan, problem, "zeros", 1)
            arguments = host.multiply_arguments(task, data, dict.fromkeys("abcd", 1 << 20), Workspace())
            launched = host.launches_of(task, task.run_symbol, [arguments], clusters)[-1]
            x, y, z = launched.cluster
            tile = kernel.of_call(clusters * kernel.group, Call.of(config.plan, problem)).tile
            tiles = [-(-problem.shape[i] // (tile[i] * kernel.cluster[i])) for i in range(2)]
            expected = tiles[0] * tiles[1] * problem.batch
            assert launched.grid[0] * launched.grid[1] * launched.grid[2] == expected * x * y * z, (config.name, problem, tile)
            width, stages = struct.unpack_from("ii", launched.params, _WIDTH_AND_STAGES)
            assert width == tile[kernel.along], (config.name, problem)
            assert stages == config.plan.stages_and_buffers(width, k)[0], (config.name, problem, stages)
            widths.add((config.name, width))
            found.add(stages == config.plan.stages_of(width))
    assert len(widths) > 2 * len(configs), "each launch has computed several widths"
    assert found == {True, False}, "calls with few k tiles have fewer stages and more buffers"


@pytest.mark.parametrize("name", ["sm90_gemm_bf16_widths", "sm90_gemm_bf16_pingpong"])
def test_the_peak_program_compiles_for_kernels_of_one_width_and_of_several(name, tmp_path):
    """tests/peak.cu of a project multiplies a stage of whole tiles over and over."""
    (spec,) = load_specs([SPEC.with_stem(name)]).planned
    assert isinstance(spec.plan, WgmmaGemmPlan)
    assert spec.plan.kernels[-1].scheduler.several_widths == (name == SPEC.stem)
    write(render(spec.plan), tmp_path / "it")
    tools = find_toolchain(want=COMPILE)
    command = [
        tools.nvcc.path,
        "-std=c++17",
        "--expt-relaxed-constexpr",
        "-DNDEBUG",
        "-arch=sm_90a",
        "-ptx",
        "-o",
        tmp_path / "it.ptx",
    ]
    folders = ["-I", tmp_path / "it" / "include", "-I", tmp_path / "it" / "tests", "-isystem", tools.cutlass.path]
    done = subprocess.run([*command, *folders, tmp_path / "it" / "tests" / "peak.cu"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "wgmma.mma_async" in (tmp_path / "it.ptx").read_text()
