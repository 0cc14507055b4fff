"""What a round's records come to, and what jobs are made of specs and tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mmagen.families.reading import read
from tools.gpu_round import __main__ as command
from tools.gpu_round import records as kept
from tools.gpu_round import specs, suites
from tools.gpu_round.jobs import COMPILE, Ended, Outcome

ROOT = Path(__file__).resolve().parents[2]
DONE = Ended(0, 1.0)
CUT = Ended(None, 1.0, "the round ended while it ran", "cut_off")


def events(*lines: dict) -> list[kept.Event]:
    return [{"event": "round", "source": "s"}, *lines]


def outcome(unit: str, word: str, job: str = "j", kind: str = "specs") -> dict:
    return {"event": "outcome", "job": job, "kind": kind, "unit": unit, "word": word, "reason": "", "left_out": 0}


def plan(job: str, *units: str) -> dict:
    return {"event": "plan", "job": job, "kind": "specs", "units": list(units)}


def test_what_was_planned_and_has_no_outcome_was_not_run():
    said = events(
        plan("j", "a"), plan("k", "b"), plan("l", "c"), {"event": "begin", "job": "j"}, {"event": "begin", "job": "k"}
    )
    said += [outcome("a", "passed"), {"event": "end", "job": "j"}]
    assert {one.unit: one.word for one in kept.outcomes(said)} == {"a": "passed", "b": "cut_off", "c": "not_run"}


def test_a_job_that_was_killed_among_its_outcomes_leaves_the_rest_cut_off():
    said = events(plan("j", "a", "b"), {"event": "begin", "job": "j"}, outcome("a", "passed"))
    assert {one.unit: one.word for one in kept.outcomes(said)} == {"a": "passed", "b": "cut_off"}


def test_the_last_round_counts_and_what_passed_before_with_the_same_sources():
    first = events(plan("j", "a", "c"), outcome("a", "wrong"), outcome("c", "passed"), {"event": "end", "job": "j"})
    second = events(plan("j", "b"), outcome("b", "passed"), {"event": "end", "job": "j"})
    words = {one.unit: one.word for one in kept.outcomes([*first, *second])}
    assert words == {"b": "passed", "c": "passed"}
    second[0]["source"] = "t"
    assert {one.unit: one.word for one in kept.outcomes([*first, *second])} == {"b": "passed"}
    assert kept.outcomes([]) == [] and "nothing" in kept.table([])


def test_what_passed_is_known_for_the_same_sources_alone():
    said = [*events(outcome("a", "passed"), outcome("b", "passed")), *events(outcome("b", "wrong"))]
    assert set(kept.passed(said, "s")) == {("specs", "a")}
    assert not kept.passed(said, "t")


def test_a_line_that_was_cut_is_left_out_and_the_next_round_begins_a_new_one(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text('{"event": "round", "source": "s"}\n{"event": "outco')
    records = kept.Records(path)
    records.round(source="t")
    records.close()
    assert [event["source"] for event in kept.read(path)] == ["s", "t"]


def test_the_table_names_what_did_not_pass_and_ends_with_the_counts():
    found = [
        Outcome("specs", "a", "passed", left_out=2),
        Outcome("specs", "b", "wrong", "7 of 9"),
        Outcome("tests", "t", "not_run"),
    ]
    text = kept.table(found)
    assert "wrong:\n  specs: b: 7 of 9" in text and "not run:\n  tests: t" in text
    assert text.splitlines()[-1].split() == ["all", "1", "0", "1", "0", "0", "1", "2"]
    assert text.index("not run:") < text.index("wrong:"), (
        "the worst is nearest to the table, which a log cut at its start keeps"
    )


def test_no_limit_leaves_a_spec_without_a_problem():
    def of(name):
        path = ROOT / f"specs/{name}.yaml"
        return read(path.read_bytes(), str(path))[0]

    for name in ("sm80_gemm_sparse_f16", "sm90_gemm_sparse_bf16"):
        plan = of(name)
        assert min(max(problem.shape) for problem in plan.problems) > 1100
        assert specs.limit(plan, 1100) == min(max(problem.shape) for problem in plan.problems)
        assert specs.limit(plan, 0) == 0
    assert specs.limit(of("sm80_gemm_classic"), 1100) == 1100
    assert specs.limit(of("hello_peak"), 1100) == 1100, "without problems"


@pytest.fixture(scope="module")
def asked():
    found, refused = specs.asked([ROOT / "specs"], 1100)
    assert not refused
    return found


def test_what_takes_longest_is_compiled_first(asked, tmp_path):
    assert asked[0].name.endswith("_library") and asked[-1].cost < asked[0].cost
    jobs, of = specs.compiling(asked, tmp_path, 4)
    assert {one.path for one in asked} == set(of)
    assert "_library" in jobs[0].name and jobs[0].name.count(",") == 0 < max(job.name.count(",") for job in jobs)
    assert all(job.kind == COMPILE and job.gpus == 0 and "--compile-only" in job.command for job in jobs)
    verify = specs.verifying(asked, tmp_path, of)
    assert all(job.after in {one.name for one in jobs} for job in verify)


def test_a_spec_that_is_refused_fails(tmp_path):
    (tmp_path / "bad.yaml").write_text("mmagen: 1\nname: bad\nkernel: gemm\natom: NO_SUCH\n")
    found, refused = specs.asked([tmp_path], 0)
    assert not found and [(one.unit, one.word) for one in refused] == [("bad", "failed")]


def record(disposition: str, name: str = "a", **facts) -> dict:
    return {"name": name, "disposition": disposition, "problem": "1,1,1", "input_dist": "uniform", "reason": "why"} | facts


def verified(tmp_path, ended: Ended, *lines: dict) -> Outcome:
    report = tmp_path / "r.jsonl"
    report.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"cut')
    (found,) = specs._verified("specs", "a", report)(ended)
    return found


def test_reports_of_verify_become_outcomes(tmp_path):
    passed = record("passed")
    assert verified(tmp_path, DONE, passed, record("skipped")) == Outcome("specs", "a", "passed", left_out=1)
    assert verified(tmp_path, DONE, record("passed (emulated)")).word == "passed"
    assert verified(tmp_path, Ended(1, 1.0), passed, record("incorrect")).word == "wrong"
    assert verified(tmp_path, Ended(4, 1.0), passed, record("failed")).reason == "1,1,1 uniform: why"
    assert verified(tmp_path, Ended(77, 1.0), record("not_run")) == Outcome("specs", "a", "skipped", "why")
    assert verified(tmp_path, CUT, passed).word == "cut_off"
    assert verified(tmp_path, CUT, record("incorrect")).word == "wrong", "what was seen before the end counts"
    assert verified(tmp_path, Ended(4, 1.0, log="no problem"), record("skipped")).word == "failed"
    assert verified(tmp_path, DONE, record("skipped")).word == "failed", "nothing ran, so nothing passed"


def test_a_spec_that_does_not_compile_is_named_and_the_others_wait_for_their_verdict(tmp_path):
    chunk = [specs.Asked("specs", name, Path(name), 0, 1.0) for name in ("a", "b")]
    report = tmp_path / "r.jsonl"
    report.write_text("\n".join(map(json.dumps, (record("failed"), record("not_run", "b")))))
    assert specs._compiled(chunk, report)(Ended(3, 1.0)) == [Outcome("specs", "a", "failed", "why")]
    assert [one.word for one in specs._compiled(chunk, tmp_path / "none")(Ended(3, 1.0, log="boom"))] == ["failed"] * 2
    assert specs._compiled(chunk, report)(CUT) == []


_TESTS = """
import pytest, time

