"""tools/instructions.py: the page of instructions from several reports."""

from __future__ import annotations

import csv
import json

import pytest

from tools.instructions import PAGE, figures_of, page


def a_report(path, *changes):
    with PAGE.with_suffix(".csv").open() as lines:
        row = next(csv.DictReader(lines))
    numbers = {
        key: float(row[key]) for key in ("tflops", "clock_mhz", "power_w", "seconds", "latency_cycles", "interval_cycles")
    }
    one = {**row, **numbers, "pct_rate": None, "pct_datasheet": None, "reason": None}
    path.write_text("".join(json.dumps(one | change) + "\n" for change in changes))
    return path


def test_a_later_measurement_replaces_an_earlier_one(tmp_path):
    first = a_report(tmp_path / "a.json", {"tflops": 1.0}, {"name": "OTHER"})
    found = figures_of([first, a_report(tmp_path / "b.json", {"tflops": 2.0})])
    assert [(one["name"], one["tflops"]) for one in found] == [(found[0]["name"], 2.0), ("OTHER", found[1]["tflops"])]
    assert found[0]["name"] != "OTHER"
    text = page(found, "2026-11-22")
    assert text.startswith("# Every instruction of an H200") and "| OTHER" in text and "tools.instructions" in text


def test_reports_of_several_devices_are_refused(tmp_path):
    with pytest.raises(ValueError, match="of 2 devices or sets of versions"):
        figures_of([a_report(tmp_path / "a.json", {}, {"name": "OTHER", "driver": "1"})])
