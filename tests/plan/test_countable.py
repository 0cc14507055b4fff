"""Problems with more elements along a mode, or more tiles, than a kernel counts in 31 bits."""

import json
import re

import pytest

from mmagen.families.reading import read
from mmagen.families.remedies import accepted_changes
from mmagen.plan.countable import MOST
from tests.support.mutations import SPECS

MMA = {"atom": "SM80_16x8x16_F32F16F16F32_TN", "tile": [64, 32, 32], "atoms_layout": [2, 2, 1]}
WGMMA = {"atom": "SM90_64x32x16_F32BF16BF16_SS", "tile": [64, 32, 64]}


def text_of(problem, **keys) -> str:
    return json.dumps({"mmagen": 1, "name": "it", "kernel": "gemm", **keys, "problems": [problem]})


def test_the_limit_is_that_of_the_kernels():
    header = (SPECS.parent / "templates/runtime/mmagen/gemm_arguments.cuh").read_text("utf-8")
    (less,) = re.findall(r"kLargestExtent = 0x7fffffff - (\d+);", header)
    assert 0x7FFFFFFF - int(less) == MOST


@pytest.mark.parametrize("kernel", [MMA, WGMMA], ids=["mma.sync", "wgmma"])
@pytest.mark.parametrize(
    ("problem", "says"),
    [
        ([2**31 - 1, 1, 1], f"M is 2147483647; at most {MOST}"),
        ([1, MOST + 1, 8], f"N is {MOST + 1}; at most {MOST}"),
        ({"shape": [8, 8, 2**31 - 1], "beta": 1.0}, f"K is 2147483647; at most {MOST}"),
        ([MOST, 64 * 32, 8], f"tiles of 64 x 32; at most {MOST}"),
        ([1, 1, 1, 2**31 - 1], f"tiles of 64 x 32; at most {MOST}, e.g. 1 rows and a batch of 1"),
        ([2**31 - 1] * 4, "M is 2147483647 and N is 2147483647 and K is 2147483647"),
    ],
    ids=str,
)
def test_more_than_can_be_counted_is_refused_and_mended(kernel, problem, says):
    text = text_of(problem, **kernel)
    plan, (fault,) = read(text, "it.yaml")
    assert plan is None and fault.key == ("problems", 0) and says in f"{fault.what}; {fault.remedy}"
    changed = accepted_changes(text, "it.yaml")
    assert set(changed) == {"problems"}


@pytest.mark.parametrize("problem", [[MOST, 1, 1], [1, 1, MOST], [65537, 65537, 1], [1, 1, 1, MOST]], ids=str)
def test_what_can_be_counted_is_accepted(problem):
    assert read(text_of(problem, **WGMMA), "it.yaml")[0]


def test_a_transposed_kernel_has_its_tile_along_the_other_modes():
    keys = {"atom": "SM90_64x16x16_F32BF16BF16_SS", "atoms_layout": [2, 1, 1], "tile": [128, 16, 64]}
    problem = [2**30, 1, 8, 32]  # 2^28 tiles of 128 rows, 2^31 of 16
    assert read(text_of(problem, **keys), "it.yaml")[0]
    (fault,) = read(text_of(problem, **keys, operands="swapped"), "it.yaml")[1]
    assert "2147483648 tiles of 16 x 128" in fault.what


SPLIT = {**WGMMA, "tile": [128, 32, 64], "atoms_layout": [2, 1, 1], "split_k": 2}


@pytest.mark.parametrize(
    ("keys", "problem", "says"),
    [
        (
            SPLIT,
            [1, 1, 1, 2**30],
            "1073741824 tiles, each of a cluster of 2 CTAs; at most 2147483647 CTAs in a grid, e.g. a batch of",
        ),
        (SPLIT, [MOST, 32 * 65, 8], "tiles, each of a cluster of 2 CTAs; at most 2147483647 CTAs in a grid, e.g. 128 rows and"),
        ({**SPLIT, "cluster": [1, 2]}, [1, 1, 1, 2**29], "536870912 tiles, each of a cluster of 4 CTAs; at most"),
    ],
    ids=("batch", "rows", "multicast"),
)
def test_more_ctas_than_a_grid_has_are_refused_and_mended(keys, problem, says):
    text = text_of(problem, **keys)
    plan, (fault,) = read(text, "it.yaml")
    assert plan is None and fault.key == ("problems", 0) and says in f"{fault.what}; {fault.remedy}"
    assert set(accepted_changes(text, "it.yaml")) == {"problems"}


@pytest.mark.parametrize("keys", [{**SPLIT, "split_k": "auto"}, {**SPLIT, "split_k": 1, "cluster": [2, 1]}], ids=str)
def test_a_kernel_that_launches_what_runs_at_once_has_no_such_limit(keys):
    assert read(text_of([1, 1, 1, 2**30], **keys), "it.yaml")[0]


def test_the_most_ctas_of_a_grid_are_accepted():
    assert read(text_of([1, 1, 1, 2**30 - 1], **SPLIT), "it.yaml")[0]
