"""Lanes with the same operands are found, adjacent or not."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate.sync.alike import alike


@pytest.mark.parametrize("lanes", [1, 2, 128])
@pytest.mark.parametrize("values", [1, 2, 5])
def test_lanes_are_those_of_a_comparison_one_by_one(lanes, values):
    draw = np.random.default_rng(lanes * values)
    for adjacent in (False, True):
        operands = [draw.integers(-1, values - 1, lanes) for _ in range(3)]
        operands = [np.sort(one) for one in operands] if adjacent else operands
        expected: dict[tuple[int, ...], list[int]] = {}
        for lane, key in enumerate(zip(*(one.tolist() for one in operands), strict=True)):
            expected.setdefault(key, []).append(lane)
        assert [(key, members.tolist()) for key, members in alike(*operands)] == list(expected.items())
