"""Every generated file that can have comments begins with its licence."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmagen.families.reading import read
from mmagen.generate.collection import collect
from mmagen.generate.render import render

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = (".md", ".json", ".yaml", "LICENSE")
LINE = b"SPDX-License-Identifier: MIT-0\n"


def plan_of(name: str):
    path = ROOT / "specs" / f"{name}.yaml"
    found, faults = read(path.read_bytes(), str(path))
    assert found, faults
    return found


@pytest.mark.parametrize(
    "name", ["hello_micro", "hello_ownership", "sm80_gemm_classic", "sm90_gemm_bf16_library", "hello_peak"]
)
def test_a_project_s_files_name_their_licence(name):
    _check(render(plan_of(name)))


def test_so_do_those_of_a_library():
    _check(collect("both", [plan_of("sm80_gemm_classic"), plan_of("sm90_gemm_bf16_tn")]))


def _check(files):
    for path, content in files.items():
        if path.endswith(WITHOUT):
            continue
        first, _, rest = content.partition(b"\n")
        assert first + b"\n" in (b"// " + LINE, b"# " + LINE, b"<!-- " + LINE[:-1] + b" -->\n"), path
        assert LINE not in rest, f"{path}: twice"
    assert files["LICENSE"].startswith(b"MIT No Attribution\n")
