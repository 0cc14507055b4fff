"""python -m tools.test_tables PAGE REPORT... --markdown FILE: a page of results from what tests on a GPU said.

PAGE: mutations, of tests/gpu/test_mutations.py, or error_bounds, of tests/gpu/test_error_bounds.py. REPORT: tests.jsonl of
`python -m tools.gpu_round`, or what `pytest -p tools.gpu_round.reported --round-report FILE` wrote. Of a test that ran several
times the last one counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from mmagen.core.errors import ExitCode

Line = Mapping[str, Any]
_PROBLEM = "256,256,4096"  # of the table of error bounds
_FAULTS = ("right", "zero", "missing")

_MUTATIONS = """\
Every fault is edited into a generated project, compiled, run and judged by `verify`. The last rows are controls and unedited
projects, which pass."""
_BOUNDS = f"""\
The largest error and its bound for {_PROBLEM.replace(",", " x ")}, by the bound of the right kernel's worst element. Where D must
be equal, the bound is 0. Other accumulation: the same product with sums that the instruction must not have; where one distribution
cannot tell them apart, the other does. [error-bounds.md](../error-bounds.md) derives the bounds."""


def read(paths: Iterable[Path]) -> list[Line]:
    """The lines of reports; those that are cut are left out."""
    found: list[Line] = []
    for path in paths:
        for line in path.read_text("utf-8", "replace").splitlines():
            try:
                item = json.loads(line)
            except ValueError:
                continue
            if isinstance(item, dict):
                found.append(item)
    return found


def figures(lines: Iterable[Line], name: str) -> list[list[Any]]:
    """What tests recorded as property `name`, the last of each test."""
    last = {line["test"]: line for line in lines if "test" in line}
    return [value for line in last.values() for key, value in line.get("properties", ()) if key == name]


def mutations(lines: Sequence[Line]) -> str:
    """The table of planted faults."""
    heads = ("planted fault", "how it should show", "verdict", "because")
    rows = [[str(cell).replace("|", "\\|") for cell in row] for row in figures(lines, "mutation")]
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True) if rows else ""


def error_bounds(lines: Sequence[Line]) -> str:
    """The table of errors, one row for each type and distribution."""
    by: dict[tuple[str, str], dict[str, str]] = {}
    for project, problem, inputs, sums, error, bound, _ in figures(lines, "error_bound"):
        if problem != _PROBLEM:
            continue
        other = sums not in _FAULTS
        title = str(project).removeprefix("bounds_").removesuffix("_other" if other else "").replace("_", " ")
        row = by.setdefault((title, inputs), {})
        row["other" if other else sums] = f"{_number(error)} ({sums})" if other else _number(error)
        row |= {"bound": _number(bound)} if sums == "right" else {}
    rows = [[*key, *(row.get(cell, "") for cell in ("bound", *_FAULTS, "other"))] for key, row in by.items()]
    heads = (
        "A and B, accumulator, instruction",
        "inputs",
        "bound",
        "right",
        "sums zeroed",
        "k tile missing",
        "other accumulation",
    )
    return tabulate(rows, heads, tablefmt="github", disable_numparse=True) if rows else ""


def _number(value: float | None) -> str:
    """None: an error that is no number."""
    return "nan" if value is None else f"{value:.3g}"


_PAGES: dict[str, tuple[str, str, str, Callable[[Sequence[Line]], str]]] = {
    "mutations": ("Planted faults", "test_mutations.py", _MUTATIONS, mutations),
    "error_bounds": ("Error bounds on a GPU", "test_error_bounds.py", _BOUNDS, error_bounds),
}


def page(name: str, lines: Sequence[Line], command: str) -> str:
    """The page as Markdown; "" if no test has said anything for it."""
    title, module, introduction, table = _PAGES[name]
    body = table(lines)
    if not body:
        return ""
    last = {line["test"]: line["outcome"] for line in lines if "test" in line and f"{module}::" in line["test"]}
    counts = {word: sum(outcome == word for outcome in last.values()) for word in ("passed", "failed", "skipped")}
    machine: Mapping[str, str] = next((line["machine"] for line in reversed(lines) if line.get("machine")), {})
    facts = " · ".join(str(machine[key]) for key in ("device", "driver", "cuda", "cutlass", "date") if machine.get(key))
    of_tests = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    made = f"Made by `{command}` of the tests in `tests/gpu/{module}`: {of_tests}."
    return "\n\n".join([f"# {title}", facts, made, introduction, body]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 77 if the reports have nothing for the page."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.test_tables", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", choices=_PAGES)
    parser.add_argument("reports", type=Path, nargs="+", metavar="REPORT")
    parser.add_argument("--markdown", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    words = [options.page, *map(str, options.reports), "--markdown", str(options.markdown)]
    text = page(options.page, read(options.reports), " ".join(["python -m tools.test_tables", *words]))
    if not text:
        print("no test of the reports has said anything for this page", file=sys.stderr)
        return ExitCode.NOTHING_VERIFIED
    options.markdown.write_text(text, "utf-8")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
