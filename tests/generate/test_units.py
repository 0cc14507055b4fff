"""Translation units: every file of src/ is in one of them, and kernels of a library share some."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import mmagen
from mmagen.generate.collection import collect
from mmagen.generate.render import render

FOLDER = Path(__file__).resolve().parents[2] / "specs"
KEYS = {path: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))}
SPECS = [path for path, keys in KEYS.items() if keys["kernel"] != "peak"]  # which is a program, and no library
LIBRARIES = [path for path, keys in KEYS.items() if "configs" in keys]


def _units(files: dict[str, bytes], library: str) -> list[list[str]]:
    """The sources of each translation unit, as CMakeLists.txt has them."""
    text = files["CMakeLists.txt"].decode()
    (alone,) = re.findall(rf"add_library\({library} ([^)]*\.cu)\)", text)
    together = re.findall(rf"mmagen_unit\({library} unit-\d+ ([^)]*)\)", text)
    assert bool(together) == ("include(cmake/mmagen_unit.cmake)" in text)
    return [*([file] for file in alone.split()), *(unit.split() for unit in together)]


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_every_source_is_compiled_once(spec):
    plan = mmagen.plan(spec)
    files = render(plan, with_figures=False)
    sources = sorted(path for path in files if path.startswith("src/"))
    units = _units(files, plan.name)
    assert sorted(file for unit in units for file in unit) == sources
    assert units[0] == [f"src/{plan.name}.cu"]


@pytest.mark.parametrize("spec", LIBRARIES, ids=lambda path: path.stem)
def test_kernels_share_units(spec):
    plan = mmagen.plan(spec)
    units = _units(render(plan, with_figures=False), plan.name)
    separate = [f"src/{name}.cu" for name, one in plan.by_kernel.items() if one.scheduler.several_widths]
    separate += [file for unit in units for file in unit if file == f"src/{plan.name}_compress.cu"]
    assert all([file] in units for file in separate)
    others = [len(unit) for unit in units[1:] if unit[0] not in separate]
    assert max(others) <= 6 and max(others) - min(others) <= 1
    assert len(others) >= 2 or sum(others) < 4
    assert len(others) == 1 or min(others) >= 2


def test_a_collection_has_the_same_units():
    names = ("sm90_gemm_bf16_library", "sm80_gemm_f64")
    plans = [mmagen.plan(FOLDER / f"{name}.yaml") for name in names]
    files = collect("kernels", plans)
    text = files["CMakeLists.txt"].decode()
    assert files["cmake/mmagen_unit.cmake"] == render(plans[0], with_figures=False)["cmake/mmagen_unit.cmake"]
    alone = re.findall(r'kernels_kernel\(sm90_gemm_bf16_library "90a" "NDEBUG"\s+([^)]*)\)', text)
    together = re.findall(r"mmagen_unit\(kernels_sm90_gemm_bf16_library unit-\d+\s+([^)]*)\)", text)
    units = [*([file] for file in alone[0].split()), *(unit.split() for unit in together)]
    of_project = _units(render(plans[0], with_figures=False), "sm90_gemm_bf16_library")
    assert [[file.replace("/sm90_gemm_bf16_library/", "/", 1) for file in unit] for unit in units] == of_project
    assert "mmagen_unit" not in collect("kernels", plans[1:])["CMakeLists.txt"].decode()
