"""Every page of results names the commands that made it, and they are commands of this repository, with options that exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmagen.cli.commands import commands as cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs/results").glob("*.md")), ROOT / "docs/performance.md"]
# A command between backticks, possibly over several lines. What stands for any value is in capitals: FILE, REPORT..., I/N.
_COMMAND = re.compile(r"`((?:mmagen|python -m) [^`]*)`", re.DOTALL)
_OF_THE_REPOSITORY = re.compile(r"(?:specs|docs|tests|tools)/[\w./-]*\w")


def commands(text: str) -> list[str]:
    return [" ".join(found.split()) for found in _COMMAND.findall(text)]


def faults(command: str) -> Iterator[str]:
    """What does not exist of a command."""
    words = shlex.split(command)
    options = [word.split("=")[0] for word in words if word.startswith("--") and len(word) > 2]
    known = ""
    if words[0] == "mmagen":
        verb = cli.get_command(None, words[1]) if len(words) > 1 else None  # type: ignore[arg-type]
        if verb is None:
            yield f"mmagen {' '.join(words[1:2])}"
            return
        known = " ".join(name for param in verb.params for name in (*param.opts, *param.secondary_opts))
    else:
        module = importlib.util.find_spec(words[2])
        if module is None:
            yield f"module {words[2]}"
            return
        if words[2] != "pytest":
            sources = sorted(Path(module.origin).parent.glob("*.py")) if module.submodule_search_locations else [module.origin]
            known = "".join(Path(source).read_text("utf-8") for source in sources)
    yield from (option for option in options if known and not re.search(rf"{option}(?![\w-])", known))
    yield from (
        path for path in _OF_THE_REPOSITORY.findall(command) if not (ROOT / path).exists() and "--markdown" not in command
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_exist(page):
    found = commands(page.read_text("utf-8"))
    assert found, "say on the page what made it"
    assert {command: missing for command in found if (missing := [*faults(command)])} == {}


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("mmagen verify specs/sm80_gemm_classic.yaml --bench --markdown FILE", []),
        ("mmagen verify --benchmark", ["--benchmark"]),
        ("mmagen measure", ["mmagen measure"]),
        ("python -m tools.gone --all", ["module tools.gone"]),
        ("python -m tools.library_page SPEC --problems random:1 --markdown FILE", []),
        ("python -m tools.library_page SPEC --kernels x", ["--kernels"]),
        ("python -m pytest tests/gpu/test_mutations.py -q", []),
        ("python -m pytest tests/gpu/test_gone.py", ["tests/gpu/test_gone.py"]),
    ],
)
def test_what_does_not_exist_is_found(command, missing):
    assert [*faults(command)] == missing
