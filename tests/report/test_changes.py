"""`mmagen compare`: regressions of verdicts and of speed, beyond a stated bound."""

from __future__ import annotations

import json

import pytest

from mmagen.cli.main import main
from mmagen.core.errors import UsageError
from mmagen.report.changes import changes, read, rows, summary


def record(problem="256,128,64", disposition="passed", **more):
    empty = {"name": "gemm", "problem": problem, "input_dist": "uniform", "ratio": None, "ms_median": None, "device": "H200"}
    return empty | {"disposition": disposition} | more


def report(*records) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


def compared(old, new, noise=0.05):
    found = changes(read(report(*old), "old"), read(report(*new), "new"), noise)
    return [(one.key[1], one.what, one.regression) for one in found]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("passed", "passed", []),
        ("passed", "passed (emulated)", []),
        ("passed", "incorrect", [("256,128,64", "passed -> incorrect", True)]),
        ("passed", "skipped", [("256,128,64", "passed -> skipped", True)]),
        ("failed", "passed", [("256,128,64", "failed -> passed", False)]),
        ("skipped", "failed", [("256,128,64", "skipped -> failed", True)]),
        ("skipped", "not_run", [("256,128,64", "skipped -> not_run", False)]),
        ("failed", "failed", []),
    ],
)
def test_verdicts(before, after, expected):
    assert compared([record(disposition=before)], [record(disposition=after)]) == expected


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ({"disposition": "incorrect"}, {}, "better"),
        ({"disposition": "failed"}, {}, "better"),
        ({"disposition": "skipped"}, {}, "other"),
        ({"ratio": 1.0}, {"ratio": 1.1}, "better"),
        ({"ratio": 1.1}, {"ratio": 1.0}, "REGRESSION"),
        ({}, {"disposition": "incorrect"}, "REGRESSION"),
    ],
)
def test_what_each_change_is_called(old, new, word):
    (row,) = rows(changes(read(report(record(**old)), "old"), read(report(record(**new)), "new"), 0.05))
    assert row[0] == word


def test_a_problem_that_is_gone_is_a_regression_and_a_new_one_is_not():
    assert compared([record("1,1,1"), record("2,2,2")], [record("2,2,2"), record("3,3,3")]) == [
        ("1,1,1", "passed -> absent", True),
        ("3,3,3", "absent -> passed", False),
    ]
    assert compared([record()], [record(), record("2,2,2", "failed")]) == [("2,2,2", "absent -> failed", True)]
    assert compared([record("1,1,1", "skipped")], [record()]) == [
        ("1,1,1", "skipped -> absent", False),
        ("256,128,64", "absent -> passed", False),
    ]


def test_emulated_problems_that_another_spec_leads_to_are_no_regression():
    old = [record("1,1,1", device="cpu-ptx", spec_sha="1"), record("2,2,2", device="cpu-ptx", spec_sha="1")]
    assert compared(old, [record("3,3,3", device="cpu-ptx", spec_sha="2")]) == [
        ("1,1,1", "passed -> absent", False),
        ("2,2,2", "passed -> absent", False),
        ("3,3,3", "absent -> passed", False),
    ]
    for now in (
        [record("2,2,2", device="cpu-ptx", spec_sha="1")],
        [record("2,2,2", device="H200", spec_sha="2")],
        [{**record("2,2,2", device="cpu-ptx", spec_sha="2"), "name": "another"}],
    ):
        assert ("1,1,1", "passed -> absent", True) in compared(old, now)
    assert ("2,2,2", "passed -> failed", True) in compared(old, [record("2,2,2", "failed", device="cpu-ptx", spec_sha="2")])


def test_ratios_beyond_the_noise():
    old = [record(ratio=1.0, ms_median=1.0)]
    assert compared(old, [record(ratio=0.951, ms_median=9.0)]) == [], "ratios are compared where there are some"
    assert compared(old, [record(ratio=0.94, ms_median=1.0)]) == [("256,128,64", "ratio 1.000 -> 0.940", True)]
    assert compared(old, [record(ratio=1.06)]) == [("256,128,64", "ratio 1.000 -> 1.060", False)]
    assert compared(old, [record(ratio=0.99)], noise=0.0) == [("256,128,64", "ratio 1.000 -> 0.990", True)]


