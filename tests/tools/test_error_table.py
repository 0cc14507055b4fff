"""In every type, sums of zero, a missing k tile and another accumulation exceed the error bound, and a right kernel does not."""

from __future__ import annotations

import re

import pytest

from tests.support.accumulation_faults import FAULTS, OTHER, VARIABLE, project
from tools import error_bounds
from tools.error_bounds import SPECS, plan_of, rows

K = 512
# The more k tiles, the more are fast sums worse than precise ones, and sums of integers beyond what f16 holds.
DEPTH = {"precise": 1024, "e4m3 + f32, sparse": 3072, "2 bf16 pieces": 4096}


@pytest.fixture(scope="module")
def found():
    """[type][distribution]"""
    depth = {name: next((k for word, k in DEPTH.items() if word in name), K) for name in SPECS}
    return {name: {row.distribution: row for row in rows(name, depth[name])} for name in SPECS}


@pytest.mark.parametrize("name", SPECS)
def test_right_sums_pass(found, name):
    for row in found[name].values():
        assert (row.right.incorrect, row.right.reason) == (0, "")


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("distribution", ["uniform", "small_int"])
def test_zeroed_sums_and_a_missing_k_tile_are_wrong(found, name, distribution):
    row = found[name][distribution]
    for fault in (row.zero, row.missing):
        assert fault.incorrect > error_bounds.ROWS**2 // 3 and fault.max_abs_err > fault.bound


@pytest.mark.parametrize("name", SPECS)
def test_another_accumulation_is_wrong(found, name):
    uniform, exact = found[name]["uniform"], found[name]["small_int"]
    assert max(uniform.other.incorrect, exact.other.incorrect) >= 20
    # Few bits are kept either way: what tells such sums apart are integers that f16 or bf16 do not hold.
    few = uniform.other_name == "bf16 sums" or (name.startswith("e") and uniform.other_name == "f16 sums")
    assert uniform.other.incorrect or few


@pytest.mark.parametrize("name", [name for name in SPECS if "wgmma" in name and "32" in name and "s32" not in name])
def test_bounds_are_near_the_errors(found, name):
    row = found[name]["uniform"]
    assert 0 < row.right.bound < 50 * row.right.max_abs_err


def test_the_tool_prints_a_row_for_each_distribution(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["error_bounds", "--k", "64", "--only", "tf32 + f32, mma"])
    error_bounds.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[4] for line in lines[2:]] == ["uniform", "small_int"]
    monkeypatch.setattr(
        "sys.argv", ["error_bounds", "--k", "64", "--only", "tf32 + f32, mma", "--markdown", str(tmp_path / "x.md")]
    )
    error_bounds.main()
    assert "| tf32 + f32, mma | uniform" in (tmp_path / "x.md").read_text()


@pytest.mark.parametrize("name", SPECS)
def test_faults_can_be_planted_in_kernels_of_every_type(name):
    right = project(name)["tests/subject.cuh"].decode()
    assert right.count(VARIABLE) == 1 and all(f'fault() == "{fault}"' in right for fault in FAULTS)
    if name not in OTHER:
        return
    files, own = project(name, other=True), plan_of(OTHER[name])
    subject = files["tests/subject.cuh"].decode()
    kept = re.search(r"kAccumulation = \{.*?\};", right, re.DOTALL)
    assert kept and kept[0] in subject and VARIABLE not in subject
    assert own.atom.name in files["spec.yaml"].decode()
