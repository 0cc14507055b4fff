"""`grouped: pointers`: plans, what is refused, and M, N and K of groups in problems."""

from __future__ import annotations

import pytest

from mmagen.core.errors import SpecFaults
from mmagen.families import plan
from mmagen.families.wgmma.pointers import default_problems, trial_problems
from mmagen.generate.render import render
from mmagen.plan.arguments import of_description
from mmagen.spec.groups import Groups
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated.verify import parse_problem

SPEC = """mmagen: 1
name: pointers
kernel: gemm
atom: SM90_64x128x16_F32BF16BF16_SS
tile: [128, 128, 64]
atoms_layout: [2, 1, 1]
grouped: pointers
"""


def planned(more=""):
    return plan(load((SPEC + more).encode(), "pointers.yaml").spec)


def test_a_call_has_arrays_and_needs_a_workspace():
    one = planned("epilogue: {out: bf16}\n")
    names = [each.name for each in one.arguments.tensors]
    assert names == [*(f"group_{x}" for x in ("m", "n", "k", "lda", "ldb", "ldc", "ldd")), "group_status"]
    assert one.needs_workspace and one.takes_workspace and one.most_launches == 2 and not one.copies_operands
    files = render(one)
    header = files["include/pointers/pointers.h"].decode()
    assert "POINTERS_SHORT_WORKSPACE = 74" in header and "arrays of `batch` pointers" in header
    assert "with a smaller one, is refused" in header
    config = files["include/pointers/config.cuh"].decode()
    assert "mmagen::PointerTileScheduler<Config>" in config
    assert "include/mmagen/sm90_prepare_groups.cuh" in files and "include/mmagen/sm90_unaligned.cuh" not in files


@pytest.mark.parametrize(
    "more",
    [
        "schedule: pingpong\natoms_layout: [1, 1, 1]\n",
        "cluster: [2, 1]\n",
        "operands: swapped\n",
        "epilogue: [alpha, beta_c, relu, {clamp: [-1, 1]}, {cast: bf16}]\n",
        "epilogue: {out: f32, major: M}\n",
        "epilogue: [alpha, {bias: column}, {multiply: gate}, amax, row_sums, {cast: bf16}]\n",
        "epilogue: [alpha, {gated: silu}, {cast: bf16}]\n",
    ],
)
def test_what_goes_with_it(more):
    spec = SPEC.replace("atoms_layout: [2, 1, 1]\n", "") if "atoms_layout" in more else SPEC
    assert plan(load((spec + more).encode(), "pointers.yaml").spec).scheduler.describes_groups


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("split_k: 2\n", "split_k 2 does not go with grouped"),
        ("stream_k: always\n", "stream_k always does not go with grouped"),
        ("problems:\n  - [64, 64, 64]\n", "has no groups"),
        ("problems:\n  - {shape: [64, 64, 64], groups: [[65, 8, 8]]}\n", "the groups have up to 65x8x8"),
        (
            "problems:\n  - {shape: [64, 64, 64], groups: [[8, 8, 8]], batch_stride_a: 4096}\n",
            "each group has matrices anywhere",
        ),
    ],
)
def test_what_does_not_go_with_it_has_a_remedy(more, said):
    loaded = load((SPEC + more).encode(), "pointers.yaml")
    with pytest.raises(SpecFaults) as caught:
        plan(loaded.spec)
    assert said in " ".join(fault.what for fault in caught.value.faults)
    assert all(fault.remedy and fault.change for fault in caught.value.faults)


OF_FP8 = SPEC.replace("64x128x16_F32BF16BF16_SS", "64x128x32_F32E4M3E4M3_SS_TN").replace("128, 64]", "128, 128]")
TENSORS = (
    "scale: {a: 1x128, b: 128x128}\nepilogue: [{bias: row, name: shift}, {add: residual}, amax, column_sums, {cast: bf16}]\n"
)


