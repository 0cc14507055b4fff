"""A program that crashes or hangs costs the kernel that is to blame, and nothing else."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from mmagen.tuning.measure import BASELINES, Machine, Session, Settings, run

KERNELS = ("a", "b", "c")
PROBLEMS = ("64,64,64", "128,64,64", "256,64,64")


@pytest.fixture
def program(tmp_path) -> Path:
    path = tmp_path / "tune"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("stand_in.py")} "$@"\n')
    path.chmod(0o755)
    return path


def measured(program: Path, silence_s: float = 30.0, until: float | None = None, **faults) -> Session:
    env = {"FAULTS": json.dumps(faults)}
    return run(program, KERNELS, PROBLEMS, Settings(silence_s=silence_s), env=env, until=until)


def counted(session: Session) -> Counter:
    return Counter((record["name"], record["disposition"]) for record in session.records)


def test_all_kernels_are_measured_on_all_problems(program):
    session = measured(program)
    names = (*KERNELS, *BASELINES)
    assert counted(session) == {(name, "passed"): 3 for name in names}
    assert session.machine == Machine(132, {1: 132, 2: 66, 4: 30})
    assert session.chosen == dict.fromkeys(PROBLEMS, "a") and not session.lost and not session.skipped


def test_a_kernel_that_crashes_is_left_out(program):
    session = measured(program, crash=["b"])
    assert counted(session)["b", "failed"] == 1 and counted(session)["a", "passed"] == counted(session)["c", "passed"] == 3
    assert session.lost == {"b": "verify of 64,64,64: an illegal memory access was encountered"}


def test_a_kernel_that_hangs_is_stopped(program):
    began = time.monotonic()
    session = measured(program, silence_s=3.0, hang=["c"])  # in which the others have to say something
    assert time.monotonic() - began < 60
    assert session.lost == {"c": "verify of 64,64,64: it said nothing for 3 s and was stopped"}
    assert counted(session)["a", "passed"] == 3


def test_a_wrong_kernel_has_no_time(program):
    session = measured(program, wrong=["a"])
    assert {record["ms_median"] for record in session.records if record["name"] == "a"} == {None}
    assert counted(session)["a", "incorrect"] == 3


def test_a_problem_that_does_not_fit_is_skipped_by_name(program):
    session = measured(program, memory=["128,64,64"])
    assert session.skipped == {"128,64,64": "cudaMalloc of 99 bytes: out of memory"}
    assert counted(session)["a", "passed"] == 2


def test_no_problem_begins_after_the_time_is_up(program):
    assert not measured(program, until=time.monotonic()).records


def test_a_program_that_does_nothing_says_why(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no device >&2\nexit 77\n")
    broken.chmod(0o755)
    session = run(broken, KERNELS, PROBLEMS, Settings())
    assert session.message == "no device" and not session.records


def test_resident_ctas_follow_from_clusters():
    machine = Machine(132, {1: 132, 2: 66, 4: 30})
    assert [machine.ctas(group, 1) for group in (1, 2, 4, 8)] == [132, 132, 120, 128]
    assert machine.ctas(1, 2) == 264
