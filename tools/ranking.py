"""python -m tools.ranking [--device NAME] [--check] [--library SET] [--add SET DATABASE]: docs/results/NAME-ranking.md, whether
`mmagen new` puts the fastest candidates first on an H200 or H100.

Measured are the times in docs/results/NAME-candidates.json: sets of candidates of `mmagen new`, each for types and a layout, on
many problems. They are ranked by the times that `mmagen new` predicts for one problem. --library prints a set as a library
spec, of which `mmagen tune --tried 20 --problems FILE` measures each kernel; --add takes the lines of its database. --check
compares the page with what would be written, exit code 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from mmagen.families import plan as planned
from mmagen.families.estimate import predicted
from mmagen.plan.devices import DEVICES, Device
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem, Spec
from mmagen.suggest.rank import document
from mmagen.suggest.wanted import Wanted, wanted
from mmagen.tuning.candidates import names_of

ROOT = Path(__file__).resolve().parents[1]
FIRST = 3
_NEAR = 0.01
_WIDTH = 130
_ALONE = "_c1x1"  # in names of `mmagen tune` where a launch decides the cluster
_OF_LIBRARY = ("arch",)  # keys that a config cannot have
_OF_CONFIG = ("schedule", "cluster", "operands", "stream_k", "split_k", "cache", "prefetch", "ctas_per_sm", "stages")


@dataclass(frozen=True)
class _Measurement:
    """on: device and date. remark: sentences of the page."""

    on: str
    remark: str


_MEASUREMENTS = {
    "h200": _Measurement(
        "an H200 on 2026-11-23",
        "Kernels have become faster since these measurements, for instance where a tile has columns beyond D.",
    ),
    "h100": _Measurement(
        "an H100 80GB HBM3 (driver 580.159.04, CUDA 13.0, CUTLASS 4.2.0) on 2026-11-27",
        "Of the problems held out, 40 of each set (26 of e4m3, those that TMA can address) were drawn at random for these "
        "measurements.",
    ),
}


MEASURED = {one.name: one for one in DEVICES if one.name in _MEASUREMENTS}


def page_of(device: Device) -> Path:
    """Path of the device's page."""
    return ROOT / f"docs/results/{device.name}-ranking.md"


def times_of(device: Device) -> Path:
    """Path of the times that were measured on it."""
    return ROOT / f"docs/results/{device.name}-candidates.json"


@dataclass(frozen=True)
class Set:
    """options: of `mmagen new`. candidates: their keys by name. fitted: problems that coefficients were fitted to. us: by problem
    and candidate, microseconds; a candidate may lack some."""

    options: Mapping[str, Any]
    candidates: Mapping[str, Mapping[str, Any]]
    fitted: Sequence[str]
    us: Mapping[str, Mapping[str, float]]

    @property
    def wanted(self) -> Wanted:
        return wanted(**self.options)

    def plans(self) -> dict[str, GemmPlan]:
        """Of the candidates."""
        want = self.wanted
        return {
            name: cast(GemmPlan, planned(Spec.model_validate(document(want, keys)))) for name, keys in self.candidates.items()
        }


@dataclass(frozen=True)
class Row:
    """A problem. place: of the measured fastest in the order of predicted times, from 1. lost: by how much the fastest of the first
    three is slower than it. errors: of all predictions, relative; error, ahead: of the fastest one's, and of those ahead of it."""

    problem: str
    fitted: bool
    candidates: int
    fastest: str
    us: float
    place: int
    lost: float
    errors: tuple[float, ...]
    error: float
    ahead: tuple[float, ...]


def loaded(text: str) -> dict[str, Set]:
    """The sets of measured times by name."""
    return {name: Set(**one) for name, one in json.loads(text).items()}


