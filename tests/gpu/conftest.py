"""Ends a run with tables: what mutations planted, how it should show and what verify said; errors and their bounds."""

from __future__ import annotations

from tabulate import tabulate

_TABLES = {
    "mutation": ("planted faults", ("mutation", "should show as", "verdict", "because")),
    "error_bound": ("error bounds", ("project", "problem", "inputs", "sums", "error", "bound", "verdict")),
}


def pytest_terminal_summary(terminalreporter):
    reports = [report for word in ("passed", "failed") for report in terminalreporter.stats.get(word, ())]
    for key, (title, heads) in _TABLES.items():
        rows = [value for report in reports for name, value in report.user_properties if name == key]
        if rows:
            terminalreporter.section(title)
            terminalreporter.write_line(tabulate(rows, headers=heads))
