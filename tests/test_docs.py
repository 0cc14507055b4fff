"""The documents: links lead somewhere, and the README is as wide as an editor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mmagen.cli.commands import commands

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "generated").glob("*/*.md")]
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)|<(?:img|a)\s[^>]*(?:src|href)=\"([^\"]+)\"")
# Pages that `python -m tools.site` makes of the code.
MADE = {ROOT / "docs" / name for name in re.findall(r'"([\w/]+\.md)"', (ROOT / "tools/site/pages.py").read_text("utf-8"))}
_CODE = re.compile(r"^(?: {4}|\t).*$|`[^`\n]*`", re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(page):
    text = _CODE.sub("", page.read_text("utf-8"))
    for target in (found[1] or found[2] for found in _LINK.finditer(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists() or place in MADE, f"{page.name}: {target}"
        assert not anchor or place in MADE or anchor in _anchors(place), f"{page.name}: {target}"


def test_the_readme_fits_an_editor():
    wide = [line for line in (ROOT / "README.md").read_text("utf-8").split("\n") if len(line) > 120]
    assert not wide, wide


def test_the_readme_names_every_verb():
    text = (ROOT / "README.md").read_text("utf-8")
    assert not [verb for verb in commands.commands if f"`mmagen {verb}" not in text]


@pytest.mark.parametrize("page", ["README.md", "docs/ci.md", "docs/python.md", "docs/tuning.md", "docs/ownership.md"])
def test_options_that_pages_name_exist(page):
    """Of lines that begin with a verb: each option is that verb's."""
    for line in (ROOT / page).read_text("utf-8").split("\n"):
        found = re.match(r"\s*(?:- (?:run: )?)?`?mmagen (\w+)([^`|]*)", line)
        if not found or found[1] not in commands.commands:
            continue
        verb = commands.commands[found[1]]
        known = {option for parameter in verb.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
        known |= {
            option
            for inner in getattr(verb, "commands", {}).values()
            for parameter in inner.params
            for option in parameter.opts
        }
        assert not {*re.findall(r"(?<!\S)--[a-z][a-z-]*", found[2])} - known, line
