"""Ratios to cuBLASLt and their means."""

from types import SimpleNamespace

import pytest

from mmagen.report.baselines import CUBLASLT, CUSPARSELT, comparisons, geometric_mean, summary


def verdict(name, *rows):
    records = [
        {"name": who, "problem": problem, "tflops": tflops, "sm_clock_mhz": 1500.0, "power_w": None}
        for who, problem, tflops in rows
    ]
    return SimpleNamespace(name=name, records=records)


RAN = verdict(
    "k",
    ("k", "8,8,8", None),
    ("k", "8,8,8", 200.0),
    ("cublasLt_first", "8,8,8", 80.0),
    ("cublasLt_best8", "8,8,8", 100.0),
    ("k", "8,8,8 sustained", 50.0),
    ("cublasLt_first", "8,8,8 sustained", 100.0),
    ("cublasLt_best8", "8,8,8 sustained", 100.0),
    ("k", "16,8,8", 100.0),
    ("cublasLt_first", "16,8,8", 200.0),
    ("cublasLt_best8", "16,8,8", 200.0),
    ("k", "9,9,9", 1.0),
)


def test_a_bout_is_a_timed_record_with_both_rivals_of_the_same_run():
    found = comparisons([RAN], CUBLASLT)
    assert [(bout.problem, bout.sustained, bout.tflops, bout.first, bout.best) for bout in found] == [
        ("8,8,8", False, 200.0, 80.0, 100.0),
        ("16,8,8", False, 100.0, 200.0, 200.0),
        ("8,8,8", True, 50.0, 100.0, 100.0),
    ]
    assert comparisons([verdict("k", ("k", "8,8,8", 1.0))], CUBLASLT) == []
    extents = [8, 8, 16]
    for library in (CUBLASLT, CUSPARSELT):
        ran = verdict("k", *((who, extents, 1.0) for who in ("k", library.first, library.best)))
        assert [bout.problem for bout in comparisons([ran], library)] == ["8x8x16"]
        assert comparisons([ran], CUSPARSELT if library is CUBLASLT else CUBLASLT) == []


def test_means_are_geometric_and_short_runs_do_not_mix_with_sustained_ones():
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1.0)
    lines = summary(comparisons([RAN], CUBLASLT), CUBLASLT).splitlines()
    short, sustained = lines[2].split("|"), lines[3].split("|")
    assert [cell.strip() for cell in short[1:7]] == ["k", "short", "2", "1.000", "0.500", "1.118"]
    assert [cell.strip() for cell in sustained[1:7]] == ["k", "sustained", "1", "0.500", "0.500", "0.500"]
