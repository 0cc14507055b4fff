"""The page of ranked candidates, and the library spec that measures them."""

from __future__ import annotations

import json
import statistics
from functools import cache

import pytest

from mmagen.families import plan as planned
from mmagen.spec.load import load
from tools import ranking

DEVICES = tuple(ranking.MEASURED.values())
SETS = {device: ranking.loaded(ranking.times_of(device).read_text("utf-8")) for device in DEVICES}


@cache
def rows_of(device):
    return {name: ranking.rows(one, device) for name, one in SETS[device].items()}


@pytest.fixture(params=DEVICES, ids=lambda device: device.name)
def device(request):
    return request.param


def test_the_page_and_the_times_are_what_would_be_written(device):
    assert ranking.page(SETS[device], device) == ranking.page_of(device).read_text("utf-8")
    assert ranking.dumped(SETS[device]) == ranking.times_of(device).read_text("utf-8")


def test_the_fastest_is_mostly_among_the_first_three(device):
    held_out = [row for found in rows_of(device).values() for row in found if not row.fitted]
    assert len(held_out) > 60
    assert sum(row.place <= ranking.FIRST for row in held_out) > 0.85 * len(held_out)
    assert sorted(row.lost for row in held_out)[int(0.95 * len(held_out))] < {"h200": 0.05, "h100": 0.08}[device.name]


def test_a_candidate_ahead_of_the_fastest_is_predicted_faster_than_it_is_by_more(device):
    missed = [row for found in rows_of(device).values() for row in found if row.place > ranking.FIRST]
    assert missed
    for row in missed:
        assert len(row.ahead) == row.place - 1 and max(row.ahead) <= row.error in row.errors


def test_predictions_are_near_what_was_measured_of_problems_held_out(device):
    for name, found in rows_of(device).items():
        errors = [abs(error) for row in found if not row.fitted for error in row.errors]
        assert statistics.median(errors) < 0.1, name


def test_a_set_is_a_library_that_tune_measures():
    name, one = next(iter(SETS[DEVICES[0]].items()))
    text = ranking.library(one)
    library = planned(load(text.encode(), name).spec)
    assert [config.name for config in library.configs] == list(one.candidates)
    kernel, problem = next(iter(one.candidates)), "16,16,16"
    record = {"name": f"{kernel}_c1x1", "problem": problem, "disposition": "passed", "ms_median": 0.0123}
    others = [record | {"name": "cublasLt_first"}, record | {"disposition": "incorrect", "problem": "1,1,1"}]
    found = ranking.added(one, map(json.dumps, [record, *others]))
    assert found.us[problem] == {kernel: 12.3} and "1,1,1" not in found.us
