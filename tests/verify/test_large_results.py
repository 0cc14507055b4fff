"""Calls whose results D's type cannot hold: what the reference makes of them, for epilogues of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml

from mmagen.families import plan
from mmagen.mma.ranges import LARGEST
from mmagen.plan.operations import as_applied
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated import large_results
from mmagen.verify.emulated.compare import expected
from mmagen.verify.emulated.matrices import draw_of, operands
from mmagen.verify.emulated.matrix import values
from mmagen.verify.emulated.parts import Call

HALF: dict[str, Any] = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM80_16x8x16_F32F16F16F32_TN",
    "tile": [64, 64, 64],
    "atoms_layout": [2, 2, 1],
}
BYTES = HALF | {"atom": "SM80_16x8x32_S32S8S8S32_TN"}
FP8 = HALF | {"atom": "SM90_64x64x32_F32E4M3E4M3_SS_TN", "atoms_layout": [1, 1, 1], "tile": [64, 64, 128]}
SCALED = FP8 | {"scale": {"a": "1x128", "b": "128x128"}}
SPARSE = FP8 | {"atom": "SM90::GMMA::SPARSE::GMMA_64x32x64_F32E4M3E5M2_SS_TN", "tile": [64, 32, 128]}
WEIGHTS = HALF | {
    "atom": "SM90_64x16x16_F32BF16BF16_RS",
    "atoms_layout": [1, 1, 1],
    "tile": [64, 16, 128],
    "operands": "swapped",
    "schedule": "cooperative",
    "weights": {"type": "u4", "group": 128, "zero": "u8"},
}
SATURATED = {"cast": "f16", "overflow": "saturate"}


def planned(document):
    return plan(load(yaml.safe_dump(document), "g.yaml").spec)


def results(document):
    """What the reference allows D to be, before the rounding, and the operands."""
    of = planned(document)
    alpha = large_results.alpha_of(of)
    assert alpha
    asked = Problem.model_validate({"shape": (*of.tile_of_d[:2], of.tile[2]), "alpha": alpha})
    (problem,) = as_applied(of.spec, (asked,))
    data = operands(of, problem, "small_int", 1)
    large_results.enlarge(of, data)
    found, _ = expected(Call(of, problem, draw_of(of, problem, "small_int"), data))
    assert all(np.isfinite(end).all() for one in found.values() for end in (one.low, one.high))
    return found["d"], data


@pytest.mark.parametrize(
    ("document", "operations", "below"),
    [
        (HALF, ["alpha", {"bias": "row"}, {"gated": "silu"}, SATURATED], True),
        (HALF, ["alpha", "row_sums", "gelu", SATURATED], False),
        (HALF, ["alpha", {"multiply": "gate"}, "column_sums", {"cast": "e4m3"}], True),
        (HALF, [{"add": "residual"}, "amax", SATURATED], True),
        (HALF, ["silu", {"cast": "e5m2"}], False),
        (BYTES, [{"bias": "row"}, "row_sums", {"cast": "s8"}], True),
        (BYTES, ["relu", {"cast": "u8"}], False),
        (SCALED, [{"bias": "row"}, {"cast": "e4m3"}], True),
        (SPARSE, [{"bias": "row"}, "amax", "gelu", "column_sums", {"cast": "e5m2"}], False),
        (WEIGHTS, [{"bias": "column"}, {"cast": "e4m3"}], True),
    ],
)
def test_some_results_are_larger_than_ds_largest_number(document, operations, below):
    found, _ = results(document | {"epilogue": operations})
    largest = LARGEST[operations[-1]["cast"]]
    assert (found.low >= largest).sum() > 10
    assert not below or (found.high <= -largest).sum() > 10


def test_elements_are_enlarged_only_without_alpha():
    for operations in (["alpha", SATURATED], [SATURATED]):
        _, data = results(HALF | {"epilogue": operations})
        assert (np.abs(values(data.a)).max() > 1000) == ("alpha" not in operations)


@pytest.mark.parametrize(
    ("document", "epilogue"),
    [
        (HALF, [{"add": "residual"}, {"cast": "bf16"}]),  # infinities say enough
        (HALF, ["alpha", {"gated": "silu"}, {"cast": "bf16", "overflow": "saturate"}]),  # products beyond f32
        (HALF, ["alpha", "sigmoid", SATURATED]),  # at most 1
        (HALF | {"atom": "SM80_16x8x16_F16F16F16F16_TN"}, [SATURATED]),  # sums end where D does
        (BYTES, {"out": "s32"}),
    ],
)
def test_calls_that_would_show_nothing_are_not_made(document, epilogue):
    assert large_results.alpha_of(planned(document | {"epilogue": epilogue})) == 0


def test_packed_elements_stay_as_they_are():
    of = planned(HALF | {"atom": "SM80_16x8x64_S32S4S4S32_TN", "tile": [64, 64, 128], "epilogue": {"out": "s8"}})
    assert large_results.alpha_of(of) > 1
    data = operands(of, Problem(shape=(64, 64, 128)), "small_int", 1)
    before = data.a.memory.copy(), data.b.memory.copy()
    large_results.enlarge(of, data)
    assert np.array_equal(data.a.memory, before[0]) and np.array_equal(data.b.memory, before[1])
