"""generated/ is what specs/ render to, byte for byte, on every machine; no second copy is kept anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mmagen
from mmagen.cli.build import load_specs, with_vendored
from mmagen.generate.render import render, templates_folder

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "generated"
SPECS = sorted((ROOT / "specs").glob("*.yaml"))

_MACHINE_PATH = re.compile(rb"(?<![\w.}$>*<-])/(?:home|root|tmp|usr|opt|mnt|var|srv|data|work|Users)/")
_DATE = re.compile(rb"\b(?:19|20)\d\d-[01]\d-[0-3]\d\b|\b[0-2]\d:[0-5]\d:[0-5]\d\b")


def committed(project: Path) -> dict[str, bytes]:
    """The files of a project, without what building it leaves behind."""
    paths = (path for path in project.rglob("*") if path.is_file())
    inside = {path.relative_to(project).as_posix(): path for path in paths}
    return {name: path.read_bytes() for name, path in inside.items() if not name.startswith("build/")}


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_generated_is_what_the_spec_renders_to(spec):
    plan = load_specs([spec])[0].plan
    rendered, there = render(plan), committed(GENERATED / plan.name)
    assert spec.stem == plan.name
    assert rendered.keys() == there.keys()
    assert [path for path in rendered if rendered[path] != there[path]] == []


def test_generated_holds_the_projects_of_specs_and_nothing_else():
    assert sorted(path.name for path in GENERATED.iterdir()) == [spec.stem for spec in SPECS]


@pytest.mark.parametrize("project", sorted(GENERATED.iterdir()), ids=lambda path: path.name)
def test_a_project_names_no_machine_and_no_day_and_its_digests_hold(project):
    files = committed(project)
    for path, content in files.items():
        assert _MACHINE_PATH.findall(content) == [], path
        assert _DATE.findall(content) == [], path
    manifest = json.loads(files.pop("mmagen.json"))
    assert manifest["files"] == {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    assert manifest["name"] == project.name and manifest["mmagen"] == mmagen.__version__


def test_hash_seed_locale_zone_and_folder_change_no_byte(tmp_path):
    surroundings = [
        {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "PYTHONUTF8": "0"},
        {"PYTHONHASHSEED": "4242", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "LANG": "tr_TR.UTF-8"},
    ]
    trees = []
    for number, variables in enumerate(surroundings):
        here = tmp_path / str(number)
        here.mkdir()
        subprocess.run(
            [sys.executable, "-m", "mmagen", "build", ROOT / "specs", "-o", "out"],
            cwd=here,
            check=True,
            env={**os.environ, **variables},
            capture_output=True,
        )
        trees.append(committed(here / "out"))
    assert trees[0] == trees[1]
    assert trees[0] == {
        f"{project.name}/{path}": content for project in GENERATED.iterdir() for path, content in committed(project).items()
    }


def test_every_runtime_header_is_used_and_carries_the_versions_namespace():
    major, minor, _ = mmagen.__version__.split(".")
    used = {path.name for path in GENERATED.glob("*/*/mmagen/*.cuh")}
    # Those of atoms/ are for programs that check many operations at once, and no project's.
    headers = [path for path in sorted((templates_folder() / "runtime").rglob("*.cuh")) if path.parent.name != "atoms"]
    assert headers and [header.name for header in headers if header.name not in used] == []
    for header in headers:
        spaces = re.findall(r"inline namespace (\w+)", header.read_text("utf-8"))
        assert spaces == [f"v{major}_{minor}"] * max(1, len(spaces)), header


def test_the_manifest_lists_vendored_headers_too():
    files = with_vendored(render(load_specs(SPECS[:1])[0].plan), {"third_party/cutlass/LICENSE.txt": b"text"})
    listed = json.loads(files.pop("mmagen.json"))["files"]
    assert listed == {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    assert list(listed) == sorted(listed)
