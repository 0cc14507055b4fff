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
from tests.support.mutations import ODD, SPECS

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


@pytest.mark.parametrize("out", ["e4m3", "f16", "f32"])
@pytest.mark.parametrize("major", ["M", "N"])
def test_tma_can_address_the_second_matrices_of_a_good_call(out, major):
    """Else a good call is one of those for which the host code goes on in another way."""
    own = {"atom": "SM90_64x64x32_F32E4M3E4M3_SS_TN", "atoms_layout": [1, 1, 1], "layout": "TN"}
    operations = [{"add": "first"}, {"multiply": "second"}, {"add": "third", "type": "u8"}, {"cast": out, "major": major}]
    of = plan(load(yaml.safe_dump(SPEC | own | {"epilogue": operations}), "g.yaml").spec)
    calls = Calls(Task(of, None, Problem(shape=(256, 192, 128)), "zeros", 1))
    call = calls.struct.from_buffer_copy(calls.good)
    lines = [getattr(call, f"ld_{name}") for name in ("first", "second", "third")]
    assert len({*lines, call.ldd}) == 4 and not any(line % 16 for line in lines)


@pytest.mark.parametrize("spec", ["sparse_bf16", "groups_rows", "pointers_pingpong", "sc1_blocks", "sm90_gemm_bf16_sums"])
def test_calls_of_no_element_have_nothing_right_but_the_extents(spec):
    """Each pointer, leading dimension and stride of the struct is wrong in each of them; M is 0 in some, N in the others."""
    path = next(path for folder in (ODD, SPECS) if (path := folder / f"{spec}.yaml").is_file())
    of = plan(load(path.read_bytes(), spec).spec)
    problem = Problem.model_validate({"shape": (256, 192, 128)} | ({"groups": [256]} if of.spec.grouped else {}))
    calls = Calls(Task(of, None, problem, "zeros", 1))._gemm()
    empty = [
        one for one in calls if one.status == Status.SUCCESS and one.changes.keys() & {"batch_stride_a"} and one.launches == 0
    ]
    assert {extent for one in empty for extent in "mn" if one.changes.get(extent) == 0} == {"m", "n"}
    tensors = of.arguments.tensors
    pointers = {*"abcd", *(one.name for one in tensors)}
    strides = {f"batch_stride_{name}" for name in (*"abcd", *(one.name for one in tensors if one.batched))}
    for one in empty:
        assert pointers | strides <= one.changes.keys()
    assert {one.changes[name] for one in empty for name in pointers} == {0, 1}
    assert len({one.changes[name] for one in empty for name in strides}) == 2


def test_pieces_of_pairs_of_columns_are_asked_about_with_an_even_n():
    of = plan(load((ODD / "pc6_gated.yaml").read_bytes(), "pc6_gated").spec)
    cases = Calls(Task(of, None, Problem(shape=(256, 192, 128)), "zeros", 1))._pieces()
    assert {one.status for one in cases} == {Status.SUCCESS, Status.TOO_LARGE_M, Status.TOO_LARGE_N}
    assert not any(one.changes["n"] % 2 for one in cases)
