"""A pytest plugin (-p tools.gpu_round.reported): a JSON line for each test as it ends, every N-th test of those collected, and
none of those that passed before.

What ended before pytest was killed is in the file; its own reports are written at the end.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from mmagen.toolchain.find import find_toolchain


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("round", "tests of a round on a GPU, see tools/gpu_round")
    group.addoption("--round-report", type=Path, help="append JSON lines to this file")
    group.addoption("--round-passed", type=Path, help="a file with names of tests to leave out, one a line")
    group.addoption("--round-shard", default="1/1", metavar="I/N", help="every N-th test, I from 1 to N")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    index, count = map(int, config.getoption("--round-shard").split("/"))
    path = config.getoption("--round-passed")
    passed = set(path.read_text("utf-8").splitlines()) if path else set()
    chosen = [item for item in items[index - 1 :: count] if item.nodeid not in passed]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
    _append(config, {"collected": [item.nodeid for item in items], "machine": _machine()})


class _Reports:
    """Of the whole run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test that passes is reported when it was called; one that fails or is skipped, also while it was set up or torn down.
        if report.when == "call" or report.outcome != "passed":
            why = "" if report.outcome == "passed" else _reason(report)
            said = {"test": report.nodeid, "outcome": report.outcome, "reason": why}
            _append(self._config, said | ({"properties": report.user_properties} if report.user_properties else {}))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome != "passed":  # a module that skips itself, or cannot be imported
            _append(self._config, {"test": report.nodeid, "outcome": report.outcome, "reason": _reason(report)})


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Reports(config))


def _machine() -> dict[str, str]:
    """What tests run on, as pages of results have it."""
    tools = find_toolchain(want=("gpus", "nvcc", "cutlass"))
    facts = {"date": datetime.date.today().isoformat()}
    facts |= {"device": tools.gpus[0].name, "driver": f"driver {tools.gpus[0].driver}"} if tools.gpus else {}
    facts |= {"cuda": f"CUDA {tools.nvcc.version}"} if tools.nvcc else {}
    return facts | ({"cutlass": f"CUTLASS {tools.cutlass.version}"} if tools.cutlass else {})


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """One line."""
    if isinstance(report.longrepr, tuple):  # of a skip: file, line, reason
        return report.longrepr[2].removeprefix("Skipped: ")[:300]
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return lines[0][1:].strip()[:300] if lines else report.longreprtext.strip().splitlines()[-1][:300]


def _append(config: pytest.Config, item: dict[str, Any]) -> None:
    path = config.getoption("--round-report")
    if path:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(item) + "\n")
