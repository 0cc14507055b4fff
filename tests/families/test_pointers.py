"""`grouped: pointers`: plans, what is refused, and M, N and K of groups in problems."""

from __future__ import annotations

import pytest

from mmagen.core.errors import SpecFaults
from mmagen.families import plan
from mmagen.families.wgmma.pointers import default_problems, trial_problems
from mmagen.generate.render import render
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
    ],
)
def test_what_goes_with_it(more):
    spec = SPEC.replace("atoms_layout: [2, 1, 1]\n", "") if "atoms_layout" in more else SPEC
    assert plan(load((spec + more).encode(), "pointers.yaml").spec).scheduler.describes_groups


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("epilogue: [alpha, {bias: column}, {cast: bf16}]\n", "bias: not for groups with matrices of their own"),
        ("epilogue: [alpha, amax, {cast: bf16}]\n", "amax: not for groups"),
        ("epilogue: [alpha, {add: residual}, {cast: bf16}]\n", "add: not for groups"),
        ("epilogue: [alpha, {gated: silu}, {cast: bf16}]\n", "gated: not for groups"),
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


def test_scales_do_not_go_with_it():
    spec = SPEC.replace("64x128x16_F32BF16BF16_SS", "64x128x32_F32E4M3E4M3_SS_TN").replace("128, 64]", "128, 128]")
    with pytest.raises(SpecFaults, match="scale"):
        plan(load((spec + "scale: {a: tensor, b: tensor}\n").encode(), "pointers.yaml").spec)


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
