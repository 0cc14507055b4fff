"""JUnit XML: dispositions as elements, times of the clock, and validity by the schema of Jenkins's xUnit plugin."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import xmlschema

from mmagen.report.formats import table
from mmagen.report.junit import to_junit
from mmagen.verify.run import RunResult, run
from mmagen.verify.verdict import EMULATED, judge, refused
from tests.support.fake_builds import fake_build, printing, record

RACE = {
    "kind": "shared_race",
    "message": "thread 0 writes shared byte 0, which thread 64 read since the last barrier",
    "file": "include/mmagen/a.cuh",
    "line": 31,
    "instruction": "st.shared.b32 [%r1], %r2",
    "count": 256,
}


@functools.cache
def schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(Path(__file__).parent / "junit-10.xsd")


def parsed(verdicts, attachments=(), targets=None) -> ElementTree.Element:
    text = to_junit(verdicts, attachments, targets)
    schema().validate(text)
    return ElementTree.fromstring(text.encode())


def raced(problem: str, *more: dict) -> dict:
    return record(
        problem=problem,
        disposition="failed",
        device=EMULATED,
        input_dist="small_int",
        seed=3,
        reason="a race",
        details={"findings": [RACE, *more]},
    )


@pytest.fixture
def verdicts(tmp_path):
    build = fake_build(tmp_path, "")
    broken = replace(build, name="b", ok=False, reason="no", errors=("src/b.cu(1): error: x",), ptxas=())
    records = (
        record(ms_median=1.5, tflops=623.25, bound=2e-3, input_dist="normal", seconds=0.25),
        record(problem=[1, 2, 3, 4], disposition="incorrect", max_abs_err=float("inf"), reason='a "b", <c>\x00'),
        record(problem="9x9x9", disposition="not_supported", reason="K % 8"),
        record(problem="8x8x8", disposition="failed", reason="the program crashed"),
        raced("7x7x7 ld+8"),
    )
    runs = RunResult("k", "verify", records, 1, seconds=1.0, began=1.7e9)
    skipped = [("4096x4096x4096", "replaced by small problems in emulation (--on cpu)")]
    return [judge(build, runs, skipped=skipped), judge(broken), judge(replace(build, name="g"), no_gpu="no NVIDIA GPU found")]


def test_each_disposition_is_its_element(verdicts):
    root = parsed(verdicts)
    counts = {s.get("name"): [s.get(k) for k in ("tests", "failures", "errors", "skipped")] for s in root}
    assert counts == {"k": ["6", "2", "1", "2"], "b": ["1", "0", "1", "0"], "g": ["1", "0", "0", "1"]}
    assert [root.get(k) for k in ("tests", "failures", "errors")] == ["8", "2", "2"]
    elements = {
        case.get("name"): [child.tag for child in case if child.tag != "system-out"] for case in root[0].iter("testcase")
    }
    assert elements == {
        "64x64x32 normal": [],
        "1x2x3x4": ["failure"],
        "9x9x9": ["skipped"],
        "8x8x8": ["error"],
        "7x7x7 ld+8 small_int (emulated)": ["failure"],
        "4096x4096x4096": ["skipped"],
    }
    assert root.find(".//testcase[@name='1x2x3x4']/failure").get("message") == 'a "b", <c>\ufffd'
    assert root.find("testsuite[@name='b']/system-err").text == "src/b.cu(1): error: x"


def test_times_are_those_of_the_clock(verdicts):
    (suite, *_) = parsed(verdicts)
    assert (suite.get("timestamp"), suite.get("time")) == ("2023-11-14T22:13:20+00:00", "3.000")  # 2 s of compiling
    assert [case.get("time") for case in suite.iter("testcase")][:2] == ["0.250", "0.000"]
    assert "ms_median: 1.5" in suite.find("testcase/system-out").text


def test_a_program_s_lines_are_timed(tmp_path):
    slow = (
        f"print({json.dumps(record())!r}, flush=True)\ntime.sleep(0.4)\nprint({json.dumps(record(problem='2x2x2'))!r}, end='')"
    )
    first, second = (r["seconds"] for r in run(fake_build(tmp_path, slow)).records)
    assert first > 0 and 0.35 < second < 30
    whole = run(fake_build(tmp_path, printing(record())))
    assert 0 < whole.records[0]["seconds"] <= whole.seconds and whole.began > 1.7e9


def test_a_race_says_once_what_and_where_and_how_to_see_it_again(verdicts):
    targets = {verdict.name: "my specs/a.yaml" for verdict in verdicts}
    failure = parsed(verdicts, targets=targets).find(".//testcase[@name='7x7x7 ld+8 small_int (emulated)']/failure")
    assert failure.get("type") == "failed" and len(failure.get("message")) <= 300
    lines = failure.text.strip().split("\n")
    assert lines == [
        "shared_race at include/mmagen/a.cuh:31: " + RACE["message"],
        "again: mmagen verify 'my specs/a.yaml' --on cpu --problem '7x7x7 ld+8' --dist small_int --seed 3",
    ]


def test_reports_are_attached_to_what_did_not_pass(verdicts):
    root = parsed(verdicts, ["new.json"])
    attached = [
        case.get("name") for case in root[0].iter("testcase") if "[[ATTACHMENT|new.json]]" in case.findtext("system-out", "")
    ]
    assert attached == ["1x2x3x4", "8x8x8", "7x7x7 ld+8 small_int (emulated)"]


def test_what_a_kernel_s_problems_share_are_properties_of_its_suite(verdicts):
    properties = {one.get("name"): one.get("value") for one in parsed(verdicts)[0].iter("property")}
    assert properties["device"] == f"Fake GPU / {EMULATED}"


def test_a_compiled_project_is_a_success(tmp_path):
    root = parsed([judge(fake_build(tmp_path, ""), compile_only=True)])
    case = root[0].find("testcase")
    assert root[0].get("skipped") == "0" and case.get("name") == "compile" and [child.tag for child in case] == ["system-out"]


def test_a_refused_spec_is_an_error():
    (case,) = parsed([refused("bad.yaml", "bad.yaml:7:9 stages: 6 is too much")])[0].iter("testcase")
    assert [child.tag for child in case] == ["error"] and "bad.yaml:7:9" in case[0].get("message")


def test_the_table_says_each_finding_once(tmp_path):
    other = RACE | {"line": 40, "message": "thread 1 does the same"}
    again = RACE | {"message": "thread 7 of CTA 9 does it"}
    records = [raced("1x1x1"), raced("2x2x2", other, again), raced("3x3x3", again)]
    text = table([judge(fake_build(tmp_path, ""), RunResult("k", "verify", tuple(records), 4))], 80)
    said = text.split("\n\n")[1].split("\n")
    assert said == [
        "k: shared_race at include/mmagen/a.cuh:31, 3 problems, first 1x1x1",
        "  thread 0 writes shared byte 0, which thread 64 read since the last barrier",
        "k: shared_race at include/mmagen/a.cuh:40, 2x2x2",
        "  thread 1 does the same",
    ]