def rows(one: Set, device: Device) -> list[Row]:
    """A row for each problem. device: the one that its times are of."""
    plans = one.plans()
    found = []
    for problem, us in one.us.items():
        m, n, k, *batch = map(int, problem.split(","))
        asked = [Problem(shape=(m, n, k), batch=batch[0] if batch else 1)]
        guessed = {name: predicted(plans[name], device, asked)[0] for name in us}
        order = sorted(us, key=lambda name: guessed[name])
        fastest = min(us, key=lambda name: us[name])
        lost = min(us[name] for name in order[:FIRST]) / us[fastest] - 1
        errors = {name: guessed[name] / us[name] - 1 for name in order}
        place = order.index(fastest) + 1
        ahead = tuple(errors[name] for name in order[: place - 1])
        found.append(
            Row(
                problem,
                problem in one.fitted,
                len(us),
                fastest,
                us[fastest],
                place,
                lost,
                tuple(errors.values()),
                errors[fastest],
                ahead,
            )
        )
    return found


def summary(found: Sequence[Row]) -> str:
    """Cells of a line of the first table."""
    among = sum(one.place <= FIRST for one in found)
    lost = f"{statistics.median(one.lost for one in found if one.place > FIRST):.1%}" if among < len(found) else "-"
    near = sum(one.lost <= _NEAR for one in found) / len(found)
    error = statistics.median(abs(error) for one in found for error in one.errors)
    return f"{len(found)} | {among} | {among / len(found):.0%} | {near:.0%} | {lost} | {error:.1%}"


def page(sets: Mapping[str, Set], device: Device) -> str:
    """The text of the page."""
    all_rows = {name: rows(one, device) for name, one in sets.items()}
    name, of = times_of(device).name, _MEASUREMENTS[device.name]
    text = (
        f"Made by `python -m tools.ranking --device {device.name}` from [{name}]({name}): candidates of `mmagen new`, 18 to 20 for "
        f"each choice of types, measured by the program of `mmagen tune` on {of.on}. 12 were those ranked best for problems "
        "of this page, each with another tile, by the coefficients before these measurements; the others were drawn at random. "
        "They are ranked by predicted times, whose coefficients are fitted to H100 times of some of the problems; these are listed "
        f"separately. The formula's terms were chosen with all problems in view, those held out included. {of.remark}"
    )
    lines = [
        "# Candidates of `mmagen new`, ranked and measured",
        "",
        *textwrap.wrap(text, _WIDTH, break_on_hyphens=False),
        "",
        "| types | problems | | fastest among the first three | | best of the first three within 1% "
        "| loss where not among them, median | error of predictions, median |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for fitted in (False, True):
        every = [row for found in all_rows.values() for row in found if row.fitted == fitted]
        for name, some in (*all_rows.items(), ("all", every)):
            of_kind = [row for row in some if row.fitted == fitted]
            if of_kind:
                lines.append(f"| {name} | {'fitted to' if fitted else 'held out'} | {summary(of_kind)} |")
    lines += ["", *_missed(all_rows)]
    lines += [
        "",
        "## Problems held out",
        "",
        "| types | problem | candidates | fastest | us | its place | first three lose |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {row.problem.replace(',', 'x')} | {row.candidates} | {row.fastest} | {row.us:,.1f} | {row.place} "
        f"| {row.lost:.1%} |"
        for name, found in all_rows.items()
        for row in found
        if not row.fitted
    ]
    return "\n".join(lines) + "\n"


def _missed(all_rows: Mapping[str, Sequence[Row]]) -> list[str]:
    """A section about the problems held out whose fastest is not among the first."""
    missed = [(name, row) for name, found in all_rows.items() for row in found if not row.fitted and row.place > FIRST]
    own = sum(abs(row.error) > max(map(abs, row.ahead)) for _, row in missed)
    pingpong = sum(row.fastest.startswith("ping_") for _, row in missed)
    near = sum(row.lost < _NEAR for _, row in missed)
    return [
        "## What is missed",
        "",
        f"The fastest candidate is not among the first three for {len(missed)} problems held out; for {near} of these, one of the",
        f"first three is slower by less than {_NEAR:.0%}. For {own} its own prediction is worse than those of all candidates ahead",
        f"of it; for {pingpong} it is a pingpong kernel.",
        "",
        "| types | problem | fastest | its place | error of its prediction | errors of those ahead | first three lose |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {name} | {row.problem.replace(',', 'x')} | {row.fastest} | {row.place} | {row.error:+.1%} "
            f"| {min(row.ahead):+.1%} to {max(row.ahead):+.1%} | {row.lost:.1%} |"
            for name, row in missed
        ),
    ]


