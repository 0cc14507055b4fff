"""The README of a project shows the layouts of its tile and the pipeline of its kernels, as inspect draws them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from mmagen.families import plan as planned
from mmagen.generate.render import render
from mmagen.inspect.page import pictures
from mmagen.spec.load import load
from tests.support.mutations import SPECS


def _project(name: str):
    it = planned(load((SPECS / f"{name}.yaml").read_bytes(), name).spec)
    return it, render(it)


@pytest.mark.parametrize(
    "name",
    ["sm80_gemm_classic", "sm90_gemm_bf16_pingpong", "sm90_gemm_bf16_library", "sm80_gemm_sparse_f16", "hello_ownership"],
)
def test_every_picture_of_the_readme_is_there_and_small(name):
    it, files = _project(name)
    drawn = [path for path in files if path.endswith(".svg")]
    shown = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", files["README.md"].decode())
    assert sorted(shown) == sorted(drawn)
    assert ("figures/pipeline" in " ".join(drawn)) == (it.kernel == "gemm")
    assert 0 < sum(len(files[path]) for path in drawn) <= 150_000
    for path in drawn:
        assert ElementTree.fromstring(files[path]).tag.endswith("svg")


def test_the_picture_is_that_of_inspect():
    it, files = _project("sm80_gemm_classic")
    (drawn,) = (one.svg for one in pictures(it, {}) if one.name == "pipeline")
    assert files["figures/pipeline.svg"].decode().partition("\n")[2] == drawn


def test_equal_pipelines_of_a_library_are_shown_once():
    _, files = _project("sm80_gemm_bf16_library")
    bodies = [content.decode().partition("<path")[2] for path, content in files.items() if path.startswith("figures/pipeline")]
    assert len(bodies) == len(set(bodies)) > 0