@pytest.mark.parametrize("number", range(4))
def test_number(number):
    if number == 3:
        pytest.skip("not here")
    assert number != 2, "two is wrong"

def test_late():
    pass
"""


def pytest_run(tmp_path, index: str, passed: str = "", text: str = _TESTS) -> tuple[Path, int]:
    (tmp_path / "test_it.py").write_text(text)
    (tmp_path / "passed").write_text(passed)
    report = tmp_path / f"report{index[0]}"
    options = ["-p", "tools.gpu_round.reported", "--round-report", report, "--round-shard", index]
    options += ["--round-passed", tmp_path / "passed", "-p", "no:cacheprovider", "--rootdir", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *map(str, options), tmp_path / "test_it.py"],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
    )
    return report, done.returncode


def test_tests_become_outcomes_by_name_and_shards_divide_them(tmp_path):
    one, two = (pytest_run(tmp_path, index) for index in ("1/2", "2/2"))
    found = {
        one.unit.split("::")[1]: one for report, code in (one, two) for one in suites._tested("shard", report)(Ended(code, 1.0))
    }
    words = {name: one.word for name, one in found.items()}
    assert words == {
        "test_number[0]": "passed",
        "test_number[1]": "passed",
        "test_number[2]": "failed",
        "test_number[3]": "skipped",
        "test_late": "passed",
    }
    assert "two is wrong" in found["test_number[2]"].reason and found["test_number[3]"].reason == "not here"


def test_tests_that_passed_before_are_left_out_and_those_that_were_not_reached_are_cut_off(tmp_path):
    report, code = pytest_run(tmp_path, "1/1", passed="test_it.py::test_late\ntest_it.py::test_number[0]\n")
    lines = report.read_text().splitlines()
    assert len(json.loads(lines[0])["collected"]) == 3 and code == 1
    report.write_text("\n".join([*lines[:2], lines[2][:9]]))
    words = [one.word for one in suites._tested("shard", report)(CUT)]
    assert words == ["passed", "cut_off", "cut_off"]
    everything = "".join(f"test_it.py::test_number[{i}]\n" for i in range(4)) + "test_it.py::test_late\n"
    report.unlink()
    report, code = pytest_run(tmp_path, "1/1", passed=everything)
    assert suites._tested("shard", report)(Ended(code, 1.0)) == []
    assert suites._tested("shard", tmp_path / "none")(CUT) == [Outcome("tests", "shard", "cut_off", CUT.reason)]
    assert suites._tested("shard", tmp_path / "none")(Ended(2, 1.0, log="error"))[0].word == "failed"


def test_a_module_that_skips_itself_is_skipped_and_one_that_breaks_fails(tmp_path):
    for text, word in (('import pytest\npytest.skip("no two GPUs", allow_module_level=True)', "skipped"), ("1 / 0", "failed")):
        report, code = pytest_run(tmp_path, "1/1", text=text)
        assert [one.word for one in suites._tested("shard", report)(Ended(code, 1.0))] == [word]
        report.unlink()


def test_random_specs_become_outcomes(tmp_path):
    out = tmp_path / "r.jsonl"
    job = suites.random_specs(7, 3, out)
    words = {"s7_1": "right", "s7_2": "refused", "s7_3": "hang", "s7_4": "not_run"}
    out.write_text("".join(json.dumps({"name": name, "outcome": word, "what": ""}) + "\n" for name, word in words.items()))
    assert [(one.unit, one.word) for one in job.read(Ended(1, 1.0))] == [
        ("s7_1", "passed"),
        ("s7_3", "failed"),
        ("s7_4", "skipped"),
    ]
    assert next(one for one in job.read(CUT) if one.unit == "7:3").word == "cut_off"
    assert [one.word for one in suites.random_specs(7, 3, tmp_path / "none").read(Ended(0, 1.0))] == ["failed"]


def test_a_round_without_a_gpu_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "find_gpus", lambda env: ((), "no NVIDIA GPU found"))
    assert command.main(["--out", str(tmp_path)]) == 77
    assert "no NVIDIA GPU found" in capsys.readouterr().err
    assert not (tmp_path / "records.jsonl").exists()


def test_the_plan_of_a_round_begins_with_what_measures(tmp_path, capsys):
    spec = str(ROOT / "specs/hello_micro.yaml")
    timed = str(ROOT / "specs/fma_gemm_f32.yaml")
    options = ["--dry-run", "--specs", spec, timed, "--bench", timed, "--sanitize", spec, "--random", "7:20", "--alone", "true"]
    assert command.main([*options, "--tests", "tests/gpu/test_two_devices.py", "--out", str(tmp_path)]) == 0
    names = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [
        "compile 0",
        "compile 1",
        "bench fma_gemm_f32",
        "true",
        "verify specs/hello_micro",
        "verify specs/fma_gemm_f32",
        "sanitize hello_micro",
        "test_two_devices.py 1/1",
        "random 7",
    ]


@pytest.mark.parametrize(("first", "name"), [("long", "sm90_gemm_bf16_library"), ("short", "fma_gemm_f32")])
def test_the_specs_to_compile_first_can_be_chosen(tmp_path, capsys, first, name):
    paths = [str(ROOT / f"specs/{name}.yaml") for name in ("fma_gemm_f32", "sm90_gemm_bf16_library")]
    command.main(["--dry-run", "--specs", *paths, "--tests", "--first", first, "--out", str(tmp_path)])
    assert capsys.readouterr().out.startswith(f"compile 0: {name}")
