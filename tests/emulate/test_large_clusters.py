"""Clusters of 8 and 16 CTAs in every scheduler, as nvcc compiles them: right, and without findings."""

from __future__ import annotations

import pytest

from mmagen.build.ptx import compile_ptx
from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.session import run_task
from mmagen.verify.emulated.task import Task

BF16 = "layout: TN, stages: 3, atom: SM90_64x"
CLUSTERS = {
    "pingpong_4_by_4": f"{BF16}32x16_F32BF16BF16_SS, tile: [64, 32, 16], cluster: [4, 4], schedule: pingpong",
    "pingpong_16_by_1": f"{BF16}128x16_F32BF16BF16_SS, tile: [64, 128, 16], cluster: [16, 1], schedule: pingpong",
    "pingpong_8_by_1": f"{BF16}64x16_F32BF16BF16_SS, tile: [64, 64, 16], cluster: [8, 1], schedule: pingpong",
    "stream_k_2_by_4": f"{BF16}16x16_F32BF16BF16_SS, tile: [128, 16, 16], atoms_layout: [2, 1, 1], cluster: [2, 4], "
    "schedule: cooperative, stream_k: last_wave",
    "stream_k_2_by_8": f"{BF16}16x16_F32BF16BF16_SS, tile: [128, 16, 16], atoms_layout: [2, 1, 1], cluster: [2, 8], "
    "schedule: cooperative, stream_k: last_wave",
    "split_k_2_by_2_by_4": f"{BF16}32x16_F32BF16BF16_SS, tile: [128, 32, 32], atoms_layout: [2, 1, 1], cluster: [2, 2], "
    "schedule: cooperative, split_k: 4",
}


@pytest.mark.nvcc
@pytest.mark.more
@pytest.mark.parametrize("name", CLUSTERS)
def test_it_is_right(name, tmp_path):
    made = plan(load(f"{{mmagen: 1, name: wide, kernel: gemm, {CLUSTERS[name]}}}", "wide.yaml").spec)
    write(render(made), tmp_path / "wide")
    ptx = compile_ptx(tmp_path / "wide", find_toolchain(want=COMPILE))
    assert not ptx.error, ptx.error
    (m, n, k), (rows, columns) = made.tile, made.scheduler.cluster
    for shape in ((m + 5, n + 8, 2 * k + 3), (m * rows, n * columns * 2, 8 * k)):
        (record,) = run_task(Task(made, ptx, Problem(shape=shape), "small_int", 1)).records
        assert (record["disposition"], record["reason"], record["max_abs_err"]) == ("passed", None, 0)
        assert record["details"]["findings"] == []
