"""The pictures of docs/screens.md say what the verbs print."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from mmagen.cli.commands import commands
from tools.site import screens

pytest.importorskip("rich")
PAGE = Path(screens.ROOT / "docs/screens.md").read_text("utf-8")
# Cheap ones, and those of what a change of any rule or table changes.
SHOWN = ("refused", "compare", "build")


def words(svg: str) -> list[str]:
    return html.unescape(" ".join(re.findall(r">([^<]+)</text>", svg))).split()


def test_every_verb_has_a_screen():
    shown = {command.split()[1] for screen in screens.SCREENS for command in screen.commands}
    assert set(commands.commands) - shown == {"schema"}, "JSON of some thousand lines"
    assert sorted(re.findall(r"screens/([\w-]+)\.svg", PAGE)) == sorted(screen.name for screen in screens.SCREENS)


@pytest.mark.parametrize("name", SHOWN)
def test_a_screen_says_what_is_printed(name):
    (screen,) = (one for one in screens.SCREENS if one.name == name)
    kept = (screens.FOLDER / f"{name}.svg").read_text("utf-8")
    assert words(kept) == words(screens.svg(screen)) and len(words(kept)) > 10
    assert "http" not in re.sub(r"http://www.w3.org/2000/svg|https://www.textualize.io", "", kept), "nothing from elsewhere"


def test_a_changed_screen_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(screens, "FOLDER", tmp_path)
    (tmp_path / "compare.svg").write_text("old")
    assert screens.main(["--check", "compare"]) == 1 and capsys.readouterr().out == "compare differs\n"
    assert (tmp_path / "compare.svg").read_text() == "old"
