"""Arrays that an emulated kernel writes beside D: they are refused before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mmagen
from mmagen.binding.emulated import Emulated
from mmagen.binding.written import check_written
from mmagen.families import plan
from mmagen.spec.load import load
from mmagen.verify.emulated.formats import storage
from tests.support.mutations import ODD, SPECS


def emulated(path):
    def no_project() -> Path:
        raise AssertionError("the call is right: the kernel would be compiled")

    return Emulated(plan(load(path.read_text(), path.name).spec), no_project)


def sums_of(**changed):
    """A call of a kernel whose epilogue is [alpha, bias, row_sums, relu, column_sums]."""
    kernel = emulated(SPECS / "sm90_gemm_bf16_sums.yaml")
    numbers = np.zeros((16, 16), ml_dtypes.bfloat16)
    further = {one.name: np.zeros(16, np.float32) for one in kernel.plan.arguments.tensors}
    further |= {one.name: numbers[0].copy() for one in kernel.plan.arguments.tensors if one.element.word == "bf16"}
    return kernel(numbers, numbers.T.copy(), None, 1.0, 0.0, None, further | changed)


def test_other_arrays_are_right():
    with pytest.raises(AssertionError, match="would be compiled"):
        sums_of()


def test_an_array_of_results_must_be_writable_and_numpys():
    sums = np.zeros(16, np.float32)
    sums.flags.writeable = False
    with pytest.raises(mmagen.ArgumentError, match="totals: it is read-only"):
        sums_of(totals=sums)
    with pytest.raises(mmagen.ArgumentError, match="column_sums: it is written, and memoryview is no numpy array"):
        sums_of(column_sums=memoryview(np.zeros(16, np.float32)))


def test_results_share_no_memory():
    both = np.zeros((16, 2), np.float32)
    with pytest.raises(mmagen.ArgumentError, match="column_sums: its memory overlaps that of totals"):
        sums_of(totals=both[:, 0], column_sums=both[:, 0])
    with pytest.raises(AssertionError, match="would be compiled"):  # beside each other
        sums_of(totals=both[:, 0], column_sums=both[:, 1])


def test_the_status_of_groups_is_not_among_their_sizes():
    kernel = emulated(ODD / "groups.yaml")
    kind = storage(kernel.plan.operand("A").element.word)
    offsets = np.array([0, 7, 16], np.int32)
    further = {"group_offsets": offsets, "group_status": offsets[:2]}
    with pytest.raises(mmagen.ArgumentError, match="group_status: its memory overlaps that of group_offsets"):
        kernel(np.zeros((16, 16), kind), np.zeros((2, 16, 16), kind), None, 1.0, 0.0, None, further)


def test_groups_may_share_what_they_read_only():
    one, two = np.zeros(8), np.zeros(8)
    check_written([("a[0]", one), ("a[1]", one), ("sums[0]", two)], ["sums[0]"])
    with pytest.raises(mmagen.ArgumentError, match=r"sums\[0\]: its memory overlaps that of a\[0\]"):
        check_written([("a[0]", one), ("sums[0]", one[4:])], ["sums[0]"])
