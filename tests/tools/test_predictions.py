"""The page of predicted and measured times is of the pages and specs that there are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tools import predictions

TEXT = """\
## one: passed

TN (A: K contiguous) · bf16 x bf16 + f32 -> bf16 · spec 0123456789abcdef · registers 128 · spill bytes 0 · shared memory 4096

| name | problem | ms |
|------|---------|----|
| one | 64,64,64 | |
| one | 1000,1000,1000 | 0.5 |
| cublasLt_first | 1000,1000,1000 | 0.4 |
| SM80 register loop | 1000,1000,1000 | 0.4 |
"""
RATED = """
| kernel | problem | run | TFLOPS |
|---|---|---|---|
| one | 1000,1000,1000,3 | short | 6.0 |
| one | 1,1,1 | sustained | 1 |
"""


@pytest.fixture(scope="module")
def plans():
    return predictions.plans()


def test_measured_times_are_those_of_kernels():
    assert predictions.sections(TEXT) == {"one": ("0123456789abcdef", 4096)}
    assert [*predictions.measured(TEXT)] == [("one", "1000,1000,1000", 500.0)]
    assert [*predictions.measured(TEXT + RATED)] == [("one", "1000,1000,1000,3", 1000.0)]


def test_a_spec_that_has_changed_is_left_out(plans):
    plan = plans["sm80_gemm_classic"]
    text = TEXT.replace("one", plan.name).replace("0123456789abcdef", plan.spec_sha)
    (row,) = predictions.rows([text], plans)
    assert (row.name, row.measured, row.by) == (plan.name, 500.0, "estimate") and 5 < row.predicted < 50
    assert row.error == row.predicted / 500 - 1
    assert predictions.rows([text], plans | {plan.name: replace(plan, spec_sha="another")}) == []


def test_the_page_is_up_to_date_and_within_its_bound(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["predictions", "--check"])
    assert predictions.main() == 0, capsys.readouterr().out
    text = predictions.PAGE.read_text("utf-8")
    median = re.search(r"\| all \| (\d+) \| ([\d.]+)%", text)
    planned, of = map(int, re.search(r"as planned for (\d+) of (\d+)", text).groups())
    assert int(median[1]) > 40 and float(median[2]) <= 10 and planned == of > 10
