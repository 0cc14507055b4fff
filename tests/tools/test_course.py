"""The course as a newcomer follows it: each page's specs are saved, each command is run, and prints what the page says."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.fakes import typed

ROOT = Path(__file__).resolve().parents[2]
COURSE = sorted((ROOT / "docs/course").glob("[0-9]*.md"))
_FENCE = re.compile(r"^```(?P<kind>yaml title=\"(?P<file>[^\"]+)\"|console)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT = re.compile(r"\s+# exit code (\d+)$")


@dataclass(frozen=True)
class Command:
    """words: without mmagen; lines: that it prints, `...` for any number of others."""

    words: tuple[str, ...]
    code: int
    lines: tuple[str, ...]

    @property
    def compiles(self) -> bool:
        return self.words[0] == "verify"


def commands(console: str) -> list[Command]:
    found: list[Command] = []
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        line, *lines = part.rstrip("\n").split("\n")
        expected = _EXIT.search(line)
        words = shlex.split(_EXIT.sub("", line))
        assert words[0] == "mmagen", line
        found.append(Command(tuple(words[1:]), int(expected[1]) if expected else 0, tuple(lines)))
    return found


def follow(page: Path, folder: Path, capsys, compiled: bool) -> int:
    """How many commands were run; those that compile where `compiled`, else the others."""
    os.symlink(ROOT / "specs", folder / "specs")
    run = 0
    for block in _FENCE.finditer(page.read_text("utf-8")):
        if block["file"]:
            (folder / block["file"]).write_text(block["body"])
            continue
        for command in commands(block["body"]):
            if command.compiles != compiled:
                continue
            code, out, err = typed(capsys, *command.words)
            assert code == command.code, (command.words, err)
            missing = first_missing(command.lines, out + err)
            assert missing is None, f"{page.name}: {' '.join(command.words)} does not print {missing!r}"
            run += 1
    return run


def first_missing(lines: tuple[str, ...], printed: str) -> str | None:
    """The first line that does not follow those before it; None if all do. `...` within a line stands for the rest of it."""
    left = [line.rstrip() for line in printed.splitlines()]
    anywhere = False
    for line in lines:
        if line == "...":
            anywhere = True
            continue
        begin, _, _ = line.partition(" ...")
        places = [i for i, one in enumerate(left) if (one.startswith(begin) if begin != line else one == line.rstrip())]
        if not places or (places[0] != 0 and not anywhere and left[0].strip()):
            return line
        left, anywhere = left[places[0] + 1 :], False
        while left and not left[0] and not anywhere:
            left = left[1:]
    return None


@pytest.mark.parametrize("page", COURSE, ids=lambda page: page.stem)
def test_the_commands_of_a_page(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert follow(page, tmp_path, capsys, compiled=False) >= 2


@pytest.mark.nvcc
@pytest.mark.parametrize("page", [page for page in COURSE if "$ mmagen verify" in page.read_text()], ids=lambda page: page.stem)
def test_what_a_page_verifies(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert follow(page, tmp_path, capsys, compiled=True) >= 1


def test_a_line_that_is_not_printed_is_found():
    assert first_missing(("a", "...", "c d"), "a\nb\nc d\n") is None
    assert first_missing(("a", "c d"), "a\nb\nc d\n") == "c d"
    assert first_missing(("...", "b", "a"), "a\nb\n") == "a"
    assert first_missing(("x ...",), "x 1\n") is None


def test_every_figure_is_made_from_the_specs():
    from tools.site.figures import FIGURES, TRACED, figures

    for path, svg in figures():
        assert path.read_text("utf-8") == svg, f"{path.name} differs; run python -m tools.site.figures"
    shown = {name for page in [*COURSE, ROOT / "README.md", ROOT / "docs/index.md"] for name in _figures(page)}
    kept = {path.stem for path in (ROOT / "docs/figures").glob("*.svg")}
    assert shown == kept == set(FIGURES | TRACED)  # those of traces need nvcc: tools.site.figures --traced


def _figures(page: Path) -> list[str]:
    return re.findall(r"figures/([\w-]+)\.svg", page.read_text("utf-8"))
