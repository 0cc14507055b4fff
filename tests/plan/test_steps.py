"""The steps after which the emulator takes a thread to be in a loop without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmagen.families import plan
from mmagen.plan.steps import expected_steps, step_limit
from mmagen.spec.load import load
from mmagen.spec.model import Problem

SPECS = Path(__file__).resolve().parents[2] / "specs"


@pytest.mark.parametrize("groups", [[[0, 8, 8]], [[8, 0, 8], [0, 8, 8]], [[0, 0, 0]]])
@pytest.mark.parametrize("copied", [False, True])
def test_a_launch_without_a_tile_takes_steps(groups, copied):
    it = plan(load((SPECS / "sm90_gemm_e4m3_pointers.yaml").read_bytes(), "it.yaml").spec)
    none = Problem.model_validate({"shape": [8, 8, 8], "groups": groups})
    one = Problem.model_validate({"shape": [8, 8, 8], "groups": [[8, 8, 8]]})
    assert 1000 <= expected_steps(it, none, 1, copied) <= expected_steps(it, one, 1, copied)
    assert step_limit(it, none, 1, copied) > expected_steps(it, none, 1, copied)
