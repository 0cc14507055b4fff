"""tools.emulation_times compares the CPU time of two revisions, alternately, and leaves out what does not pass."""

from __future__ import annotations

import math
from pathlib import Path

from tools.emulation_times import WAYS, passed, table, times, verify_once

TREES = (Path("before"), Path("after"))
ROOT = Path(__file__).parents[2]


def test_the_shorter_of_two_times_counts_and_the_first_run_does_not():
    calls: list[tuple[str, str]] = []

    def run(tree: Path, spec: str, way: str) -> float:
        calls.append((tree.name, way))
        return 20.0 - len(calls)

    found = times(TREES, "some", run)
    assert calls[:2] == [("before", "problems"), ("after", "problems")]
    assert calls[2:6] == [("before", "problems"), ("after", "problems")] * 2
    assert [way for _, way in calls[6:]] == ["same"] * 4 + ["same calls"] * 4
    assert found == {"problems": (15.0, 14.0), "same": (11.0, 10.0), "same calls": (7.0, 6.0)}


def test_the_last_row_is_of_the_sums():
    one = dict.fromkeys(WAYS, (1.0, 2.0))
    two = dict.fromkeys(WAYS, (3.0, 3.0))
    *_, last = table({"one": one, "two": two}).splitlines()
    assert [cell.strip() for cell in last.strip("|").split("|")] == ["all 2", *("4.00", "5.00", "1.25") * 3]


def test_what_did_not_pass_once_is_left_out():
    good = dict.fromkeys(WAYS, (1.0, 2.0))
    assert passed(good)
    assert not passed(good | {"same": (1.0, math.inf)})


def test_a_spec_that_fails_once_in_a_tree_takes_infinitely_long_there():
    seconds = iter([1.0, 1.0, *[math.inf, 2.0, 3.0, 4.0] * 3])
    assert times(TREES, "some", lambda *_: next(seconds)) == dict.fromkeys(WAYS, (math.inf, 2.0))


def test_a_failed_run_counts_as_infinite():
    assert verify_once(ROOT, "there_is_no_such_spec", "problems") == math.inf
