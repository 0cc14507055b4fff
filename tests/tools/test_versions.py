"""The table of versions: what it says of a spec that does not compile, and the page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools import clang_versions, versions

ROOT = Path(__file__).resolve().parents[2]


def test_a_compiler_that_does_not_run_is_the_verdict(tmp_path):
    environment = {**os.environ, "CUDACXX": "/bin/false", "MMAGEN_CACHE_DIR": str(tmp_path)}
    said = versions._verdict(ROOT / "specs/hello_micro.yaml", environment)
    assert said != versions.PASSED and "CUDACXX" in said and len(said) <= 120


def test_the_page_has_a_row_for_each_pair():
    rows = [
        {"CUDA": "13.0.88", "CUTLASS": "4.2.0", "compiler": "nvcc", "hello_micro": "passed"},
        {"CUDA": "13.5.37", "CUTLASS": "4.7.0", "compiler": "nvcc", "hello_micro": "x"},
    ]
    page = versions._page(rows)
    assert page.startswith("# Versions\n") and page.count("| 13.") == 2 and "| 4.7.0" in page


def test_cuda_12_needs_a_clang(tmp_path, monkeypatch):
    found = versions.find_toolchain(want=("cutlass",)).cutlass
    if found is None:
        pytest.skip("no CUTLASS headers")
    monkeypatch.setattr("sys.argv", ["versions", "--cuda", "12.6", "--work", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"no nvcc of CUDA 12\.6: name a clang"):
        versions.main()


def test_what_clang_says_of_a_project_is_the_verdict(tmp_path):
    """A compiler that records its calls, and one that fails."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
    bad.write_text("#!/bin/sh\necho 'note: x' >&2; echo 'a.cu:3: error: unknown type' >&2; exit 1\n")
    for one in (good, bad):
        one.chmod(0o755)
    spec = ROOT / "specs/hello_micro.yaml"
    assert clang_versions.verdict(spec, tmp_path, tmp_path, str(good)) == clang_versions.COMPILED
    calls = (tmp_path / "calls").read_text().splitlines()
    assert ["--cuda-device-only" in one for one in calls] == [True, False] and "--cuda-gpu-arch=sm_80" in calls[0]
    assert clang_versions.verdict(spec, tmp_path, tmp_path, str(bad)) == "a.cu:3: error: unknown type"


def test_the_page_has_the_command_that_makes_it():
    rows = [
        {"CUDA": "12.6.85", "CUTLASS": "4.2.0", "compiler": "clang 19.1.7", "hello_micro": "compiled"},
        {"CUDA": "13.0.88", "CUTLASS": "4.2.0", "compiler": "nvcc", "hello_micro": "passed"},
        {"CUDA": "13.0.88", "CUTLASS": "4.7.0", "compiler": "nvcc", "hello_micro": "passed"},
    ]
    page = versions._page(rows).replace(" \\\n        ", " ")
    folders = "--cutlass cutlass-4.2.0 --cutlass cutlass-4.7.0"
    assert f"    python -m tools.versions --cuda 12.6,13.0 {folders} --clang clang++-19 --markdown docs/versions.md\n" in page


@pytest.mark.parametrize("inside", ["include", ""])
def test_a_folder_of_cutlass_is_its_root_or_its_headers(tmp_path, monkeypatch, inside):
    """clang is given the folder that holds cutlass/version.h, as CMake is."""
    headers = tmp_path / "cutlass" / inside
    (headers / "cutlass").mkdir(parents=True)
    numbers = [f"#define CUTLASS_{part} {value}\n" for part, value in (("MAJOR", 4), ("MINOR", 9), ("PATCH", 1))]
    (headers / "cutlass/version.h").write_text("".join(numbers))
    seen = []
    monkeypatch.setattr(versions, "_row_of_clang", lambda pair, *rest: seen.append(pair) or {"CUDA": "12.6"})
    monkeypatch.setattr("sys.argv", ["versions", "--cuda", "12.6", "--clang", "it", "--cutlass", str(tmp_path / "cutlass")])
    assert versions.main() == 0
    assert [(pair.cutlass, pair.cutlass_version) for pair in seen] == [(headers.resolve(), "4.9.1")]


def test_a_folder_without_headers_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["versions", "--cutlass", str(tmp_path)])
    with pytest.raises(SystemExit, match="no CUTLASS headers"):
        versions.main()
