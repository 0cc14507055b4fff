"""Where results go, and how far a verb has come."""

from __future__ import annotations

import datetime
import io
import sys

import pytest

from mmagen.cli import progress
from mmagen.cli.outputs import deliver, made_by, refuse_bad
from mmagen.core.errors import UsageError


def test_each_format_goes_where_it_was_asked_to(tmp_path, capsys):
    outputs = {"json": str(tmp_path / "r"), "csv": None}
    refuse_bad(outputs)
    deliver("table", outputs, {"json": lambda: "{}\n", "csv": lambda: 1 / 0})
    assert (tmp_path / "r").read_text() == "{}\n" and capsys.readouterr() == ("table\n", "")


def test_a_piped_format_is_alone_in_the_pipe(capsys):
    outputs = {"json": "-", "csv": None}
    refuse_bad(outputs)
    deliver("table", outputs, {"json": lambda: "{}\n", "csv": lambda: ""})
    assert capsys.readouterr() == ("{}\n", "table\n")


def test_what_could_not_be_written_is_refused_before(tmp_path):
    with pytest.raises(UsageError, match="only one of --json, --csv and --svg can go"):
        refuse_bad({"json": "-", "csv": None, "svg": "-"})
    for file in (tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(UsageError, match=r"--csv .*: (it is a folder|.* is not a folder; create it)"):
            refuse_bad({"json": "-", "csv": str(file)})


def test_a_page_names_its_command_and_day(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/some/where/mmagen", "verify", "a.yaml"])
    assert made_by() == {"command": "mmagen verify a.yaml", "date": datetime.date.today().isoformat()}


def test_a_log_hears_of_it_now_and_then(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.shown() as tell:
        for step in range(12):
            now = float(step)
            tell(step, 12, f"step {step}")
    assert capsys.readouterr() == ("", "[5/12] step 5\n[10/12] step 10\n")


def test_a_terminal_sees_a_bar_that_goes_away(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.shown() as show:
        show(1, 3, "one")
        show(2, 4, "two" * 40)
        seen = sys.stderr.getvalue()
    assert "1/3 " in seen and "2/4 " in seen and "one" in seen and "two" * 20 in seen and "two" * 21 not in seen
    assert sys.stderr.getvalue().endswith("\r")
