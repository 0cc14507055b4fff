"""Warnings of build about a kernel: bank conflicts and registers, each with a change that does what the warning says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from mmagen.families import plan
from mmagen.families.kernel_warnings import _extra, _loads, _may_conflict, _registers, warnings
from mmagen.spec.load import load
from mmagen.spec.model import Spec
from tests.support.fakes import typed

SPECS = Path(__file__).resolve().parents[2] / "specs"
QUAD = {"mmagen": 1, "name": "q", "kernel": "gemm", "atom": "SM70_8x8x4_F32F16F16F32_NT", "layout": "NT", "tile": [64, 64, 32]}
DP4A = {"mmagen": 1, "name": "d", "kernel": "gemm", "atom": "SM61_DP4A", "layout": "TN", "tile": [64, 64, 32]}
# [4, 64, 1] loads without conflicts, and half as much again as [8, 32, 1].
SCALAR = {
    "mmagen": 1,
    "name": "s",
    "kernel": "gemm",
    "atom": "UniversalFMA<float>",
    "layout": "TN",
    "tile": [128, 256, 32],
    "atoms_layout": [16, 16, 1],
    "arch": ["sm_80"],
}
LARGE = {
    "mmagen": 1,
    "name": "l",
    "kernel": "gemm",
    "atom": "SM80_16x8x16_F32F16F16F32_TN",
    "tile": [256, 192, 32],
    "atoms_layout": [4, 2, 1],
    "permutation": [64, 32, 16],
}


def planned(keys: dict):
    return plan(Spec.model_validate(keys))


def change_of(text: str) -> dict:
    return yaml.safe_load(re.search(r"; (\w+: .*?) (?:avoids|leaves)", text)[1])


@pytest.mark.parametrize(
    "keys",
    [QUAD | {"atoms_layout": [4, 4, 1]}, DP4A | {"atoms_layout": [16, 16, 1]}, DP4A | {"atoms_layout": [32, 8, 1]}, SCALAR],
)
def test_conflicts_and_the_change_that_mends_them(keys):
    (text,) = warnings(planned(keys))
    part = re.search(r"(\d+)% more wavefronts", text)
    assert part and f"{_extra(planned(keys)):.0%}" == f"{part[1]}%"
    left = _extra(planned(keys | change_of(text)))
    assert left == 0 if "avoids" in text else f"leaves {left / _extra(planned(keys)):.0%}" in text
    assert sum(one.taken for one in _loads(planned(keys | change_of(text)))) < sum(one.taken for one in _loads(planned(keys)))


@pytest.mark.parametrize(
    "keys", [DP4A | {"atoms_layout": [8, 16, 1]}, QUAD | {"name": "n", "kernel": "micro", "atoms_layout": [4, 4, 1]}]
)
def test_no_warning_without_conflicts_or_of_another_kernel(keys):
    assert list(warnings(planned(keys))) == []


@pytest.mark.parametrize("name", [path.stem for path in sorted(SPECS.glob("*gemm*.yaml"))])
def test_what_is_not_counted_has_no_conflicts(name):
    it = plan(load((SPECS / f"{name}.yaml").read_bytes(), name).spec)
    for one in it.kernels:
        for operand in one.operands:
            if operand.smem_copy and not operand.tma and not _may_conflict(operand):
                assert _extra(one, operand) == 0


def test_registers_that_may_not_suffice():
    (text,) = warnings(planned(LARGE))
    needed, most = _registers(planned(LARGE))
    assert needed > most == 255 and "ptxas may spill registers: 192 for sums" in text
    again, most = _registers(planned(LARGE | change_of(text)))
    assert again <= most and text.endswith(f"leaves it {again}")


def test_build_prints_them(tmp_path, capsys):
    path = tmp_path / "l.yaml"
    path.write_text(yaml.safe_dump(LARGE))
    code, _, err = typed(capsys, "build", str(path), "-o", str(tmp_path))
    assert code == 0 and "mmagen: l: warning: ptxas may spill" in err


def test_only_keys_that_are_set_can_be_written():
    keys = QUAD | {"atoms_layout": [4, 4, 1], "epilogue": {"out": "f16"}}
    assert Spec.model_validate(keys).model_dump(mode="json", exclude_unset=True)["epilogue"] == {"out": "f16"}
