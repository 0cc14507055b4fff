"""Pages of what tests said: the last of each test, in the columns of the pages in docs/results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.accumulation_faults import OTHER, called
from tools import test_tables
from tools.gpu_round import suites
from tools.gpu_round.jobs import Ended

ROOT = Path(__file__).resolve().parents[2]
MACHINE = {"machine": {"device": "NVIDIA X", "driver": "driver 1", "cuda": "CUDA 13.0", "date": "2026-01-01"}, "collected": []}


def said(test: str, name: str, *values, outcome: str = "passed") -> dict:
    return {"test": f"tests/gpu/{test}", "outcome": outcome, "reason": "", "properties": [[name, list(values)]]}


def test_planted_faults_are_listed_as_they_were_last_seen():
    one = "test_mutations.py::test_a_planted_fault_is_seen[barrier]"
    lines = [
        MACHINE,
        said(one, "mutation", "barrier", "a race", "passed", "", outcome="failed"),
        said(one, "mutation", "barrier", "a race", "incorrect", "a|b"),
        said("test_mutations.py::test_original[spec]", "mutation", "spec", "nothing", "passed", ""),
    ]
    text = test_tables.page("mutations", lines, "COMMAND")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in rows[2].replace("\\|", "!").strip("|").split("|")] == [
        "barrier",
        "a race",
        "incorrect",
        "a!b",
    ]
    assert len(rows) == 4 and "NVIDIA X · driver 1 · CUDA 13.0 · 2026-01-01" in text
    assert "`COMMAND`" in text and ": 2 passed." in text


def test_error_bounds_are_rows_of_a_type_and_a_distribution():
    name = next(iter(OTHER))
    fixed = ("256,256,4096", "uniform")
    lines = [
        said("test_error_bounds.py::a", "error_bound", called(name), *fixed, "right", 0.00054, 0.0041, "passed"),
        said("test_error_bounds.py::b", "error_bound", called(name), *fixed, "zero", 93.0, 0.0041, "incorrect"),
        said("test_error_bounds.py::c", "error_bound", called(name), *fixed, "missing", 11.2, 0.0041, "incorrect"),
        said("test_error_bounds.py::d", "error_bound", called(name, True), *fixed, OTHER[name], 0.566, 0.1, "incorrect"),
        said("test_error_bounds.py::e", "error_bound", called(name), "256,256,48", "uniform", "right", 9.0, 9.0, "passed"),
    ]
    rows = [line for line in test_tables.page("error_bounds", lines, "COMMAND").splitlines() if line.startswith("|")]
    cells = [cell.strip() for cell in rows[2].strip("|").split("|")]
    assert cells == [
        called(name).removeprefix("bounds_").replace("_", " "),
        "uniform",
        "0.0041",
        "0.00054",
        "93",
        "11.2",
        f"0.566 ({OTHER[name]})",
    ]
    assert len(rows) == 3


def test_without_a_test_of_the_page_nothing_is_written(tmp_path, capsys):
    (tmp_path / "r.jsonl").write_text(json.dumps(MACHINE) + '\n{"cut')
    assert test_tables.main(["mutations", str(tmp_path / "r.jsonl"), "--markdown", str(tmp_path / "p.md")]) == 77
    assert not (tmp_path / "p.md").exists() and "no test" in capsys.readouterr().err


def test_what_a_test_records_reaches_the_page(tmp_path):
    """Through pytest, the plugin and the file that a round keeps."""
    module = tmp_path / "test_mutations.py"
    module.write_text(
        "def test_it(record_property):\n    record_property('mutation', ('late', 'a race', 'incorrect', '7 of 9'))\n"
    )
    (job,) = suites.tests([module], tmp_path, (), tmp_path / "tests.jsonl")[:1]
    command = [sys.executable, *job.command[1:], "--rootdir", str(tmp_path)]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, cwd=tmp_path, capture_output=True)
    assert [one.word for one in job.read(Ended(done.returncode, 1.0))] == ["passed"], done.stdout
    page = tmp_path / "p.md"
    assert test_tables.main(["mutations", str(tmp_path / "tests.jsonl"), "--markdown", str(page)]) == 0
    assert "| late" in page.read_text() and "7 of 9" in page.read_text()