def test_each_group_has_scales_vectors_and_second_matrices_of_its_own():
    one = plan(load((OF_FP8 + TENSORS).encode(), "pointers.yaml").spec)
    of_groups = {each.name: each for each in one.arguments.of_groups}
    assert set(of_groups) == {"shift", "residual", "column_sums", "scale_a", "scale_b"}
    assert not any(each.batched for each in of_groups.values()) and {each.aligned_to for each in of_groups.values()} == {8}
    assert {each.bytes_of_groups for each in of_groups.values()} == {2, 4}
    members = [name for _, name in one.arguments.members]
    assert [name for name in members if name.startswith("group_ld_")] == [
        "group_ld_residual",
        "group_ld_scale_a",
        "group_ld_scale_b",
    ]
    assert "amax" in members and not any(name.startswith("batch_stride") for name in members)
    described = of_description(one.facts.description["arguments"])
    assert [each.name for each in described.of_groups] == [each.name for each in one.arguments.of_groups]
    further = render(one)["include/pointers/further.cuh"].decode()
    assert "mmagen::FurtherPointers scale_b" in further and "mmagen::FurtherTensor amax" in further
    assert "{scale_b, 4, 'k', 128, true, true}" in further and "{shift, 2, 'm', 1, false, false}" in further
    assert "args.group_ld_residual == nullptr" in further


def test_pairs_of_columns_need_an_even_n_of_each_group():
    gated = "epilogue: [{gated: silu}, {cast: bf16}]\n"
    assert plan(load((SPEC + gated).encode(), "pointers.yaml").spec).problems
    with pytest.raises(SpecFaults) as caught:
        plan(
            load((SPEC + gated + "problems:\n  - {shape: [8, 8, 8], groups: [[8, 7, 8], [8, 8, 8]]}\n").encode(), "p.yaml").spec
        )
    (fault,) = caught.value.faults
    assert "N is 7" in fault.what
    (changed,) = fault.change.values()
    assert changed["shape"] == (8, 8, 8) or list(changed["shape"]) == [8, 8, 8]
    assert changed["groups"] == [[8, 8, 8], [8, 8, 8]]


def test_lists_of_extents_are_for_pointers_alone():
    spec = SPEC.replace("pointers\n", "masked\n", 2).replace("name: masked", "name: pointers")
    with pytest.raises(SpecFaults, match="are for grouped: pointers"):
        plan(load((spec + "problems:\n  - {shape: [64, 64, 64], groups: [[8, 8, 8]]}\n").encode(), "pointers.yaml").spec)


def test_extents_of_groups_are_written_as_they_are_read():
    groups = Groups.model_validate([[70, 64, 32], [0, 8, 8]])
    assert groups.sizes == (70, 0) and groups.text == "70x64x32+0x8x8"
    assert groups.model_dump(mode="json") == [[70, 64, 32], [0, 8, 8]]
    assert groups.shapes(5, 6) == ((70, 64, 32), (0, 8, 8))
    assert Groups.model_validate([3, 0]).shapes(5, 6) == ((3, 5, 6), (0, 5, 6))
    problem = Problem.model_validate({"shape": [70, 64, 32], "groups": [[70, 64, 32], [0, 8, 8]]})
    assert problem.batch == 2 and problem.text == "70x64x32 groups=70x64x32+0x8x8"
    assert parse_problem("70,64,32:groups=70x64x32+0x8x8") == problem


@pytest.mark.parametrize("groups", [[[1, 2]], [[1, 2, -3]], [[1, 2, 3], 4], [[1, 2, 3.5]]])
def test_extents_that_are_none_are_refused(groups):
    with pytest.raises(ValueError, match="groups"):
        Problem.model_validate({"shape": [64, 64, 64], "groups": groups})


def test_problems_have_what_is_particular_to_such_groups():
    one = planned()
    for problems in (default_problems(), trial_problems(one)):
        shapes = [shape for problem in problems for shape in problem.groups.shapes(problem.n, problem.k)]
        assert any(m == 0 for m, _, _ in shapes) and any(k == 0 and m and n for m, n, k in shapes)
        assert len({n for _, n, _ in shapes}) > 3 and len({k for _, _, k in shapes}) > 3
        assert any(problem.batch > 32 for problem in problems)
