"""Where the matrices of an emulated call lie."""

from __future__ import annotations

import pytest

from mmagen.families import plan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated.matrices import operands

SPEC = """\
mmagen: 1
name: it
kernel: gemm
atom: SM80_16x8x16_F32F16F16F32_TN
tile: [64, 64, 32]
atoms_layout: [2, 2, 1]
epilogue: [beta_c, {bias: row}, {add: second}, {multiply: third, type: u8}, {cast: f16}]
"""


@pytest.mark.parametrize(("stride_of_c", "remainders"), [(None, {0}), (64 * 80 + 16, {0}), (64 * 80 + 17, {1})])
def test_second_matrices_of_a_batch_begin_anywhere_if_those_of_c_do(stride_of_c, remainders):
    problem = Problem(shape=(64, 64, 32), batch=2, beta=1.0, batch_stride_c=stride_of_c)
    data = operands(plan(load(SPEC, "it.yaml").spec), problem, "zeros", 1)
    second, third = (data.further[name] for name in ("second", "third"))
    assert {one.batch_stride % 2 for one in (second, third)} == remainders
    assert all(one.batch_stride >= 64 * one.ld for one in (second, third)), "they do not overlap"
    assert data.further["bias"].batch_stride % 2 == data.d.batch_stride % 2 == 0
