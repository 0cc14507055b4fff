"""GEMMs whose TiledMMA is odd but legal, as nvcc compiles them: right, and without findings."""

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

F16 = "SM80_16x8x16_F32F16F16F32_TN"
# The keys of each spec: what is odd about it.
ODD = {
    "two_mma_in_a_k_block": f"atom: {F16}, layout: TN, tile: [16, 16, 64], permutation: [null, null, 32]",
    "two_mma_of_two_atoms_in_a_k_block": "atom: SM89_16x8x32_F16E5M2E5M2F16_TN, layout: TT, tile: [16, 32, 256], "
    "atoms_layout: [1, 2, 2], permutation: [null, null, 128]",
    "two_mma_in_a_k_block_through_registers": "atom: SM75_16x8x8_F32F16F16F32_TN, layout: TN, arch: [sm_75], "
    "tile: [16, 16, 32], permutation: [null, null, 16]",
    "neighbours_apart_along_m": "atom: UniversalFMA<float>, layout: NT, tile: [128, 32, 8], atoms_layout: [8, 16, 1], "
    'permutation: ["(2,2,2,2,4):(1,2,32,16,4)", null, 4]',
    "three_by_four_atoms": f"atom: {F16}, layout: TN, tile: [48, 32, 32], atoms_layout: [3, 4, 1]",
    "every_third_row": f"atom: {F16}, layout: TN, tile: [48, 16, 32], permutation: ['(16,3):(3,1)', null, null]",
    "three_atoms_along_k": f"atom: {F16}, layout: TN, tile: [16, 16, 96], atoms_layout: [1, 2, 3]",
    "three_atoms_along_contiguous_n": f"atom: {F16}, layout: NT, tile: [16, 48, 32], atoms_layout: [1, 3, 2]",
    "three_repeats_along_n_of_two_along_k": f"atom: {F16}, layout: TN, tile: [16, 48, 64], permutation: [null, 24, 32]",
    "one_k_block": f"atom: {F16}, layout: TN, tile: [16, 16, 16]",
    "one_k_block_in_three_stages": f"atom: {F16}, layout: NT, tile: [32, 32, 16], atoms_layout: [2, 2, 1], stages: 3",
    "one_k_block_of_two_mma": f"atom: {F16}, layout: TN, tile: [16, 16, 32], permutation: [null, null, 32]",
    "one_k_block_through_registers": "atom: SM75_16x8x8_F32F16F16F32_TN, layout: TN, arch: [sm_75], tile: [16, 16, 8]",
    "one_k_block_of_one": "atom: UniversalFMA<float>, layout: NT, tile: [32, 16, 1], atoms_layout: [8, 8, 1]",
    "one_k_block_of_f64": "atom: SM90_16x8x4_F64F64F64F64_TN, layout: TN, tile: [16, 16, 4]",
    "three_by_32_threads": "atom: UniversalFMA<float>, layout: TN, tile: [6, 128, 16], atoms_layout: [3, 32, 1], "
    "permutation: [3, 64, 4]",
    "three_by_two_atoms_in_another_order": "atom: SM80_8x8x16_S32U8U8S32_TN, layout: NT, tile: [96, 16, 32], "
    "atoms_layout: '((3,2),1,1):((2,1),6,6)'",
    "warpgroups_along_n_first": "atom: SM90_64x16x16_F32BF16BF16_SS, layout: TN, tile: [128, 32, 64], "
    "atoms_layout: '(2,2,1):(2,1,4)', schedule: warpgroup, epilogue: {out: f16}",
    "warpgroups_along_n_first_and_a_in_registers": "atom: SM90_64x16x16_F32BF16BF16_RS, layout: TN, tile: [128, 32, 64], "
    "atoms_layout: '(2,2,1):(2,1,4)', schedule: warpgroup, epilogue: {out: f16, major: M}",
    "parts_of_k_of_two_atoms_along_m_and_n": "atom: SM90_64x16x16_F32BF16BF16_SS, layout: TN, tile: [128, 32, 32], "
    "schedule: cooperative, split_k: 2",
}


@pytest.mark.nvcc
@pytest.mark.more
@pytest.mark.parametrize("name", ODD)
def test_it_is_right(name, tmp_path):
    made = plan(load(f"{{mmagen: 1, name: odd, kernel: gemm, {ODD[name]}}}", "odd.yaml").spec)
    write(render(made), tmp_path / "odd")
    ptx = compile_ptx(tmp_path / "odd", find_toolchain(want=COMPILE))
    assert not ptx.error, ptx.error
    m, n, k = made.tile
    for shape in ((m + 5, n + 5, 2 * k + 3), (m, n, 3 * k)):
        (record,) = run_task(Task(made, ptx, Problem(shape=shape), "small_int", 1)).records
        assert (record["disposition"], record["reason"], record["max_abs_err"]) == ("passed", None, 0)
        assert record["details"]["findings"] == []
