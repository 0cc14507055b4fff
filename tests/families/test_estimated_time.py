"""What predicted times of kernels that were not measured say of layouts, clusters and epilogues."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mmagen.families import estimate
from mmagen.families import plan as planned
from mmagen.families.estimate import predicted
from mmagen.plan.devices import DEVICES
from mmagen.spec.load import load
from mmagen.spec.model import Problem, Spec
from mmagen.suggest.rank import document
from mmagen.suggest.wanted import wanted
from tests.support.mutations import SPECS

(H100,) = (device for device in DEVICES if device.name == "h100")


def us(problem, n=64, cluster=(1, 1), layout="TN", **keys):
    """Of a tile of 64xNx64 of f16, one warpgroup."""
    candidate = {
        "atom": f"SM90_64x{n}x16_F32F16F16_SS",
        "tile": [64, n, 64],
        "atoms_layout": [1, 1, 1],
        "schedule": "cooperative",
        "cluster": list(cluster),
    }
    written = document(wanted(types="f16", layout=layout), candidate | keys)
    return predicted(planned(Spec.model_validate(written)), H100, [Problem(shape=problem)])[0]


def test_rows_that_begin_within_a_line_cost_more_where_boxes_are_narrow():
    aligned, beside = (64, 12288, 4096), (64, 12280, 4096)
    ratios = [us(beside, n, layout="NT") / us(aligned, n, layout="NT") for n in (32, 64, 128)]
    assert all(narrow > wide for narrow, wide in pairwise(ratios)) and ratios[0] > 1.3, ratios
    assert us(beside, 32) / us(aligned, 32) < 1.05, "rows of K-major operands are as long as before"


def test_few_rows_along_m_are_lines_that_all_ctas_read():
    few, more = (8, 13432, 4096), (64, 13432, 4096)
    assert us(few, layout="NT") > us(more, layout="NT"), "a line has eight rows of the box"
    assert us(few, cluster=(1, 4), layout="NT") < 0.8 * us(few, layout="NT"), "a cluster multicasts A"
    assert us(few) == pytest.approx(us(more), rel=0.1), "K-major"


def test_epilogues_overlap_with_loads_of_other_ctas():
    # Half the K halves what is loaded and leaves the stores; nothing is added for each further wave.
    short, long = us((8192, 8192, 64), 128), us((8192, 8192, 128), 128)
    stored = 8192 * 8192 * 2 / (H100.dram_gbps * 1e3)
    assert stored < short < 3 * stored and long < 1.5 * short


def test_swapped_operands_take_longer_to_store():
    square = (4096, 4096, 128)
    assert us(square, 128, operands="swapped") > 1.05 * us(square, 128)
    deep = (1024, 1024, 16384)
    assert us(deep, 128, operands="swapped") == pytest.approx(us(deep, 128), rel=0.03)


@pytest.mark.parametrize(
    ("name", "loaded", "pitches"),
    [
        ("sm90_gemm_bf16_tn", (2, 2), (8224, 8224)),
        ("sm90_gemm_sparse_bf16", (1.125, 2), (4112, 8224)),
        ("sm90_gemm_u4_f16", (2, 0.5), (8224, 2056)),
        ("sm90_gemm_s8_bf16", (2, 1), (8224, 4112)),
        ("sm80_gemm_s4", (0.5, 0.5), (2056, 2056)),
    ],
)
def test_what_is_kept_of_packed_and_of_sparse_operands_is_read(name, loaded, pitches):
    """Bytes of an element, metadata included, and from line to line of 4112 elements."""
    plan = planned(load((SPECS / f"{name}.yaml").read_bytes(), name).spec)
    plan = plan.by_config[plan.configs[-1].name] if plan.configs else plan
    assert estimate._kernel(plan).bytes[:2] == loaded
    assert estimate._call(plan, Problem(shape=(256, 256, 4112))).pitches[:2] == pitches


def test_converting_weights_takes_time():
    plan = planned(load((SPECS / "sm90_gemm_u4_f16.yaml").read_bytes(), "weights").spec)
    least = 8192 * 28672 / H100.sms * 5e-5 / 2  # by two warpgroups
    assert least < predicted(plan, H100, [Problem(shape=(16, 8192, 28672))])[0] < 2 * least
