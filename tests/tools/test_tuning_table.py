"""Measurements of `mmagen tune` as a table, and back."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from mmagen.core.errors import ExitCode, UsageError
from mmagen.families.reading import read
from mmagen.tuning.candidates import candidates
from mmagen.tuning.database import Site, Writer, digest, times
from mmagen.tuning.database import read as read_database
from mmagen.tuning.problems import read_problems
from tools import tuning_table

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
TABLE, SPEC = RESULTS / "h200-bf16-tuning.csv", RESULTS / "h200-bf16-tuning.yaml"
SMALL = RESULTS.parents[1] / "specs" / "sm90_gemm_bf16_widths.yaml"
SITE = Site("NVIDIA H200", "580.1", "13.0")
MACHINE = {"multiprocessors": 132, "clusters": {1: 132, 2: 66}}


@pytest.fixture(scope="module")
def library():
    plan, _ = read(SPEC.read_bytes(), str(SPEC))
    return plan


def measured(path, records, site=SITE):
    with closing(Writer(path, {name: f"digest of {name}" for name, *_ in records}, {})) as database:
        for name, problem, ms in records:
            passed = {"disposition": "passed", "ms_median": ms} if ms else {"disposition": "incorrect"}
            database.add({"name": name, "problem": problem, "machine": MACHINE, **passed}, site)
    return path


def test_a_table_has_the_last_time_of_each_choice_and_problem(tmp_path):
    first = measured(tmp_path / "1", [("b", "16,8,8", 0.0041), ("b", "9,8,8", 0.01234567), ("cublasLt_best8", "9,8,8", 0.02)])
    later = measured(tmp_path / "2", [("b", "9,8,8", 0.012), ("a", "9,8,8", 0.5), ("a", "16,8,8", None)])
    measured(tmp_path / "1", [("b", "16,8,8", 1.0)], Site("NVIDIA H100", "580.1", "13.0"))
    table = tuning_table.packed([first, later])
    assert table.site == SITE and table.machine.clusters == {1: 132, 2: 66} and len(table.date) == 10
    head, *rows = tuning_table.to_text(table).splitlines()
    assert rows == ["problem,cublasLt_best8,a,b", '"9,8,8",20,500,12', '"16,8,8",,,4.1']
    assert json.loads(head.removeprefix("# "))["device"] == "NVIDIA H200"


def test_times_of_another_run_are_scaled_by_those_of_cublaslt(tmp_path):
    """What the table has stays; what the spec has not is left out."""
    row = [("cublasLt_first", 0.04), ("cublasLt_best8", 0.02), ("a", 0.03)]
    table = tuning_table.packed([measured(tmp_path / "1", [(name, "9,8,8", ms) for name, ms in row] + [("a", "1,8,8", 0.001)])])
    other = [("cublasLt_first", 0.08), ("cublasLt_best8", 0.01), ("a", 0.7), ("b", 0.05), ("c", 0.05)]
    new = [(name, problem, ms) for name, ms in other for problem in ("9,8,8", "16,8,8")] + [("b", "1,8,8", 0.002)]
    found, left_out = tuning_table.extended(table, [measured(tmp_path / "2", new)], {"a", "b"})
    assert found.times["9,8,8"] == pytest.approx({"cublasLt_first": 40, "cublasLt_best8": 20, "a": 30, "b": 50})
    assert found.times["16,8,8"] == pytest.approx({"cublasLt_first": 80, "cublasLt_best8": 10, "a": 700, "b": 50})
    assert found.times["1,8,8"] == {"a": 1.0} and left_out == ["1,8,8"]
    assert table.times["9,8,8"] == pytest.approx({name: ms * 1e3 for name, ms in row}), "the table is as it was"
    elsewhere = measured(tmp_path / "3", new, Site("NVIDIA H100", "580.1", "13.0"))
    with pytest.raises(UsageError, match="H100"):
        tuning_table.extended(table, [elsewhere], {"b"})


def test_a_table_keeps_what_is_added(tmp_path, capsys):
    name = next(one.name for one in candidates(read(SMALL.read_bytes(), str(SMALL))[0].spec))
    table = tmp_path / "table.csv"
    first = [("cublasLt_best8", "9,8,8", 0.02), ("other", "9,8,8", 0.03)]
    assert tuning_table.main(["pack", str(measured(tmp_path / "1", first)), str(table)]) == ExitCode.OK
    later = measured(tmp_path / "2", [("cublasLt_best8", "9,8,8", 0.04), (name, "9,8,8", 0.05), (name, "7,8,8", 0.01)])
    assert tuning_table.main(["add", str(table), str(SMALL), str(later)]) == ExitCode.OK
    assert tuning_table.from_text(table.read_text("utf-8"), table).times == {
        "7,8,8": {name: 10.0},
        "9,8,8": {"cublasLt_best8": 20.0, "other": 30.0, name: 25.0},
    }
    assert "2 problems, 3 columns" in capsys.readouterr().out


def test_text_and_table_are_the_same():
    text = TABLE.read_text("utf-8")
    assert tuning_table.to_text(tuning_table.from_text(text, TABLE)) == text


def test_the_database_has_the_code_of_today(tmp_path, library):
    """With it, `mmagen tune --measured-only` selects from all of the committed measurements."""
    table, path = tuning_table.from_text(TABLE.read_text("utf-8"), TABLE), tmp_path / "database.jsonl"
    assert tuning_table.unpack(table, library, path) == []
    contents = read_database(path)
    assert not contents.notes and contents.machines["NVIDIA H200"].multiprocessors == 132
    known = times(contents.lines, table.site)
    own = [one for one in candidates(library.spec) if one.own][:3]
    for one in own:
        of_kernel = known[digest(one.plan)]
        assert {problem: round(s * 1e6, 9) for problem, s in of_kernel.items()} == {
            problem: row[one.name] for problem, row in table.times.items() if one.name in row
        }
    assert len(known) == len(table.names)
    with pytest.raises(UsageError, match="it exists"):
        tuning_table.unpack(table, library, path)


def test_choices_that_the_spec_has_not_are_named(tmp_path, capsys):
    table = tmp_path / "table.csv"
    assert tuning_table.main(["pack", str(measured(tmp_path / "1", [("other", "9,8,8", 1.0)])), str(table)]) == ExitCode.OK
    arguments = [str(table), str(SMALL), str(tmp_path / "2"), "--problems", str(tmp_path / "3")]
    assert tuning_table.main(["unpack", *arguments]) == ExitCode.OK
    assert "other: not a choice of sm90_gemm_bf16_widths, left out" in capsys.readouterr().out
    assert read_database(tmp_path / "2").lines == ()
    assert [problem.shape for problem in read_problems(tmp_path / "3")] == [(9, 8, 8)]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("problem,a\n", "line 1"),
        ('# {"device": "x", "driver": "1", "cuda": "13.0"}\nproblem,a\n', "line 1"),
        ('{HEAD}\nproblem,a\n"9,8,8",1.5\n"9,8,9",1.5,2\n', "line 4"),
        ('{HEAD}\nproblem,a\n"9,8,8",fast\n', "line 3"),
    ],
)
def test_a_table_with_a_fault_is_refused_with_its_line(text, line, tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text(text.replace("{HEAD}", TABLE.read_text("utf-8").splitlines()[0]))
    assert tuning_table.main(["unpack", str(path), str(SPEC), str(tmp_path / "2")]) == ExitCode.USAGE
    assert f"{path}, {line}:" in capsys.readouterr().err


def test_strides_cannot_be_written_as_a_line_of_extents(tmp_path, capsys):
    table = tmp_path / "table.csv"
    tuning_table.main(["pack", str(measured(tmp_path / "1", [("other", "9,8,8:ld_pad=8", 1.0)])), str(table)])
    arguments = [str(table), str(SMALL), str(tmp_path / "2"), "--problems", str(tmp_path / "3")]
    assert tuning_table.main(["unpack", *arguments]) == ExitCode.USAGE
    assert "9,8,8:ld_pad=8: a file of problems has extents only" in capsys.readouterr().err


def test_a_database_without_measurements_is_refused(tmp_path, capsys):
    assert tuning_table.main(["pack", str(tmp_path / "none"), str(tmp_path / "table")]) == ExitCode.USAGE
    assert "there are no measurements" in capsys.readouterr().err
