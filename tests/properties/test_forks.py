"""The runner: what one spec does to its process does not stop the others, and the figures count it."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from mmagen.core.errors import UsageError
from mmagen.plan.project import ProjectPlan
from tests.properties import summary
from tests.properties.draw import Drawn
from tests.properties.forks import verify_each
from tests.properties.planned import Record, TimeLimit, limited, record
from tests.properties.verified import Accepted

RIGHT, RAISES, DIES, HANGS, REFUSES = range(5)
OUTCOMES = {RIGHT: "right", RAISES: "crash", DIES: "crash", HANGS: "hang", REFUSES: "wrong"}


def _verify(work: Sequence[Accepted]) -> Iterator[Record]:
    """Does what the number of each spec says."""
    for one in work:
        kind = one.spec.index % 5
        if kind == RAISES:
            raise IndexError("list index out of range")
        if kind == DIES:
            os._exit(3)
        if kind == REFUSES:
            raise UsageError("not a problem")
        while kind == HANGS:
            time.sleep(0.01)
        yield record(one.spec.name, "right", stage="run", seconds=0.5)


def _specs(*kinds: int) -> list[Accepted]:
    return [Accepted(Drawn(1, kind + 5 * i), cast(ProjectPlan, None)) for i, kind in enumerate(kinds)]


@pytest.mark.parametrize("kind", OUTCOMES)
def test_each_end_of_a_process_is_an_outcome(kind):
    (one,) = verify_each([_specs(kind)], _verify, at_once=1, limit_s=0.3)
    assert (one["name"], one["outcome"]) == (Drawn(1, kind).name, OUTCOMES[kind])
    assert one["what"] or kind == RIGHT


def test_the_others_of_a_batch_are_verified_again():
    work = _specs(RIGHT, DIES, RIGHT, RAISES, RIGHT)
    found = {one["name"]: one["outcome"] for one in verify_each([work[:3], work[3:]], _verify, at_once=2, limit_s=5)}
    assert found == {one.spec.name: OUTCOMES[one.spec.index % 5] for one in work}


def test_processes_end_with_the_generator():
    records = verify_each([_specs(RIGHT), _specs(HANGS)], _verify, at_once=2, limit_s=60)
    assert next(records)["outcome"] == "right"
    assert multiprocessing.active_children()
    records.close()
    assert not multiprocessing.active_children()


def test_the_figures_count_what_was_accepted_and_what_failed():
    records = [
        record("a", "right", stage="run", seconds=2.0),
        record("b", "wrong", "17x33x65: 3 elements", stage="run", seconds=4.0),
        record("c", "not_compiled", "static assertion", stage="compile"),
        record("d", "crash", "KeyError", stage="plan"),
        record("e", "refused", "stages", stage="plan", mended=True),
        record("f", "refused_unmended", "tile", stage="plan", mended=False),
        record("g", "not_run", "newer", stage="run"),
    ]
    rows = dict(line.rsplit(maxsplit=1) for line in summary.table(records).splitlines()[:-1])
    figures = {key.strip(): int(value) for key, value in rows.items()}
    assert figures == {
        "specs": 7,
        "accepted": 4,
        "compiled": 3,
        "right": 1,
        "wrong": 1,
        "not_compiled": 1,
        "crash": 1,
        "hang": 0,
        "not_run": 1,
        "refused": 2,
        "refusals mended by their own remedy": 1,
    }
    assert summary.table(records).endswith("mean 3.0, most 4.0")
    assert summary.failures(records).splitlines() == [
        "d  crash  KeyError",
        "c  not_compiled  static assertion",
        "b  wrong  17x33x65: 3 elements",
    ]


def test_a_limit_of_processor_time_does_not_count_what_others_take():
    with limited(0.2, of_processor=True):
        time.sleep(0.4)
    with pytest.raises(TimeLimit), limited(0.2, of_processor=True):
        while True:
            pass
    with pytest.raises(TimeLimit), limited(0.2):
        time.sleep(60)
