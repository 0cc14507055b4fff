"""Predicted times of kernels that were not tuned, beside what an H200 took: microseconds of `verify --bench`, and of
docs/performance.md ("What TMA cannot address"), of calls with a workspace and without."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from mmagen.families import plan as planned
from mmagen.families.estimate import mean_us, predicted
from mmagen.families.library import choose
from mmagen.plan.devices import DEVICES
from mmagen.plan.plans import GemmPlan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from tests.support.mutations import SPECS

RECORDED = json.loads((Path(__file__).parent / "recorded_h200.json").read_text("utf-8"))
(H200,) = (device for device in DEVICES if device.name == "h200")


def _plan(name: str) -> GemmPlan:
    one = planned(load((SPECS / f"{name}.yaml").read_bytes(), name).spec)
    assert isinstance(one, GemmPlan)
    return one


def _problem(text: str) -> Problem:
    extents, *rest = text.split(":")
    m, n, k, *batch = map(int, extents.split(","))
    keys = {key: float(value) if key in ("alpha", "beta") else int(value) for key, value in (one.split("=") for one in rest)}
    return Problem.model_validate({"shape": (m, n, k), "batch": batch[0] if batch else 1} | keys)


def _ratios() -> dict[tuple[str, bool, str], float]:
    found = {}
    for one in RECORDED:
        plan = _plan(one["spec"])
        for text, us in one["us"].items():
            problem = _problem(text)
            chosen = choose(plan, problem).plan if plan.configs else plan
            found[one["spec"], one["workspace"], text] = predicted(chosen, H200, [problem], one["workspace"])[0] / us
    return found


def test_predicted_times_are_near_those_of_an_h200():
    ratios = np.array(list(_ratios().values()))
    assert len(ratios) > 60
    assert np.median(np.abs(ratios - 1)) < 0.1
    assert np.percentile(np.abs(np.log(ratios)), 90) < math.log(1.5)


def test_a_workspace_helps_unaligned_operands_alone():
    plan = _plan("sm90_gemm_bf16_tn")
    unaligned, aligned = Problem(shape=(2048, 2048, 2047)), Problem(shape=(2048, 2048, 2048))
    without, with_one = (predicted(plan, H200, (unaligned, aligned), workspace) for workspace in (False, True))
    assert without[0] > 2 * with_one[0] > 2 * with_one[1]
    assert without[1] == with_one[1]
    assert math.isclose(mean_us(plan, H200, (unaligned, aligned)), math.sqrt(with_one[0] * with_one[1]), rel_tol=1e-12)


def test_tiles_over_the_edge_copy_with_predicates():
    plan = _plan("sm80_gemm_classic")
    m, n, k = plan.tile
    whole, less, shorter = (
        Problem(shape=shape) for shape in ((4 * m, 4 * n, 64 * k), (4 * m - 8, 4 * n, 64 * k), (4 * m - 8, 4 * n, 8 * k))
    )
    of_whole, of_less, of_shorter = predicted(plan, H200, (whole, less, shorter))
    assert of_less > 1.1 * of_whole
    assert of_less - of_whole > 3 * (of_shorter - predicted(plan, H200, [Problem(shape=(4 * m, 4 * n, 8 * k))])[0])


def test_tma_needs_no_predicates():
    plan = _plan("sm90_gemm_bf16_tn")
    m, n, k = plan.tile
    whole, less = predicted(plan, H200, (Problem(shape=(4 * m, 4 * n, 64 * k)), Problem(shape=(4 * m - 8, 4 * n, 64 * k))))
    assert math.isclose(less, whole, rel_tol=0.02)


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("sm90_gemm_f32_bf16x3", {(8192,) * 3: 251.3, (4096,) * 3: 237.1, (2048,) * 3: 195.6, (16384, 1024, 4096): 207.3}),
        ("sm90_gemm_f32_bf16x6", {(8192,) * 3: 130.7, (4096,) * 3: 128.3, (2048,) * 3: 117.2, (16384, 1024, 4096): 117.2}),
    ],
)
def test_products_of_pieces_take_as_long_as_on_an_h200(name, tflops):
    """TFLOPS of docs/split.md ("Speed"), splitting A and B included."""
    shapes = list(tflops)
    times = predicted(_plan(name), H200, [Problem(shape=shape) for shape in shapes])
    ratios = [us / (2 * math.prod(shape) / tflops[shape] / 1e6) for us, shape in zip(times, shapes, strict=True)]
    assert np.median(np.abs(np.array(ratios) - 1)) < 0.1 and max(ratios) < 1.2 and min(ratios) > 0.9


def test_groups_of_separate_matrices_take_what_their_own_extents_take():
    plan = _plan("sm90_gemm_bf16_pointers")

    def us(*shapes: tuple[int, int, int]) -> float:
        (found,) = predicted(plan, H200, [Problem.model_validate({"shape": [4096, 4096, 4096], "groups": shapes})])
        return found

    whole = us(*[(4096, 4096, 4096)] * 8)
    for half in ((2048, 4096, 4096), (4096, 2048, 4096), (4096, 4096, 2048)):
        assert 0.45 < us(*[half] * 8) / whole < 0.6
    assert us((0, 4096, 4096), (4096, 0, 4096)) < 10
