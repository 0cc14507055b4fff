"""The documentation site: every key, verb and spec has its place, and mkdocs builds it without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from mmagen.cli.commands import commands
from mmagen.spec.model import json_schema
from tools.site import pages
from tools.site.__main__ import write

ROOT = Path(__file__).resolve().parents[2]


def test_every_key_is_in_the_reference():
    text = pages.spec_reference()
    schema = json_schema()
    keys = set(schema["properties"]) | {
        key
        for name in ("Config", "When", "Cost", "Epilogue", "Operation", "Scale", "Groups")
        for key in pages.long_form(schema["$defs"][name])["properties"]
    }
    assert [key for key in keys if f"| `{key}` |" not in text] == []
    assert "| `name` | required |" in text


def test_every_verb_is_in_the_reference():
    text = pages.command_reference()
    for name, verb in commands.commands.items():
        assert f"## mmagen {name}\n" in text
        for option in (option for parameter in verb.params for option in parameter.opts if option.startswith("--")):
            assert option in text, (name, option)


def test_the_header_of_the_c_interface_is_there():
    text = pages.c_reference()
    assert "sm80_gemm_classic_run" in text and "sm80_gemm_classic_workspace_bytes" in text


def test_every_page_of_the_navigation_exists(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "gallery", lambda: [("gallery/index.md", "# All specs\n")])
    write(tmp_path / "docs")
    listed = re.findall(r"[\w/-]+\.md", yaml.dump(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert [page for page in listed if not (tmp_path / "docs" / page).is_file()] == []
    left_out = {path.name for path in (ROOT / "docs").glob("*.md")} - {Path(page).name for page in listed}
    assert not left_out


def built(sources: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """mkdocs --strict on other sources than those of mkdocs.yml."""
    config = (ROOT / "mkdocs.yml").read_text().replace("docs_dir: build/docs", f"docs_dir: {sources}")
    assert str(sources) in config
    (out.parent / "mkdocs.yml").write_text(config)
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        str(out.parent / "mkdocs.yml"),
        "-d",
        str(out),
    ]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=False)


@pytest.fixture
def few_specs(monkeypatch):
    """A gallery of one spec of each kind."""
    kept = [f"specs/{name}.yaml" for name in ("hello_micro", "sm80_gemm_classic", "sm90_gemm_bf16_f32")]
    found = [(path.stem, path) for path in map(ROOT.joinpath, kept)]

    def gallery():
        yield "gallery/index.md", "# All specs\n"
        for name, path in found:
            yield f"gallery/{name}.md", pages.page(path)

    monkeypatch.setattr(pages, "gallery", gallery)


def test_the_site_builds_without_a_warning(tmp_path, few_specs):
    pytest.importorskip("mkdocs")
    write(tmp_path / "docs")
    done = built(tmp_path / "docs", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site/gallery/sm80_gemm_classic.html").read_text()
    assert "<svg" in page and "TiledMMA covers" in page
    external = [link for link in re.findall(r'(?:src|href)="(https?:[^"]+)"', page) if "squidfunk" not in link]
    assert external == []


def test_a_broken_link_is_an_error(tmp_path, few_specs):
    pytest.importorskip("mkdocs")
    write(tmp_path / "docs")
    (tmp_path / "docs/index.md").write_text("[gone](gone.md)\n")
    done = built(tmp_path / "docs", tmp_path / "site")
    assert done.returncode != 0 and "gone.md" in done.stderr
