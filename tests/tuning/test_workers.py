"""Measurements by several processes: none is lost or doubled, whatever happens to a worker. The GPUs are a stand-in."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from mmagen.toolchain.model import Gpu
from mmagen.tuning.measure import BASELINES, Settings
from mmagen.tuning.workers import Workers, _measured, at_once, visible

pytest.importorskip("distributed")

KERNELS = ("a", "b")
PROBLEMS = tuple(f"{64 * i},64,64" for i in range(1, 25))


def one_gpu() -> tuple[Gpu, ...]:
    return (Gpu("NVIDIA Stand-in", (9, 0), "1.0"),)


@pytest.fixture
def program(tmp_path) -> Path:
    path = tmp_path / "tune"
    stand_in = Path(__file__).with_name("stand_in.py")
    path.write_text(f'#!/bin/sh\nPAUSE=0.1 STARTS={tmp_path}/starts exec {sys.executable} {stand_in} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def workers():
    made = Workers("", 2, one_gpu)
    yield made
    made.close()


def counted(records) -> Counter:
    return Counter((record["name"], record["problem"]) for record in records)


def test_a_worker_killed_in_the_middle_loses_nothing(program, workers):
    assert workers.gpus() == one_gpu() * 2
    pids = workers.processes()
    seen: list[dict[str, object]] = []

    def kill() -> None:
        while len(seen) < 12:
            time.sleep(0.02)
        os.kill(next(iter(pids.values())), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    session = workers(program, KERNELS, PROBLEMS, Settings(), seen.append, None)
    killer.join()
    wanted = {(name, problem): 1 for name in (*KERNELS, *BASELINES) for problem in PROBLEMS}
    assert counted(session.records) == counted(seen) == wanted
    assert not session.skipped and session.machine is not None


def test_the_program_of_a_worker_runs_on_from_one_task_to_the_next(program, workers, tmp_path):
    for _ in range(2):
        session = workers(program, KERNELS, PROBLEMS, Settings(), lambda _: None, None)
        assert len(counted(session.records)) == len(PROBLEMS) * 4
    starts = [int(line) for line in (tmp_path / "starts").read_text().split()]
    assert len(starts) == 4, "one for each worker and each call, of eight tasks and more"
    assert not any(Path(f"/proc/{pid}").exists() for pid in starts), "a call leaves none behind"


def test_tasks_become_smaller_towards_the_end():
    assert [at_once(left, 2) for left in (400, 100, 40, 12, 3)] == [16, 16, 10, 3, 1]
    assert at_once(5, 0) == 2, "no worker is left"


def test_a_worker_takes_one_of_the_gpus_that_programs_see(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [visible(place) for place in range(3)] == ["0", "1", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-3f2a")
    assert [visible(place) for place in range(2)] == ["5", "GPU-3f2a"]


def test_no_problem_begins_after_the_deadline(program):
    def measured(deadline: float | None) -> set[object]:
        session = _measured(program.read_bytes(), KERNELS, PROBLEMS[:3], Settings(), one_gpu, "", False, deadline)
        assert session is not None and not session.skipped and not session.lost
        return {record["problem"] for record in session.records}

    assert measured(time.time() - 1) == set()
    assert measured(time.time() + 600) == measured(None) == set(PROBLEMS[:3])
