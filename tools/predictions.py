"""python -m tools.predictions [--add REPORT...] [--check]: docs/results/h200-predictions.md, predicted beside measured.

Measured are the records in docs/results/h200-times.csv: of `verify --bench` on an H200, short runs on random data, a line for
each problem of a spec. --add takes records from `verify --json` files, whose newer lines replace older ones of the same spec and
problem. Those of split f32 follow from the TFLOPS of docs/split.md, with its four digits; their registers were not kept. Predicted
are the times that `mmagen new` ranks by, and of a library's config those that it chooses by. Specs that have changed since they
were measured are left out. --check compares the page with what would be written, exit code 1.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from mmagen.families import family_of
from mmagen.families.estimate import predicted
from mmagen.families.library import choose
from mmagen.families.reading import read
from mmagen.plan.cost import predict
from mmagen.plan.devices import DEVICES
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/results/h200-predictions.md"
TIMES = ROOT / "docs/results/h200-times.csv"
_DEVICE = next(device for device in DEVICES if device.name == "h200")
_SHORT_US = 20.0  # below, launches weigh as much as the kernel


@dataclass(frozen=True)
class Time:
    """A line of TIMES. sha: of the spec; problem: as records write it; us: median, microseconds; registers, spilled, smem: of
    the kernel, in registers and bytes; 0 registers: unknown."""

    name: str
    sha: str
    problem: str
    us: float
    registers: int
    spilled: int
    smem: int


@dataclass(frozen=True)
class Row:
    """A call. measured, predicted: in microseconds. by: what predicts."""

    name: str
    problem: str
    measured: float
    predicted: float
    by: str

    @property
    def error(self) -> float:
        """Of the prediction, relative to what was measured."""
        return self.predicted / self.measured - 1


def plans() -> dict[str, GemmPlan]:
    """Of all gemms in specs/."""
    found = (read(path.read_bytes(), path.name)[0] for path in sorted((ROOT / "specs").glob("*.yaml")))
    return {plan.name: plan for plan in found if isinstance(plan, GemmPlan)}


# --- Records ---------------------------------------------------------------------------------------------------------


def of_records(lines: Iterable[str], names: Iterable[str]) -> list[Time]:
    """The kernels' own times among the records of a report, the last of each problem."""
    known, found = set(names), {}
    for record in map(json.loads, lines):
        timed = record.get("disposition") == "passed" and record.get("ms_median") and record.get("input_dist") == "uniform"
        if timed and record["name"] in known:
            found[record["name"], record["problem"]] = _time(record)
    return list(found.values())


def _time(record: Mapping[str, Any]) -> Time:
    numbers = (int(record.get(key) or 0) for key in ("registers", "spill_bytes", "smem_bytes"))
    return Time(record["name"], record["spec_sha"], record["problem"], round(1e3 * record["ms_median"], 2), *numbers)


def problem_of(text: str) -> Problem:
    """The problem that records write as `M,N,K[,batch][:key=value]...`."""
    extents, *rest = text.split(":")
    m, n, k, *batch = map(int, extents.split(","))
    keys: dict[str, Any] = {"shape": (m, n, k)} | ({"batch": batch[0]} if batch else {})
    for one in rest:
        key, _, value = one.partition("=")
        keys[key] = [int(size) for size in value.split("+")] if key == "groups" else float(value)
    return Problem.model_validate({key: int(value) if key in ("ld_pad", "offset") else value for key, value in keys.items()})


def loaded(text: str) -> list[Time]:
    """The lines of TIMES."""
    kinds = {one.name: {"str": str, "int": int, "float": float}[str(one.type)] for one in fields(Time)}
    return [Time(**{key: kinds[key](value) for key, value in line.items()}) for line in csv.DictReader(io.StringIO(text))]


