"""A library's host code is asked what it launches for operands that TMA cannot address."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mmagen.families import plan
from mmagen.plan.copies import Loads, loads
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated import operand_loads
from tests.support.mutations import ODD, SPECS

KERNELS = {
    Loads.TMA: ["sm90_kernel"],
    Loads.COPIES: ["copy_operands_kernel", "sm90_kernel"],
    Loads.FEW_ROWS: ["sm90_few_rows_kernel"],
    Loads.THREADS: ["sm90_unaligned_kernel"],
}


def library(path):
    return plan(load(path.read_bytes(), path.name).spec)


def wrong(of, launched):
    """What is wrong where a problem launches the kernels of `launched`, a function of what is planned."""

    def launches(structs, run):
        assert run == "library_run"
        entries = []
        for text in structs:
            call = eval(text)
            problem = Problem(shape=(call["m"], call["n"], call["k"]), ld_pad=1)
            planned = loads(of, problem, call.get("workspace", 1) != 0)
            entries.append([SimpleNamespace(entry=f"_Z{name}") for name in KERNELS[launched(planned)]])
        return entries

    calls = SimpleNamespace(arguments=repr)
    task = SimpleNamespace(library=of, symbol=lambda name: f"library_{name}")
    return operand_loads.wrong(SimpleNamespace(task=task, calls=calls, launches=launches))


@pytest.mark.parametrize("spec", ["few_rows", "clusters", "clusters_nt"])
def test_a_library_that_loads_as_planned_passes(spec):
    assert wrong(library(ODD / f"{spec}.yaml"), lambda planned: planned) == []


@pytest.mark.parametrize("one", Loads)
def test_each_other_way_is_named_with_the_call(one):
    other = Loads.THREADS if one != Loads.THREADS else Loads.COPIES
    found = wrong(library(ODD / "few_rows.yaml"), lambda planned: other if planned == one else planned)
    assert found and all(text.endswith(f"are loaded {other.value}, planned is: {one.value}") for text in found)
    assert any("without a workspace" in text for text in found) == (one != Loads.COPIES)


def test_of_a_kernel_alone_and_of_a_library_without_copies_nothing_is_asked():
    assert wrong(library(SPECS / "sm80_gemm_f16_library.yaml"), None) == wrong(None, None) == []
