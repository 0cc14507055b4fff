"""`mmagen tune` as typed: what it refuses and how, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmagen.core.errors import ExitCode, UsageError
from mmagen.toolchain.model import Toolchain
from mmagen.tuning.tune import Tuned
from tests.support.fakes import typed

SPEC = """\
mmagen: 1
name: it
kernel: gemm
atom: SM90_64x128x16_F32BF16BF16_SS
tile: [64, 128, 64]
epilogue: {out: bf16}
"""


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("it.yaml").write_text(SPEC)
    Path("bad.yaml").write_text(SPEC.replace("128, 64]", "100, 64]"))
    Path("none.yaml").write_text(SPEC.replace("kernel: gemm", "kernel: micro").replace("64, 128, 64", "64, 128, 16"))
    Path("problems.txt").write_text("64 64 64\n64 64\n")
    monkeypatch.setattr("mmagen.cli.tune.find_toolchain", lambda: Toolchain(wanted=("gpus",), remedies={"gpus": "no driver"}))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["it.yaml"], ExitCode.NOTHING_VERIFIED, "nothing to measure on: no driver"),
        (["bad.yaml"], ExitCode.USAGE, "bad.yaml:5:12 tile[1]"),
        (["none.yaml"], ExitCode.USAGE, "it: kernel micro of SM90_64x128x16_F32BF16BF16_SS has no alternatives"),
        (["absent.yaml"], ExitCode.USAGE, "absent.yaml cannot be read: No such file"),
        (["it.yaml", "--problems", "problems.txt"], ExitCode.USAGE, "problems.txt:2: '64 64' has 2 numbers, not 3 or 4"),
        (["it.yaml", "--problems", "absent.txt"], ExitCode.USAGE, "--problems absent.txt: no such file; name one, or spec"),
        (["it.yaml", "--budget", "soon"], ExitCode.USAGE, "--budget soon: write a time like 20m, 90s or 1.5h"),
        (["it.yaml", "--out", "absent/lib.yaml"], ExitCode.USAGE, "absent is not a folder; create it"),
        (["it.yaml", "--configs", "0"], ExitCode.USAGE, "0 is not in the range"),
    ],
)
def test_what_is_refused(here, capsys, arguments, code, said):
    found, out, err = typed(capsys, "tune", *arguments)
    assert (found, out) == (code, "") and said in err
    assert sorted(path.name for path in here.iterdir()) == ["bad.yaml", "it.yaml", "none.yaml", "problems.txt"]


@pytest.mark.parametrize(
    ("incorrect", "lost", "code"),
    [((), (), ExitCode.OK), (("a",), ("b",), ExitCode.INCORRECT), ((), ("b",), ExitCode.RUN_FAILED)],
)
def test_the_library_is_written_and_what_was_wrong_decides_the_code(here, capsys, monkeypatch, incorrect, lost, code):
    gpu = type("Gpu", (), {"name": "X", "driver": "1"})()
    monkeypatch.setattr("mmagen.cli.tune.find_toolchain", lambda: Toolchain(gpus=(gpu,), wanted=("gpus",)))
    done = Tuned("text\n", ("a", "b"), (("choice over best", "0.99"),), ("a note",), incorrect, lost)
    monkeypatch.setattr("mmagen.cli.tune.tune", lambda *_: done)
    found, out, err = typed(capsys, "tune", "it.yaml", "--budget", "90s")
    assert found == code and Path("it_tuned.yaml").read_text() == "text\n"
    assert "choice over best  0.99" in out and "it_tuned.yaml: 2 configurations; measurements in it_tuned.jsonl" in out
    assert "note: a note" in err


def test_a_library_that_is_not_recommended_is_written_and_the_last_line_says_so(here, capsys, monkeypatch):
    gpu = type("Gpu", (), {"name": "X", "driver": "1"})()
    monkeypatch.setattr("mmagen.cli.tune.find_toolchain", lambda: Toolchain(gpus=(gpu,), wanted=("gpus",)))
    done = Tuned("text\n", ("a",), (), ("NOT RECOMMENDED: it as it is does better",), recommended=False)
    monkeypatch.setattr("mmagen.cli.tune.tune", lambda *_: done)
    found, out, err = typed(capsys, "tune", "it.yaml")
    assert found == ExitCode.OK and Path("it_tuned.yaml").read_text() == "text\n"
    assert out.splitlines()[-1].startswith("it_tuned.yaml: 1 configurations, not recommended: it.yaml does better; ")
    assert "note: NOT RECOMMENDED" in err


def test_the_database_suffices_without_a_gpu(here, capsys, monkeypatch):
    seen = []

    def tune(_, options, *others):
        seen.append((options.measure, options.judged_by, options.problems))
        return Tuned("text\n", ("a",), (), ())

    monkeypatch.setattr("mmagen.cli.tune.tune", tune)
    arguments = ["tune", "it.yaml", "--measured-only", "--judged-by", "random", "--problems", "models"]
    assert typed(capsys, *arguments)[0] == ExitCode.OK and seen == [(False, "random", "models")]


def test_measured_only_needs_measurements(here, capsys):
    found, _, err = typed(capsys, "tune", "it.yaml", "--measured-only", "--database", "none.jsonl")
    assert found == ExitCode.USAGE and "--database none.jsonl: there are no measurements" in err
    assert not Path("it_tuned.yaml").exists()


def test_times_are_read_in_seconds():
    from mmagen.cli.tune import seconds

    assert [seconds(text) for text in ("90", "90s", "20m", "1.5h")] == [90, 90, 1200, 5400]
    with pytest.raises(UsageError):
        seconds("0")
