"""What pip installs works without the checkout: templates inside the wheel, the same bytes from any folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "specs" / "hello_micro.yaml"


def _run(*command, **options) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment, **options)


def _tree(folder: Path) -> dict[str, bytes]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def index(request, tmp_path):
    """Skips when pip has no package index to take the build tool and the dependencies from."""
    done = _run(sys.executable, "-m", "pip", "download", "--no-deps", "--dest", tmp_path / "seen", "click")
    if done.returncode != 0:
        pytest.skip(f"{request.node.nodeid}: no package index in reach: {done.stderr.strip().splitlines()[-1]}")


def test_the_wheel_alone_builds_the_committed_project(index, tmp_path):
    made = _run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, ROOT, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    wheel = next(tmp_path.glob("mmagen-*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    templates = set(_tree(ROOT / "templates"))
    assert {name.removeprefix("mmagen/_templates/") for name in names if "/_templates/" in name} == templates
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {"mmagen/mma/operations.json", "mmagen/inspect/hover.js"} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"mmagen"}
    about = message_from_bytes(zipfile.ZipFile(wheel).read(next(name for name in names if name.endswith("dist-info/METADATA"))))
    assert about["Author"] == "mmagen developers" and about["License-Expression"] == "MIT AND MIT-0"
    assert {"mmagen/py.typed", *(f"mmagen/_specs/{path}" for path in _tree(ROOT / "specs"))} <= set(names)
    assert len(about.get_all("License-File")) == 2 and len(about.get_all("Classifier")) > 10

    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    installed = _run(python, "-m", "pip", "install", wheel, cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.yaml").write_bytes(SPEC.read_bytes())
    built = _run(python.with_name("mmagen"), "build", "mine.yaml", "-o", "out", cwd=elsewhere)
    assert built.returncode == 0, built.stderr
    assert _tree(elsewhere / "out" / SPEC.stem) == _tree(ROOT / "generated" / SPEC.stem)


def test_the_sdist_holds_what_it_takes_to_make_the_wheel(tmp_path):
    made = _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    assert made.returncode == 0, made.stderr
    name = next(tmp_path.glob("mmagen-*.tar.gz"))
    with tarfile.open(name) as archive:
        inside = {path.partition("/")[2] for path in archive.getnames()}
        page = archive.extractfile(name.name.removesuffix(".tar.gz") + "/PKG-INFO").read().decode("utf-8")
    wanted = {f"{folder}/{path}" for folder in ("templates", "specs") for path in _tree(ROOT / folder)}
    assert wanted | {"pyproject.toml", "README.md", "LICENSE", "mmagen/cli/main.py"} <= inside
    folders = {path.split("/")[0] for path in inside if "/" in path}
    assert folders <= {"mmagen", "templates", "tools", "specs", "generated", "tests", "docs", "examples", ".ci"}
    # What PyPI shows: a path that it names is in this archive, and none is a link, which would lead nowhere.
    linked = re.findall(r"\]\((?!https?:)([^)]*)\)", (ROOT / "README.md").read_text("utf-8"))
    assert len(linked) > 10 and re.findall(r"\]\((?!https?:)", page) == [] and "--no-binary mmagen mmagen" in page
    shown = [path for path in linked if not path.endswith(".svg")]
    assert all(f"`{path}`" in page and (ROOT / path).exists() for path in shown)


def test_ci_runs_the_commands_that_the_readme_names():
    readme = (ROOT / "README.md").read_text("utf-8")
    last = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()[-1]
    assert "pytest" in last and any(line.startswith("    ") and line.endswith(f" && {last}") for line in readme.splitlines())
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
