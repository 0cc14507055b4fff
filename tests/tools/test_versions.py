"""The table of versions: what it says of a spec that does not compile, and the page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools import versions

ROOT = Path(__file__).resolve().parents[2]


def test_a_compiler_that_does_not_run_is_the_verdict(tmp_path):
    environment = {**os.environ, "CUDACXX": "/bin/false", "MMAGEN_CACHE_DIR": str(tmp_path)}
    said = versions._verdict(ROOT / "specs/hello_micro.yaml", environment)
    assert said != versions.PASSED and "CUDACXX" in said and len(said) <= 120


def test_the_page_has_a_row_for_each_pair():
    rows = [
        {"CUDA": "13.0.88", "CUTLASS": "4.2.0", "hello_micro": "passed"},
        {"CUDA": "13.5.37", "CUTLASS": "4.7.0", "hello_micro": "x"},
    ]
    page = versions._page(rows)
    assert page.startswith("# Versions\n") and page.count("| 13.") == 2 and "| 4.7.0" in page


def test_a_folder_without_headers_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["versions", "--cutlass", str(tmp_path)])
    with pytest.raises(SystemExit, match="no CUTLASS headers"):
        versions.main()
