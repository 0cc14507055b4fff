"""A generated stream-K GEMM executed on the CPU, whole and with a part of its handshake removed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mmagen.spec.model import Problem
from mmagen.verify.emulated.session import run_task
from mmagen.verify.emulated.task import Task

pytestmark = pytest.mark.nvcc

SPEC = "c2_stream"
# The flag is read with acquire in a loop, and set back behind it.
RESET = re.compile(r"(ld\.acquire\.gpu\.global\.u64(?:(?!ld\.acquire).)*?)(st\.global\.u64\s+\[%rd\d+\], [^;]+;)", re.S)


@pytest.fixture(scope="module")
def task(compiled):
    made = compiled(SPEC)
    return Task(made.plan, made.ptx, Problem(shape=(64, 64, 1536)), "small_int", 1)


def test_it_is_right(task):
    (record,) = run_task(task).records
    assert (record["disposition"], record["reason"]) == ("passed", None)


def test_flags_that_are_not_set_back_are_no_deadlock(task):
    """The thread that waits reads one flag after another, all of which have been set: the first call ends. In the second
    one it does not wait for the partial sums any more."""
    text, count = RESET.subn(r"\1", task.ptx.text)
    assert count == 1
    broken = replace(task, ptx=replace(task.ptx, units={**task.ptx.units, task.ptx.name: text}))
    (record,) = run_task(broken).records
    assert record["disposition"] == "failed"
    assert {finding["kind"] for finding in record["details"]["findings"]} == {"global_race"}