def library(one: Set) -> str:
    """The candidates as the configs of a library. Its rules keep each kernel, and mean nothing else."""
    base = document(one.wanted, next(iter(one.candidates.values())))
    configs = [
        {"name": name, "when": {"m": [m, m]}, **{key: value for key, value in keys.items() if key not in _OF_LIBRARY}}
        for m, (name, keys) in enumerate(one.candidates.items(), 1)
    ]
    del configs[-1]["when"]
    plain = json.loads(json.dumps({key: value for key, value in base.items() if key not in _OF_CONFIG} | {"configs": configs}))
    return yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=120)


def added(one: Set, lines: Iterable[str]) -> Set:
    """With the times of its candidates in a database of `mmagen tune`, which names kernels its own way; newer lines replace
    older ones."""
    names = {names_of(plan)[0].removesuffix(_ALONE): name for name, plan in one.plans().items()}
    us = {problem: dict(times) for problem, times in one.us.items()}
    for record in map(json.loads, lines):
        name = names.get(record.get("name", "").removesuffix(_ALONE))
        if name and record.get("disposition") == "passed" and record.get("ms_median"):
            us.setdefault(record["problem"], {})[name] = float(f"{1e3 * record['ms_median']:.4g}")
    return Set(one.options, one.candidates, one.fitted, us)


def dumped(sets: Mapping[str, Set]) -> str:
    """The text of a file of times: a line for each candidate and each problem."""
    parts = []
    for name, one in sets.items():
        tables = {
            key: "{\n" + ",\n".join(f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in table.items()) + "\n  }"
            for key, table in (("candidates", one.candidates), ("us", one.us))
        }
        parts.append(
            f' {json.dumps(name)}: {{\n  "options": {json.dumps(one.options)},\n  "fitted": {json.dumps(list(one.fitted))},\n'
            f'  "candidates": {tables["candidates"]},\n  "us": {tables["us"]}\n }}'
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tools.ranking", description=__doc__)
    parser.add_argument("--device", choices=sorted(MEASURED), default="h200", help="what was measured on; default: h200")
    parser.add_argument("--check", action="store_true", help="only compare, exit code 1 if the page would change")
    parser.add_argument("--library", metavar="SET", help="print the candidates of a set as a library spec")
    parser.add_argument("--add", nargs=2, metavar=("SET", "DATABASE"), help="take times of a database of mmagen tune")
    options = parser.parse_args(arguments)
    device = MEASURED[options.device]
    of_page, of_times = page_of(device), times_of(device)
    sets = loaded(of_times.read_text("utf-8"))
    for name in filter(None, (options.library, options.add and options.add[0])):
        if name not in sets:
            parser.error(f"there is no set {name!r}; there are {', '.join(sets)}")
    if options.library:
        print(library(sets[options.library]), end="")
        return 0
    if options.add:
        name, database = options.add
        sets[name] = added(sets[name], Path(database).read_text("utf-8").splitlines())
        of_times.write_text(dumped(sets), "utf-8")
    made = page(sets, device)
    if options.check:
        same = of_page.is_file() and of_page.read_text("utf-8") == made
        print("" if same else f"{of_page.relative_to(ROOT)} differs")
        return int(not same)
    of_page.write_text(made, "utf-8")
    print(f"wrote {of_page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
