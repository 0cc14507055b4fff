"""The pytest plugin: problems of specs as test items."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import xmlschema

pytestmark = pytest.mark.nvcc

ROOT = Path(__file__).resolve().parents[1]
MICRO = ROOT / "specs/fma_micro.yaml"
ITEMS = ["fma.mma.yaml::32x32x8-small_int", "fma.mma.yaml::32x32x8-uniform"]


@pytest.fixture
def specs(tmp_path) -> Path:
    shutil.copy(MICRO, tmp_path / "fma.mma.yaml")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**_environment(), "PYTHONPATH": str(ROOT)})
    return done.returncode, done.stdout + done.stderr


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}


def test_what_emulation_leaves_out_is_skipped_and_small_problems_run_as_written(specs):
    (specs / "gemm.mma.yaml").write_text(
        (ROOT / "specs/sm80_gemm_classic.yaml").read_text() + "problems: [[24, 40, 8], [4096, 4096, 4096]]\n"
    )
    code, said = run(specs, "gemm.mma.yaml", "--collect-only", "-q", "--mmagen-on", "cpu")
    items = said.splitlines()
    assert "gemm.mma.yaml::24x40x8-small_int" in items and "gemm.mma.yaml::4096x4096x4096" in items, said
    code, said = run(specs, "gemm.mma.yaml", "-rs", "-k", "4096x4096x4096", "--mmagen-on", "cpu")
    assert code == 0 and "1 skipped" in said and "replaced by small problems in emulation" in said


def test_each_problem_is_an_item(specs):
    code, said = run(specs, "--collect-only", "-q", "--mmagen-on", "cpu", "--strict-markers")
    assert code == 0 and said.splitlines()[:2] == ITEMS, said
    assert "32x32x8-uniform" in run(specs, "--collect-only", "-q", "--mmagen-on", "cpu", "-k", "uniform and not small_int")[1]
    assert run(specs, "--collect-only", "-q", "--mmagen-on", "cpu", "-m", "not nvcc")[0] == 5
    code, said = run(specs, "--collect-only", "-q", "--mmagen-on", "gpu", "-m", "gpu and nvcc")
    assert code == 0 and said.splitlines()[0] == "fma.mma.yaml::32x32x8", said


def test_items_run_on_several_workers_and_are_reported(specs):
    code, said = run(specs, "-n", "2", "--mmagen-on", "cpu", "--junitxml", "out.xml", "-o", "junit_logging=system-out")
    assert code == 0 and "2 passed" in said, said
    xmlschema.XMLSchema(ROOT / "tests/report/junit-10.xsd").validate(specs / "out.xml")
    suite = ElementTree.parse(specs / "out.xml").getroot()[0]
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["2", "0", "0", "0"]
    for printed in suite.iter("system-out"):
        error, bound = re.search(r"max_abs_err (\S+), bound (\S+), device cpu-ptx\n", printed.text).groups()
        assert 0 <= float(error) <= float(bound)
    assert len(list(suite.iter("system-out"))) == 2 and all(float(case.get("time")) > 0 for case in suite.iter("testcase"))


def test_figures_are_properties_in_the_family_that_has_them(specs):
    code, said = run(specs, "-k", "uniform", "--mmagen-on", "cpu", "--junitxml", "out.xml", "-o", "junit_family=xunit1")
    assert code == 0, said
    facts = {one.get("name"): one.get("value") for one in ElementTree.parse(specs / "out.xml").iter("property")}
    assert facts["device"] == "cpu-ptx" and float(facts["bound"]) >= float(facts["max_abs_err"])


def test_printed_names_can_be_pasted_back(specs):
    (specs / "some.folder").mkdir()
    (specs / "fma.mma.yaml").rename(specs / "some.folder/fma.mma.yaml")
    names = re.findall(r"^(\S+::\S+) PASSED", run(specs, "-v", "--mmagen-on", "cpu")[1], re.M)
    assert names == [f"some.folder/{item}" for item in ITEMS]
    code, said = run(specs, names[0], "--mmagen-on", "cpu")
    assert code == 0 and "1 passed" in said, said


def test_every_name_is_an_expression_of_k(specs):
    shutil.copy(ROOT / "specs/sm90_gemm_bf16_grouped.yaml", specs / "grouped.mma.yaml")
    for where in ("cpu", "gpu"):
        said = run(specs, "grouped.mma.yaml", "--collect-only", "-q", "--mmagen-on", where)[1]
        names = re.findall(r"^grouped.mma.yaml::(\S+)$", said, re.M)
        assert any("groups" in name for name in names) and all(re.fullmatch(r"[\w:+.-]+", name) for name in names), names
        found = run(specs, "--collect-only", "-q", "--mmagen-on", where, "-k", names[0])[1].splitlines()
        assert found[0] == f"grouped.mma.yaml::{names[0]}", found


def test_without_a_gpu_items_of_one_are_skipped(specs, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    code, said = run(specs, "-rs", "--mmagen-on", "gpu")
    assert code == 0 and "1 skipped" in said and "CUDA_VISIBLE_DEVICES hides every GPU" in said, said


def test_a_refused_spec_is_an_error_with_its_place(specs):
    text = MICRO.read_text()
    assert "tile: [32, 32, 8]" in text
    (specs / "bad.mma.yaml").write_text(text.replace("tile: [32, 32, 8]", "tile: [33, 32, 8]"))
    code, said = run(specs, "--mmagen-on", "cpu", "--collect-only", "-q", "bad.mma.yaml")
    assert code == 2 and "bad.mma.yaml:" in said and "tile" in said and "Traceback" not in said


def test_a_file_that_is_no_yaml_is_an_error_of_one_line(specs):
    (specs / "latin.mma.yaml").write_bytes(b"mmagen: 1\nname: \xe4\n")
    (specs / "open.mma.yaml").write_text("[1,2")
    (specs / "memory.mma.yaml").symlink_to("/proc/self/mem")  # nothing is at address 0
    code, said = run(specs, "--collect-only", "-q", "--mmagen-on", "cpu")
    assert code == 2 and "Traceback" not in said and "mmagen/pytest_plugin.py" not in said
    for sentence in (
        "latin.mma.yaml:2:7: byte 0xe4 is not UTF-8; save it as UTF-8",
        "open.mma.yaml:1:1: not YAML",
        "memory.mma.yaml cannot be read: Input/output error",
    ):
        assert sentence in said, said


def test_folders_of_specs_are_configured(specs):
    (specs / "kernels").mkdir()
    shutil.copy(MICRO, specs / "kernels/one.yaml")
    shutil.copy(MICRO, specs / "other.yaml")
    for written in ("kernels", "./kernels/", "kernels/../kernels"):
        (specs / "pytest.ini").write_text(f"[pytest]\nmmagen_specs = {written}\n")
        said = run(specs, "--collect-only", "-q", "--mmagen-on", "cpu")[1]
        assert "kernels/one.yaml::32x32x8-uniform" in said and "other.yaml" not in said, written
    (specs / "pytest.ini").write_text("[pytest]\nmmagen_specs = kernel\n")
    code, said = run(specs, "--mmagen-on", "cpu")
    assert code == 4 and said.count("\n") < 3 and "kernel is not a folder; name folders of specs" in said, said


def test_a_wrong_kernel_fails_with_a_sentence(specs):
    """The plugin's items judge as verify does: with a judge that finds a wrong element, both fail."""
    (specs / "conftest.py").write_text(
        "import mmagen.verify.emulated.judges.product as product\n"
        "from dataclasses import replace\n"
        "whole = product.compare\n"
        "product.compare = lambda *them: replace(whole(*them), reason='D(0,0) got 1 expected 2')\n"
    )
    code, said = run(specs, "--mmagen-on", "cpu", "-k", "small_int")
    assert code == 1 and "incorrect: D(0,0) got 1 expected 2" in said and "Traceback" not in said, said