def dumped(times: Iterable[Time]) -> str:
    """The text of TIMES, sorted."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [one.name for one in fields(Time)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in sorted(times, key=lambda one: (one.name, one.us)))
    return out.getvalue()


def merged(old: Iterable[Time], new: Iterable[Time]) -> list[Time]:
    """Of each spec and problem the newer line."""
    return list({(one.name, one.problem): one for one in [*old, *new]}.values())


# --- Predictions -----------------------------------------------------------------------------------------------------


def predict_one(plan: GemmPlan, problem: Problem) -> tuple[float, str]:
    """Microseconds, of a call with a workspace as `verify` makes it, and by what."""
    if not plan.configs:
        return predicted(plan, _DEVICE, [problem])[0], "estimate"
    config = choose(plan, problem)
    if config.cost:
        return predict(config.plan, config.cost, problem) * 1e6, "cost of its library"
    return predicted(config.plan, _DEVICE, [problem])[0], "estimate"


def current(times: Iterable[Time], of: Mapping[str, GemmPlan]) -> list[Time]:
    """Those of specs as they are now."""
    return [one for one in times if one.name in of and one.sha == of[one.name].spec_sha]


def rows(times: Iterable[Time], of: Mapping[str, GemmPlan]) -> list[Row]:
    """Each problem of a spec that has not changed."""
    return [
        Row(one.name, one.problem, one.us, *predict_one(of[one.name], problem_of(one.problem))) for one in current(times, of)
    ]


@dataclass(frozen=True)
class Resources:
    """Of one kernel: registers per thread and bytes of shared memory, planned and as ptxas and the program reported them."""

    name: str
    registers: tuple[int, int]
    smem: tuple[int, int]
    spilled: int

    @property
    def error(self) -> float:
        """Of the registers."""
        return self.registers[0] / self.registers[1] - 1


def resources(times: Iterable[Time], of: Mapping[str, GemmPlan]) -> list[Resources]:
    """Of each single kernel whose registers are known."""
    found = {}
    for one in current(times, of):
        plan = of[one.name]
        if one.registers and not plan.configs:
            (numbers,) = family_of(plan).numbers(plan, _DEVICE, {})
            registers, smem = (numbers.occupancy.registers, one.registers), (plan.smem_bytes, one.smem)
            found[one.name] = Resources(one.name, registers, smem, one.spilled)
    return list(found.values())


# --- The page --------------------------------------------------------------------------------------------------------


def summary(errors: Iterable[float]) -> str:
    """Number, median and largest error."""
    found = sorted(map(abs, errors))
    return f"{len(found)} | {statistics.median(found):.1%} | {found[-1]:.0%}"


def page(times: Sequence[Time], of: Mapping[str, GemmPlan]) -> str:
    """The text of the page."""
    long = [row for row in rows(times, of) if row.measured >= _SHORT_US]
    kinds = [("all", long), *((kind, [row for row in long if row.by == kind]) for kind in ("estimate", "cost of its library"))]
    specs = sorted({row.name for row in long})
    kernels = resources(times, of)
    clean = [one for one in kernels if not one.spilled]
    lines = [
        "# Predicted and measured",
        "",
        f"Made by `python -m tools.predictions` from [h200-times.csv]({TIMES.name}), records of `verify --bench` on an H200:",
        f"short runs on random data, each problem of a spec once, {_SHORT_US:.0f} us and longer. `estimate` is what `mmagen new`",
        "ranks by, and `inspect` shows; its coefficients are of datasheets and of what was measured of each mechanism, none of a",
        "single spec. A library's `cost` was fitted by `mmagen tune`. Specs that have changed since are left out. Times of",
        "split f32 are those of [split.md](../split.md#speed).",
        "",
        "| predicted by | problems | median error | largest |",
        "|---|---|---|---|",
        *(f"| {kind} | {summary(row.error for row in some)} |" for kind, some in kinds if some),
        "",
        f"Shared memory: as planned for {sum(one.smem[0] == one.smem[1] for one in kernels)} of {len(kernels)} kernels.",
        f"Registers: within 10 % for {sum(abs(one.error) <= 0.1 for one in clean)} of {len(clean)} kernels without spills.",
        "",
        "## Times of each spec",
        "",
        "| spec | problems | median error | largest |",
        "|---|---|---|---|",
        *(f"| {name} | {summary(row.error for row in long if row.name == name)} |" for name in specs),
        "",
        "## Registers and shared memory",
        "",
        "| spec | registers by ptxas | predicted | error | spilled B | shared memory B |",
        "|---|---|---|---|---|---|",
        *(
            f"| {one.name} | {one.registers[1]} | {one.registers[0]} | {one.error:+.0%} | {one.spilled} | {one.smem[1]:,} |"
            for one in sorted(kernels, key=lambda one: one.name)
        ),
        "",
        "## Times",
        "",
        "| spec | problem | measured us | predicted us | error | by |",
        "|---|---|---|---|---|---|",
        *map(_line, sorted(long, key=lambda row: (row.name, row.measured))),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    problem = problem_of(row.problem).text
    if len(problem) > 60:
        problem = problem[:57] + "..."
    return f"| {row.name} | {problem} | {row.measured:,.1f} | {row.predicted:,.1f} | {row.error:+.0%} | {row.by} |"


def _add(reports: Sequence[Path], read_lines: Callable[[Path], list[str]]) -> None:
    names = plans()
    times = loaded(TIMES.read_text("utf-8")) if TIMES.is_file() else []
    for report in reports:
        times = merged(times, of_records(read_lines(report), names))
    TIMES.write_text(dumped(times), "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tools.predictions", description=__doc__)
    parser.add_argument("--add", nargs="+", type=Path, default=[], metavar="REPORT", help="take records of these reports")
    parser.add_argument("--check", action="store_true", help="only compare, exit code 1 if the page would change")
    options = parser.parse_args(arguments)
    if options.add:
        _add(options.add, lambda path: path.read_text("utf-8").splitlines())
    made = page(loaded(TIMES.read_text("utf-8")), plans())
    if options.check:
        same = PAGE.is_file() and PAGE.read_text("utf-8") == made
        print("" if same else f"{PAGE.relative_to(ROOT)} differs")
        return int(not same)
    PAGE.write_text(made, "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
