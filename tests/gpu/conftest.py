"""Ends a run of the mutations with a table: what was planted, how it should show, what verify said."""

from __future__ import annotations

from tabulate import tabulate


def pytest_terminal_summary(terminalreporter):
    reports = [report for word in ("passed", "failed") for report in terminalreporter.stats.get(word, ())]
    rows = [value for report in reports for name, value in report.user_properties if name == "mutation"]
    if rows:
        terminalreporter.section("planted faults")
        terminalreporter.write_line(tabulate(rows, headers=("mutation", "should show as", "verdict", "because")))
