"""Which wrong calls the C interface of a kernel is asked about, by its plan alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import yaml

from mmagen.families import plan
from mmagen.spec.load import load
from mmagen.verify.emulated.interface_calls import Calls
from mmagen.verify.emulated.statuses import Status

SPEC = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM80_16x8x32_S32S8S8S32_TN",
    "tile": [64, 64, 64],
    "atoms_layout": [2, 2, 1],
}
ALPHA = {Status.MISALIGNED_ALPHA, Status.ALPHA_NOT_INTEGER}
BETA = {Status.NULL_C, Status.SHORT_LDC, Status.MISALIGNED_C, Status.MISALIGNED_BETA, Status.BETA_NOT_INTEGER}
BETA |= {Status.NEGATIVE_STRIDE_C}


@pytest.mark.parametrize(
    ("operations", "asked"),
    [
        (None, ALPHA | BETA),
        (["alpha", "relu", "beta_c"], ALPHA | BETA),
        (["alpha", "relu"], ALPHA | {Status.UNUSED_BETA}),
        (["relu", "beta_c"], BETA | {Status.UNUSED_ALPHA}),
        (["relu"], {Status.UNUSED_ALPHA, Status.UNUSED_BETA}),
    ],
)
def test_each_scalar_of_an_epilogue_is_asked_about_by_itself(operations, asked):
    of = plan(load(yaml.safe_dump(SPEC | ({"epilogue": operations} if operations else {})), "g.yaml").spec)
    calls = Calls(SimpleNamespace(product=of, plan=of, library=None))
    assert {one.status for one in calls._scalars()} - {Status.SUCCESS} == asked
