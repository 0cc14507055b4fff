"""Which wrong calls the C interface of a kernel is asked about, by its plan alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import yaml

from mmagen.families import plan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated.interface_calls import Calls
from mmagen.verify.emulated.statuses import Status
from mmagen.verify.emulated.task import Task
from tests.support.mutations import ODD

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


@pytest.mark.parametrize(
    ("spec", "members"),
    [
        ("sparse_bf16", {"lda", "ldb", "batch_stride_a", "batch_stride_b"}),
        ("groups", {"lda", "ldb", "batch_stride_b"}),
        ("pointers_pingpong", {"lda", "ldb"}),
        ("c2_stream", set()),
    ],
)
def test_where_tma_alone_loads_strides_that_it_cannot_have_are_asked_about(spec, members):
    """And the sentence must name the one that is too long. Others are copied, or loaded by threads."""
    of = plan(load((ODD / f"{spec}.yaml").read_bytes(), spec).spec)
    problem = Problem.model_validate({"shape": (256, 192, 128)} | ({"groups": [256]} if of.spec.grouped else {}))
    calls = Calls(Task(of, None, problem, "zeros", 1))
    cases = calls._far_apart({"batch": 2, "batch_stride_d": 1 << 30})
    refused = [one for one in cases if one.status in (Status.FAR_APART_A, Status.FAR_APART_B)]
    assert {one.says.partition(" is ")[0] for one in refused} == members == {[*one.changes][-1] for one in refused}
    longest = {[*one.changes][-1]: [*one.changes.values()][-1] for one in cases if one.status == Status.SUCCESS}
    assert longest == {[*one.changes][-1]: [*one.changes.values()][-1] - 8 for one in refused}, "16 bytes less"
