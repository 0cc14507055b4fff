"""The further arguments of a kernel as a caller passes them: which members they become, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mmagen.binding.errors import ArgumentError
from mmagen.binding.further import check_names, members
from mmagen.binding.tensors import CPU, Tensor
from mmagen.mma.atoms import TYPES
from mmagen.plan.arguments import Arguments, Extent, Number, of_description
from mmagen.plan.arguments import Tensor as Wanted

F32 = TYPES["f32"]
M, N, ONE = Extent("m"), Extent("n"), Extent()
BIAS = Wanted(name="bias", element=F32, part="epilogue", rows=ONE, columns=N, sentence="a bias")
RESIDUAL = Wanted(name="residual", element=F32, part="epilogue", rows=M, columns=N, sentence="a matrix", pitched=True)
SCALE = Wanted(name="scale_a", element=F32, part="scale", rows=M, columns=Extent("k", 128), sentence="factors", pitched=True)
SUMS = Wanted(name="sums", element=F32, part="epilogue", rows=ONE, columns=M, sentence="sums", access="update", required=False)
OFFSETS = Wanted(
    name="offsets",
    element=TYPES["s32"],
    part="group",
    rows=ONE,
    columns=Extent("groups", plus=1),
    sentence="rows",
    batched=False,
)
GROUPS = Number(name="groups", part="group", sentence="how many", default=1)
ALL = Arguments((BIAS, RESIDUAL, SCALE, SUMS, OFFSETS, GROUPS))
EXTENTS = {"m": 6, "n": 5, "k": 300, "batch": 2}


def view(name: str, value: np.ndarray) -> Tensor:
    strides = tuple(step // value.itemsize for step in value.strides)
    word = {"float32": "f32", "float16": "f16", "int32": "s32"}[value.dtype.name]
    read_only = not value.flags.writeable
    return Tensor(value.ctypes.data, value.shape, strides, word, value.itemsize, CPU, 0, read_only, value)


def given(**changes: object) -> dict[str, object]:
    f32 = np.float32
    usual = {"bias": np.zeros(5, f32), "residual": np.zeros((2, 6, 9), f32)[:, :, :5], "scale_a": np.zeros((6, 3), f32)}
    usual |= {"sums": np.zeros((2, 6), f32), "offsets": np.zeros(4, np.int32), "groups": 3}
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def test_arrays_become_pointers_pitches_and_strides():
    arrays = given()
    values, written = members(ALL, arrays, view, EXTENTS, 2)
    pointer = {name: arrays[name].ctypes.data for name in ("bias", "residual", "scale_a", "sums", "offsets")}
    assert {name: values[name] for name in pointer} == pointer
    rest = {name: value for name, value in values.items() if name not in pointer}
    assert rest == {
        "groups": 3,
        "batch_stride_bias": 0,
        "ld_residual": 9,
        "batch_stride_residual": 54,
        "ld_scale_a": 3,
        "batch_stride_scale_a": 0,
        "batch_stride_sums": 6,
    }
    assert [name for name, _ in written] == ["sums"]


def test_what_is_not_required_may_be_left_out():
    values, written = members(ALL, given(sums=None, groups=None, offsets=np.zeros(2, np.int32)), view, EXTENTS, 2)
    assert "sums" not in values and values["groups"] == 1 and not written


@pytest.mark.parametrize(
    ("changes", "argument", "says"),
    [
        ({"bias": None}, "bias", r"it is missing; pass an array \(1, n\) of f32: a bias"),
        ({"residul": 1}, "residul", "this kernel does not take it; its further arguments are bias, residual"),
        ({"bias": np.zeros(6, np.float32)}, "bias", r"shape \(6,\); it is \(1, n\), here \(5,\) or \(batch, 5\)"),
        ({"bias": np.zeros(5, np.float16)}, "bias", "its elements are f16; this kernel takes f32"),
        ({"residual": np.zeros((5, 6), np.float32).T}, "residual", "this kernel reads it with N contiguous"),
        ({"residual": np.zeros((3, 6, 5), np.float32)}, "residual", "it has 3 matrices, the call 2"),
        ({"scale_a": np.zeros((6, 2), np.float32)}, "scale_a", r"it is \(m, ceil\(k / 128\)\), here \(6, 3\)"),
        ({"offsets": np.zeros(3, np.int32)}, "offsets", r"it is \(1, groups \+ 1\)"),
    ],
)
def test_what_is_wrong_is_named(changes, argument, says):
    with pytest.raises(ArgumentError, match=says) as error:
        members(ALL, given(**changes), view, EXTENTS, 2)
    assert error.value.argument == argument


def test_what_is_written_must_be_writable():
    sums = np.zeros((2, 6), np.float32)
    sums.flags.writeable = False
    with pytest.raises(ArgumentError, match="it is read-only"):
        members(ALL, given(sums=sums), view, EXTENTS, 2)


def test_a_kernel_without_further_arguments_says_so():
    with pytest.raises(ArgumentError, match="it has no further arguments"):
        check_names(Arguments(), {"bias": 1})


def test_a_description_has_all_that_a_caller_needs():
    again = of_description(json.loads(json.dumps(ALL.description)))
    assert again.members == ALL.members and again.description == ALL.description
    arrays = given()
    assert members(again, arrays, view, EXTENTS, 2)[0] == members(ALL, arrays, view, EXTENTS, 2)[0]


def test_extents_are_the_same_in_python_and_c():
    values = {"m": 7, "n": 9, "k": 300, "batch": 2, "groups": 3}
    cases = [
        (Extent("k", 128, 4), 12, "mmagen::detail::ceil_div(args.k, 128) * 4"),
        (Extent("groups", plus=1), 4, "args.groups + 1"),
    ]
    for extent, value, cxx in [*cases, (ONE, 1, "int64_t(1)")]:
        assert (extent.value(values), extent.cxx) == (value, cxx)