def test_times_on_one_device_alone():
    old = [record(ms_median=1.0)]
    assert compared(old, [record(ms_median=1.1)]) == [("256,128,64", "ms 1.0000 -> 1.1000", True)]
    assert compared(old, [record(ms_median=1.1, device="H100")]) == []
    assert compared(old, [record(ms_median="nan")]) == compared(old, [record()]) == []
    assert compared(old, [record(ms_median=float("inf"))]) == compared(old, [record(ms_median=0)]) == []


def test_the_summary_counts_what_was_compared_and_states_the_bound():
    def said(old, new, noise=0.05):
        old, new = read(report(old), "old.json"), read(report(new), "new.json")
        return summary(old, new, changes(old, new, noise), noise)

    elsewhere = record(ms_median=2.0, device="H100")
    assert "0 speeds compared, 5% or less counts" in said(record(ms_median=1.0), elsewhere)
    assert "1 speeds compared, 0.5% or less counts" in said(record(ms_median=1.0), record(ms_median=2.0), 0.005)


def test_several_records_of_one_problem_are_one():
    """verify and bench report the same problem: the worst verdict, and the figures of whichever has them."""
    old = [record(ms_median=2.0), record(ratio=1.0, ms_median=1.0)]
    assert compared(old, [record(ratio=0.5)]) == [("256,128,64", "ratio 1.000 -> 0.500", True)]
    assert compared(old, [record(), record(disposition="failed")]) == [("256,128,64", "passed -> failed", True)]


def test_regressions_come_first():
    old = [record("1,1,1", ratio=1.0), record("2,2,2", ratio=1.0), record("3,3,3")]
    new = [record("1,1,1", ratio=2.0), record("2,2,2", ratio=0.5), record("3,3,3", "failed")]
    assert [one[0] for one in compared(old, new)] == ["3,3,3", "2,2,2", "1,1,1"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "x.json has no records"),
        ("[1]\n", "x.json:1: it is no JSON object"),
        (report(record()) + "{}\n", "x.json:2: it lacks 'name'"),
        (report(record()) + "\n{\n", "x.json:3: it is no JSON object"),
        (report(record(ratio="fast")), "x.json:1: its ratio is fast, which is no positive number"),
        (report(record(), record(ms_median=-1.0)), "x.json:2: its ms_median is -1.0, which is no positive number"),
        (report(record(ratio=True)), "x.json:1: its ratio is True, which is no positive number"),
        (report(record(ratio=10**400)), f"x.json:1: its ratio is 1{'0' * 39}, which is no positive number"),
        (report(record(ratio=[1.0])), "x.json:1: its ratio is [1.0], which is no positive number"),
    ],
)
def test_what_is_no_report_is_refused(text, says):
    with pytest.raises(UsageError) as caught:
        read(text, "x.json")
    assert says in str(caught.value) and "mmagen verify --json" in str(caught.value)


def test_the_verb(tmp_path, capsys):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(report(record(ratio=1.0), record("1,1,1")))

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            main(["compare", str(old), str(new), *arguments])
        said = capsys.readouterr()
        return int(done.value.code or 0), said.out, said.err

    new.write_text(old.read_text())
    assert run() == (0, "2 problems before, 2 now; 1 speeds compared, 5% or less counts as noise; 0 regressions\n", "")
    new.write_text(report(record(ratio=0.9), record("1,1,1")))
    code, said, _ = run()
    assert code == 1 and "REGRESSION  gemm    256,128,64  uniform  ratio 1.000 -> 0.900 (-10.0%)" in said
    assert said.endswith("1 regression\n") and max(map(len, said.splitlines())) <= 110
    assert run("--noise", "0.2")[0] == 0
    new.write_bytes(b"\xff\xfe")
    assert run()[0] == 2
    new.unlink()
    code, _, said = run()
    assert code == 2 and "new.json cannot be read: No such file" in said
