"""python -m tools.instructions REPORT...: docs/results/h200-instructions.md and .csv from reports of `mmagen peak --json`.

Reports are of one device and one set of versions; a later measurement of an operation replaces an earlier one. They are of short
loops: rates of a second and longer are those of h200-peaks.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from mmagen.microbench import report
from mmagen.microbench.figures import Machine

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/results/h200-instructions.md"
_COMMAND = "mmagen peak --program PROGRAM --inputs random --seconds 0.03 to 0.1 --sample-ms 0.3 to 1 --json REPORT"
_TITLE = "# Every instruction of an H200: rate, latency, issue interval"
_ABOUT = (
    ", 40 to 100 operations a call, in programs that `--compile-only` had built on another machine, and\n"
    "`python -m tools.instructions REPORT...`. These runs are too short for the clock to fall: [h200-peaks.md](h200-peaks.md) has\n"
    "rates of a second and longer, and what the board draws. All operations measured are in\n"
    "[h200-instructions.csv](h200-instructions.csv), with latency and interval."
)


def figures_of(reports: Sequence[Path]) -> list[dict[str, Any]]:
    """The operations of all reports, each once. Raises ValueError for reports of several devices or versions."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in reports:
        for line in filter(str.strip, path.read_text().splitlines()):
            one = json.loads(line) | {"sweep": None}
            found[one["name"], one["inputs"]] = {"reason": None} | one
    machines = {astuple(machine_of(one)) for one in found.values()}
    if len(machines) != 1:
        raise ValueError(f"the reports are of {len(machines)} devices or sets of versions; pass those of one")
    return list(found.values())


def machine_of(figure: dict[str, Any]) -> Machine:
    """What a figure was measured on."""
    return Machine(*(figure[key] for key in ("arch", "device", "driver", "cuda", "cutlass", "mmagen")))


def page(figures: Sequence[Any], date: str) -> str:
    """The page in Markdown."""
    text = report.to_markdown(figures, machine_of(figures[0]), command=_COMMAND, date=date)
    return text.replace("# Peaks of MMA operations", _TITLE, 1).replace(f"`{_COMMAND}`.", f"`{_COMMAND}`{_ABOUT}", 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--date", required=True, help="of the measurement, e.g. 2026-11-22")
    given = parser.parse_args()
    figures: list[Any] = figures_of(given.reports)
    PAGE.write_text(page(figures, given.date))
    PAGE.with_suffix(".csv").write_text(report.to_csv(figures))
    print(f"{PAGE}: {len(figures)} operations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
