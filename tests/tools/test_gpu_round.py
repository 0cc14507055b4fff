"""A round on a GPU, with commands that stand in for compilers and programs: what begins beside what, and what is cut off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tools.gpu_round import records as kept
from tools.gpu_round.jobs import COMPILE, TESTS, VERIFY, Job, Outcome, of_exit_code
from tools.gpu_round.resources import Cores, Gpus, pools
from tools.gpu_round.schedule import Round

CPU = min(os.sched_getaffinity(0))
ROOT = Path(__file__).resolve().parents[2]


def cores() -> Cores:
    """Processors that stand for as many as a job asks for: this machine may have one."""
    return Cores({COMPILE: frozenset({0, 1}), TESTS: frozenset({2}), VERIFY: frozenset({3})})


@pytest.fixture(autouse=True)
def _any_processor(monkeypatch):
    """The processors of these rounds need not exist."""
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: None)


def job(name: str, code: str = "", kind: str = "work", **facts) -> Job:
    units = facts.pop("units", (name,))
    return Job(name, kind, units, (sys.executable, "-c", code), facts.pop("read", of_exit_code(kind, name)), **facts)


def ran(tmp_path, jobs, gpus=1, seconds=20.0, share=8) -> tuple[dict[str, Outcome], list[kept.Event]]:
    records = kept.Records(tmp_path / "records.jsonl")
    records.round(source="s")
    records.planned(jobs)
    Round(jobs, cores(), Gpus(gpus, share), records, tmp_path / "logs").run(time.monotonic() + seconds)
    records.close()
    events = kept.read(tmp_path / "records.jsonl")
    return {one.unit: one for one in kept.outcomes(events)}, events


def order(events, *kinds: str) -> list[str]:
    return [f"{event['event']} {event['job']}" for event in events if event["event"] in kinds]


def overlap(events, one: str, other: str) -> bool:
    lines = order(events, "begin", "end")
    first, second = sorted((lines.index(f"begin {name}"), lines.index(f"end {name}")) for name in (one, other))
    return first[0] < second[1] and second[0] < first[1]


def gone(pid: int) -> bool:
    """Has the process ended, at the latest in a moment? Nobody may have waited for it."""
    try:
        process = psutil.Process(pid)
        for _ in range(40):
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
            time.sleep(0.05)
        return False
    except psutil.NoSuchProcess:
        return True


def test_exit_codes_become_outcomes(tmp_path):
    codes = {"right": 0, "wrong": 1, "elsewhere": 77, "broken": 3}
    found, _ = ran(tmp_path, [job(name, f"print('why'); raise SystemExit({code})") for name, code in codes.items()])
    words = {name: one.word for name, one in found.items()}
    assert words == {"right": "passed", "wrong": "wrong", "elsewhere": "skipped", "broken": "failed"}
    assert found["broken"].reason == "why" and found["right"].reason == ""


def test_what_the_time_cuts_off_never_passes(tmp_path):
    ready = tmp_path / "ready"
    slow = f"import pathlib, time; pathlib.Path({str(ready)!r}).touch(); time.sleep(60)"
    found, _ = ran(tmp_path, [job("slow", slow, cores=4), job("later", cores=4)], seconds=2.0)
    assert ready.exists()
    assert {name: one.word for name, one in found.items()} == {"slow": "cut_off", "later": "not_run"}


def test_jobs_that_do_not_heed_the_end_are_killed_together(tmp_path):
    deaf = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGTERM)]; time.sleep(60)"
    began = time.monotonic()
    found, _ = ran(tmp_path, [job(f"deaf{i}", deaf) for i in range(4)], seconds=2.0)
    assert {one.word for one in found.values()} == {"cut_off"} and time.monotonic() - began < 2.0 + 4.0 + 4.0


@pytest.mark.parametrize("ignored", ["SIG_DFL", "SIG_IGN"])
def test_what_a_job_has_started_in_sessions_of_its_own_ends_with_it(tmp_path, ignored):
    """As compilers and programs that a test starts through mmagen."""
    inner = f"import os, pathlib, time; pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid())); time.sleep(60)"
    outer = f"import signal, subprocess, sys; signal.signal(signal.SIGINT, signal.{ignored}); "
    outer += f"subprocess.run([sys.executable, '-c', {inner!r}], start_new_session=True)"
    found, _ = ran(tmp_path, [job("outer", outer)], seconds=3.0)
    assert found["outer"].word == "cut_off"
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_job_has_a_limit_of_its_own(tmp_path):
    began = time.monotonic()
    found, _ = ran(tmp_path, [job("endless", "import time; time.sleep(60)", limit_s=0.5), job("next")])
    assert found["endless"].word == "failed" and "within 0.5 s" in found["endless"].reason
    assert found["next"].word == "passed" and time.monotonic() - began < 15


def test_a_spec_is_verified_after_it_was_compiled_and_not_if_that_failed(tmp_path):
    def compiled(ended):
        return [Outcome("specs", "b", "failed", "does not compile")]

    jobs = [
        job("compile", kind=COMPILE, units=(), read=compiled, cores=2, pools=(COMPILE,), gpus=0),
        job("a", kind="specs", after="compile"),
        job("b", kind="specs", after="compile"),
    ]
    found, events = ran(tmp_path, jobs)
    assert order(events, "begin", "end") == ["begin compile", "end compile", "begin a", "end a"]
    assert (found["a"].word, found["b"]) == ("passed", Outcome("specs", "b", "failed", "does not compile"))


def test_processors_that_compile_are_not_given_to_others_meanwhile(tmp_path):
    pause = "import time; time.sleep(0.4)"
    compile_ = [job(f"c{i}", pause, kind=COMPILE, cores=2, pools=(COMPILE,), gpus=0) for i in range(2)]
    tests = [job(f"t{i}", pause, pools=(TESTS, COMPILE)) for i in range(3)]
    _, events = ran(tmp_path, [*compile_, *tests])
    cpus = {event["job"]: event["cpus"] for event in events if event["event"] == "begin"}
    assert cpus["c0"] == cpus["c1"] == [0, 1] and cpus["t0"] == [2]
    assert overlap(events, "c0", "t0"), "a test begins at once on the processors kept for tests"
    assert not any(overlap(events, "c0", f"t{i}") for i in (1, 2)), "no other, since it would take one from those that compile"


def test_what_measures_has_the_only_gpu_for_itself(tmp_path):
    pause = "import time; time.sleep(0.3)"
    jobs = [job("bench", pause, alone=True), *(job(f"v{i}", pause, brief=True) for i in range(3)), job("long", pause)]
    found, events = ran(tmp_path, jobs)
    assert not any(overlap(events, "bench", name) for name in ("v0", "v1", "v2", "long"))
    assert overlap(events, "v0", "v1") and all(one.word == "passed" for one in found.values())


def test_a_long_job_does_not_keep_the_only_gpu_from_what_measures(tmp_path):
    first = job("compile", "import time; time.sleep(0.5)", kind=COMPILE, cores=1, pools=(COMPILE,), gpus=0)
    bench = job("bench", alone=True, after="compile")
    _, events = ran(tmp_path, [first, bench, job("tests", pools=(TESTS,))])
    assert order(events, "begin", "end")[2:] == ["begin bench", "end bench", "begin tests", "end tests"]


def test_brief_jobs_do_not_overtake_what_measures_for_ever(tmp_path):
    first = job("compile", "import time; time.sleep(0.1)", kind=COMPILE, cores=1, pools=(COMPILE,), gpus=0)
    pause = "import time; time.sleep({})"
    brief = [job(f"v{i}", pause.format(0.3 + 0.2 * (i % 2)), brief=True, pools=(TESTS, VERIFY)) for i in range(8)]
    _, events = ran(tmp_path, [first, job("bench", alone=True, after="compile"), *brief])
    lines = order(events, "begin")
    assert lines.index("begin bench") < lines.index("begin v3"), lines


def test_of_two_gpus_one_is_kept_for_what_measures_until_nothing_is_left_to_measure(tmp_path):
    pause = "import os, time; time.sleep(0.3); print(os.environ['CUDA_VISIBLE_DEVICES']); raise SystemExit(1)"
    jobs = [job("b0", pause, alone=True), job("b1", pause, alone=True), *(job(f"v{i}", pause) for i in range(3))]
    found, events = ran(tmp_path, jobs, gpus=2, share=1)
    seen = {name: one.reason for name, one in found.items()}
    assert seen["b0"] == seen["b1"] == "1" and seen["v0"] == "0" and seen["v2"] in "01"
    assert not overlap(events, "b0", "b1") and overlap(events, "b0", "v0")


def test_a_gpu_is_shared_by_so_many_and_no_more():
    gpus = Gpus(2, 2)
    assert [gpus.take(1, False, False) for _ in range(5)] == [(0,), (1,), (0,), (1,), ()]
    gpus.give((1,))
    assert gpus.take(2, False, False) == (), "a job of two GPUs needs both"
    assert gpus.take(1, True, False) == (), "neither is free"
    gpus.give((1,))
    assert gpus.take(1, True, False) == (1,) and gpus.take(1, False, False) == ()
    assert Gpus(1, 8).take(2, False, False) == (0,), "the only one stands for both"


def test_the_pools_of_a_machine():
    found = pools(range(16), 4)
    assert {name: sorted(cpus) for name, cpus in found.items()} == {
        COMPILE: [*range(12)],
        TESTS: [12, 13],
        VERIFY: [14, 15],
    }
    assert set(pools(range(2), 4).values()) == {frozenset({0, 1})}
    shared = Cores(pools(range(2), 4))
    assert shared.take(2, (COMPILE,)) == (0, 1) and shared.take(1, (VERIFY, TESTS)) == ()


def test_a_job_runs_on_its_processors(tmp_path, monkeypatch):
    monkeypatch.undo()
    records = kept.Records(tmp_path / "records.jsonl")
    records.round(source="s")
    before = os.sched_getaffinity(0)
    code = f"import os; raise SystemExit(os.sched_getaffinity(0) != {{{CPU}}})"
    own = Cores(dict.fromkeys((COMPILE, TESTS, VERIFY), frozenset({CPU})))
    Round([job("pinned", code)], own, Gpus(1, 1), records, tmp_path / "logs").run(time.monotonic() + 20)
    assert [one.word for one in kept.outcomes(kept.read(tmp_path / "records.jsonl"))] == ["passed"]
    assert os.sched_getaffinity(0) == before


def test_records_that_cannot_be_read_fail_their_job_alone(tmp_path):
    def broken(ended):
        raise KeyError("disposition")

    found, _ = ran(tmp_path, [job("bad", read=broken), job("good")])
    assert found["bad"].word == "failed" and "KeyError" in found["bad"].reason and found["good"].word == "passed"


def test_a_round_that_is_terminated_leaves_no_child_and_says_what_was_cut_off(tmp_path):
    marker = tmp_path / "pid"
    code = f"import os, pathlib, time; pathlib.Path({str(marker)!r}).write_text(str(os.getpid())); time.sleep(600)"
    script = tmp_path / "sleep.py"
    script.write_text(code)
    command = [sys.executable, "-m", "tools.gpu_round", "--on", "cpu", "--seconds", "100", "--out", str(tmp_path / "out")]
    command += ["--specs", "--tests", "--alone", f"{sys.executable} {script}"]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            if marker.exists() and marker.read_text():
                break
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 4 and "cut off" in out
    assert gone(int(marker.read_text()))
    assert "1" in (tmp_path / "out/summary.md").read_text()


def test_the_page_names_what_passed():
    found = [
        Outcome("specs", "b", "passed", ""),
        Outcome("specs", "a", "passed", ""),
        Outcome("specs", "c", "wrong", "two elements"),
        *(Outcome("tests", f"tests/gpu/test_x.py::test_{i}", "passed", "") for i in range(3)),
    ]
    page = kept.summary({"event": "round", "gpus": ["NVIDIA X"]}, found)
    head, _, names = page.partition("## Passed: specs")
    assert "- gpus: ['NVIDIA X']" in head and "two elements" in head
    assert names.split() == ["a,", "b", "##", "Passed:", "tests", "tests/gpu/test_x.py", "(3)"]
