"""What a selection is judged by: the mean, the low end, and how much each problem counts. On measurements that are made up."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from mmagen.plan.cost import Call
from mmagen.spec.model import Problem
from mmagen.tuning.objective import ENOUGH, LOW, LOW_WEIGHT, Ratios, loss
from mmagen.tuning.problems import random_problems
from mmagen.tuning.select import select
from mmagen.tuning.weights import as_random, least_us

SIZES = (2.0, 2.0, 2.0)


def even(count: int) -> np.ndarray:
    return np.ones(count)


def test_the_loss_is_the_mean_and_the_part_of_the_lowest_fifth_below_enough():
    times, rival = np.array([0.0, 0.1, 0.2, 0.3, 0.4]), np.array([9.0, 9.0, 9.0, 0.1, 0.2])
    assert loss(times, rival, even(5)) == pytest.approx(0.2 + LOW_WEIGHT * (0.2 + ENOUGH))
    assert loss(times, np.full(5, np.inf), even(5)) == pytest.approx(0.2), "nothing is lost to a rival that was not measured"
    # Of the second lowest problem half as much is among the lowest fifth if the lowest weighs half as much.
    weights = np.array([2.0, 2.0, 2.0, 2.0, 1.0])
    mean = (2 * 0.6 + 0.4) / 9
    low = (0.2 + ENOUGH) * (1 / 9 + (LOW - 1 / 9)) / LOW
    assert loss(times, rival, weights) == pytest.approx(mean + LOW_WEIGHT * low)


def test_ratios_are_weighted():
    of = Ratios([0.5, 1.0, 1.0, 2.0], [1, 1, 1, 1])
    assert of.mean == pytest.approx(1.0) and of.low == 0.5
    assert Ratios([0.5, 1.0, 2.0], [0.04, 1, 1]).low == 1.0, "below the 5th percentile by weight"
    assert Ratios([0.5, 2.0], [1, 3]).mean == pytest.approx(2**0.5)
    assert of.text == "1.000 (5th percentile 0.500, lowest 0.500, 4 problems)"


def test_one_bad_problem_of_ten_decides_between_libraries_of_nearly_the_same_mean():
    rival = dict.fromkeys(range(10), 1.0)
    times = {
        "fast": {i: 0.80 if i else 1.35 for i in range(10)},  # the mean is 0.7 % better
        "even": {i: 0.85 if i else 0.87 for i in range(10)},
    }
    assert select(times, 1) == ["fast"]
    assert select(times, 1, baseline=rival) == ["even"]
    assert select(times, 1, baseline=rival, weights={i: 1.0 if i else 0.05 for i in range(10)}) == ["fast"]


def test_problems_count_by_their_weights():
    times = {"short": {1: 1.0, 2: 1.2, 3: 1.2}, "long": {1: 1.3, 2: 1.0, 3: 1.0}}
    assert select(times, 1) == ["long"]
    assert select(times, 1, weights={1: 2.0, 2: 0.5, 3: 0.5}) == ["short"]


def test_exchanges_that_begin_with_the_present_set_are_never_worse():
    """Exchanges of one kernel do not find every best set from the greedy one."""
    dice = random.Random(1)
    better = 0
    for _ in range(60):
        times = {f"k{i}": {j: math.exp(dice.gauss(0, 0.4)) for j in range(12)} for i in range(9)}
        every = {name: {j: min(times[name][j] for name in times) for j in range(12)} for name in times}

        def of(names: list[str], times=times, every=every) -> float:
            return sum(math.log(min(times[name][j] for name in names) / every[names[0]][j]) for j in range(12))

        known = ["k1", "k2", "k3"]
        plain, with_known = select(times, 3), select(times, 3, known=known)
        assert of(with_known) <= min(of(plain), of(known)) + 1e-2  # names that add next to nothing are left out
        better += of(with_known) < of(plain) - 1e-9
    assert better


def calls(problems: list[Problem]) -> list[Call]:
    return [Call(p.m, p.n, p.k, 1, (2 * p.k, 2 * p.k, 2 * p.n)) for p in problems]


def share(some: list[Call], weights, holds) -> float:
    return sum(weights[call] for call in some if holds(call)) / sum(weights.values())


def test_weights_give_short_and_unaligned_problems_their_share_of_random_ones():
    drawn = calls([p for p in random_problems(9, 2000) if p.k % 8 == 0])
    # As the 227 problems were drawn: mainly long ones, with rows of whole lines.
    long = [call for call in drawn if least_us(call, SIZES) > 15 and call.k % 64 == 0]
    short = [call for call in drawn if least_us(call, SIZES) <= 15 or call.k % 64]
    some = long[:150] + short[:77]
    found = as_random(some, drawn, SIZES)
    even_weights = dict.fromkeys(some, 1.0)
    for name, holds in (
        ("short", lambda call: least_us(call, SIZES) < 5),
        ("long", lambda call: least_us(call, SIZES) > 60),
        ("few", lambda call: min(call.m, call.n) <= 64),
        ("whole lines", lambda call: call.pitches[0] % 128 == 0),
        ("odd D", lambda call: call.pitches[2] % 16 != 0),
    ):
        wanted = sum(map(holds, drawn)) / len(drawn)
        assert abs(share(some, found.of, holds) - wanted) < 0.03, name
        assert name in ("odd D",) or abs(share(some, even_weights, holds) - wanted) > 0.03, name
    assert sum(found.of.values()) == pytest.approx(len(some)) and max(found.of.values()) <= 6
    assert not found.missing


def test_copied_problems_have_the_weight_of_copied_random_ones():
    drawn = calls(random_problems(9, 2000))
    copied = {call for call in drawn if call.k % 8}
    some = [call for call in drawn if call not in copied][:100] + [*copied][:10]
    share_of = len(copied) / len(drawn)
    assert (
        abs(share(some, as_random(some, drawn, SIZES, copied).of, copied.__contains__) - share_of) < 0.03 < share_of - 10 / 110
    )
    missing = as_random(some[:100], drawn, SIZES, copied).missing
    assert any("of random problems have operands that are copied, and none of these was measured" in one for one in missing)


def test_kinds_of_problems_that_were_not_measured_are_named():
    drawn = calls([p for p in random_problems(9, 800) if p.k % 8 == 0])
    long = [call for call in drawn if least_us(call, SIZES) > 5 and call.pitches[2] % 16 == 0]
    found = as_random(long, drawn, SIZES)
    assert any(
        "take below 5 us with at most 64 rows or columns, and none of these was measured" in one for one in found.missing
    )
    assert any("have a pitch of D that is no multiple of 16 bytes, and none" in one for one in found.missing)
    assert as_random(drawn, drawn, SIZES).missing == ()
    assert all(value == pytest.approx(1.0) for value in as_random(drawn, drawn, SIZES).of.values())
