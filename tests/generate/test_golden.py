"""generated/ and its digests are what specs/ render to, byte for byte, on every machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mmagen
from mmagen.cli.build import load_specs
from mmagen.core.templates import templates_folder
from mmagen.generate.manifest import with_vendored
from mmagen.generate.render import render
from tools.goldens import DIGESTS, GENERATED, SPECS, WHOLE, committed, digests, drift, main, rendered, spelled

NAMES = sorted(path.stem for path in SPECS.glob("*.yaml"))

_MACHINE_PATH = re.compile(rb"(?<![\w.}$>*<-])/(?:home|root|tmp|usr|opt|mnt|var|srv|data|work|Users)/")
_DATE = re.compile(rb"\b(?:19|20)\d\d-[01]\d-[0-3]\d\b|\b[0-2]\d:[0-5]\d:[0-5]\d\b")
_REWRITE = "if that was intended, `python -m tools.goldens` rewrites generated/"


@pytest.fixture(scope="module")
def projects():
    return rendered()


@pytest.fixture
def copy(tmp_path):
    """A copy of generated/ to change."""
    return shutil.copytree(GENERATED, tmp_path / "generated", ignore=shutil.ignore_patterns("build"))


def test_generated_is_what_the_specs_render_to(projects):
    assert sorted(projects) == NAMES, "a spec's file has its name"
    lines = drift(projects)
    assert lines == [], f"{_REWRITE}:\n" + "\n".join(lines)


def test_each_kind_of_kernel_has_a_whole_project(projects):
    kinds = {json.loads(files["mmagen.json"])["kernel"] for files in projects.values()}
    assert {json.loads((GENERATED / name / "mmagen.json").read_bytes())["kernel"] for name in WHOLE} == kinds


def test_a_spec_that_drifted_is_named(projects, copy):
    other = next(name for name in NAMES if name not in WHOLE)
    changed = dict(projects)
    for name in (WHOLE[0], other):
        files = projects[name] | {"README.md": b"changed"}
        facts = json.loads(files["mmagen.json"])
        facts["files"]["README.md"] = hashlib.sha256(b"changed").hexdigest()
        changed[name] = files | {"mmagen.json": json.dumps(facts).encode()}
    assert drift(changed, copy) == [f"{WHOLE[0]}: 2 files differ: README.md, mmagen.json", f"{other}: differs"]


def test_projects_that_came_or_went_or_were_edited_are_named(projects, copy):
    other = next(name for name in NAMES if name not in WHOLE)
    less = {name: files for name, files in projects.items() if name != other}
    assert drift(less, copy) == [f"{other}: has a digest but no spec"]
    (copy / DIGESTS).write_bytes(spelled(digests(less)))
    (copy / "mine").mkdir()
    (copy / WHOLE[1] / "extra.txt").write_bytes(b"")
    assert drift(projects, copy) == [
        f"{WHOLE[1]}: 1 files differ: extra.txt",
        f"{other}: has no digest",
        "mine: is in generated/ but not among those to keep; delete it",
    ]


def test_one_command_writes_all_of_it(projects, copy, monkeypatch, capsys):
    (copy / DIGESTS).unlink()
    (copy / WHOLE[0] / "README.md").write_bytes(b"edited")
    monkeypatch.setattr(sys, "argv", ["goldens", "--check"])
    assert main(copy) == 1 and f"{WHOLE[0]}: 1 files differ: README.md\n" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["goldens"])
    assert main(copy) == 0 and drift(projects, copy) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_project_names_no_machine_and_no_day_and_its_digests_hold(name, projects):
    files = dict(projects[name])
    for path, content in files.items():
        assert _MACHINE_PATH.findall(content) == [], path
        assert _DATE.findall(content) == [], path
    manifest = json.loads(files.pop("mmagen.json"))
    assert manifest["files"] == {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    assert manifest["name"] == name and manifest["mmagen"] == mmagen.__version__


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_out_of_a_template_leaves_no_trace(name, projects):
    """No second blank line, no blanks at the end of a line, and the members of Config are indented."""
    for path, content in projects[name].items():
        text = content.decode()
        if path.startswith(("include/mmagen/", "tests/mmagen/")) or path.endswith(".svg"):
            continue  # copied as they are, or drawn
        assert not re.search(r"[ \t]$|\n\n\n|\n\n\Z", text, re.MULTILINE), path
        assert text.endswith("\n"), path
        if config := re.search(r"^struct Config \{\n(.*?)^\};$", text, re.MULTILINE | re.DOTALL):
            assert re.findall(r"^\S.*", config[1], re.MULTILINE) == [], path


def test_hash_seed_locale_zone_and_folder_change_no_byte(projects, tmp_path):
    surroundings = [
        {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "PYTHONUTF8": "0"},
        {"PYTHONHASHSEED": "4242", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "LANG": "tr_TR.UTF-8"},
    ]
    trees = []
    for number, variables in enumerate(surroundings):
        here = tmp_path / str(number)
        here.mkdir()
        subprocess.run(
            [sys.executable, "-m", "mmagen", "build", SPECS, "-o", "out"],
            cwd=here,
            check=True,
            env={**os.environ, **variables},
            capture_output=True,
        )
        trees.append(committed(here / "out"))
    assert trees[0] == trees[1]
    assert trees[0] == {f"{name}/{path}": content for name, files in projects.items() for path, content in files.items()}


def test_every_runtime_header_is_used_and_carries_the_versions_namespace(projects):
    major, minor, _ = mmagen.__version__.split(".")
    used = {Path(path).name for files in projects.values() for path in files if Path(path).match("*/mmagen/*.cuh")}
    # Those of atoms/ are for programs that check many operations at once, and no project's.
    headers = [path for path in sorted((templates_folder() / "runtime").rglob("*.cuh")) if path.parent.name != "atoms"]
    assert headers and [header.name for header in headers if header.name not in used] == []
    for header in headers:
        if header.name == "without_iostream.cuh":
            continue  # it has nothing of mmagen's, only declarations of the standard's
        spaces = re.findall(r"inline namespace (\w+)", header.read_text("utf-8"))
        assert spaces == [f"v{major}_{minor}"] * max(1, len(spaces)), header


def test_the_manifest_lists_vendored_headers_too():
    plan = load_specs([SPECS / f"{NAMES[0]}.yaml"]).planned[0].plan
    files = with_vendored(render(plan), {"third_party/cutlass/LICENSE.txt": b"text"})
    listed = json.loads(files.pop("mmagen.json"))["files"]
    assert listed == {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    assert list(listed) == sorted(listed)
