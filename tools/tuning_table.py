"""python -m tools.tuning_table pack DATABASE... TABLE | add TABLE SPEC DATABASE... | unpack TABLE SPEC DATABASE [--problems FILE]

A table has measurements of `mmagen tune` in a form that can be kept in the repository: a row for each problem, a column for each
choice of a library and for cuBLASLt, medians in microseconds; above them, where and when it was measured. pack writes the table of
the site with most measurements; later DATABASEs replace earlier ones. add puts times of SPEC's choices from other runs on the same
site into a table: on problems that the table does not have, as they are; on others, where the table has no time of the choice,
scaled by the ratio of cuBLASLt's times in both runs. unpack writes the database from which
`mmagen tune SPEC --problems FILE --measured-only` selects a library. Measurements count as those of SPEC's choices with the same
names, even if the code of a kernel has changed since. Exit code 2 for input that is not right.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from statistics import geometric_mean

from mmagen.core.errors import ExitCode, MmagenError, SpecError, UsageError
from mmagen.families.reading import read
from mmagen.plan.plans import GemmPlan
from mmagen.tuning.candidates import Candidate, candidates
from mmagen.tuning.database import Contents, Site, Writer, digest, site_of
from mmagen.tuning.database import read as read_database
from mmagen.tuning.measure import BASELINES, Machine

_HEAD = "# "  # of the line with the site


@dataclass(frozen=True)
class Table:
    """Microseconds by problem, then by name of a choice. date: of the last measurement, as ISO 8601 has it."""

    site: Site
    machine: Machine
    date: str
    times: dict[str, dict[str, float]]

    @property
    def names(self) -> list[str]:
        """cuBLASLt first, then the choices by name."""
        found = {name for row in self.times.values() for name in row}
        return [*(name for name in BASELINES if name in found), *sorted(found - {*BASELINES})]


def packed(databases: Sequence[Path]) -> Table:
    """Of the site with most of the measurements. Raises UsageError if there are none."""
    contents = [read_database(path) for path in databases]
    together = Contents(tuple(line for one in contents for line in one.lines))
    site = site_of(together, databases[0])
    machines = {name: machine for one in contents for name, machine in (one.machines or {}).items()}
    if site.device not in machines:
        raise UsageError(f"{databases[0]}: no line says how many multiprocessors {site.device} has")
    times: dict[str, dict[str, float]] = {}
    date = ""
    for line in together.lines:
        if line.site == site and line.ms:
            times.setdefault(line.problem, {})[line.name] = line.ms * 1e3
            date = max(date, line.date)
    return Table(site, machines[site.device], date, times)


def extended(table: Table, databases: Sequence[Path], choices: Collection[str]) -> tuple[Table, list[str]]:
    """The table with measurements of `choices` in these databases, one after the other; and the problems that were left out.

    New times of a problem that the table has are multiplied by the ratio of cuBLASLt's times in the table and the database: the
    geometric mean of the ratios of its first heuristic and its best of 8, or that of which both have a time. Without one, they are
    left out. Raises UsageError for another site.
    """
    times = {problem: dict(row) for problem, row in table.times.items()}
    left_out, date = [], table.date
    for path in databases:
        found = packed([path])
        if found.site != table.site:
            raise UsageError(f"{path}: measured on {found.site}, the table on {table.site}")
        date = max(date, found.date)
        for problem, row in found.times.items():
            of_choices = {name: us for name, us in row.items() if name in choices}
            if problem not in times:
                times[problem] = of_choices | {name: row[name] for name in BASELINES if name in row}
                continue
            known = times[problem]
            ratios = [known[name] / row[name] for name in BASELINES if name in known and name in row]
            new = {name: us for name, us in of_choices.items() if name not in known}
            if ratios:
                known.update({name: us * geometric_mean(ratios) for name, us in new.items()})
            elif new:
                left_out.append(problem)
    return Table(table.site, table.machine, date, times), left_out


def to_text(table: Table) -> str:
    """Four digits of each time; nothing where there is none."""
    stream = io.StringIO()
    clusters = {str(ctas): count for ctas, count in table.machine.clusters.items()}
    machine = {"multiprocessors": table.machine.multiprocessors, "clusters": clusters}
    stream.write(_HEAD + json.dumps({**asdict(table.site), "date": table.date, "machine": machine}) + "\n")
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(["problem", *table.names])
    for problem, times in sorted(
        table.times.items(), key=lambda row: [int(extent) for extent in row[0].split(":")[0].split(",")]
    ):
        rows.writerow([problem, *(f"{times[name]:.4g}" if name in times else "" for name in table.names)])
    return stream.getvalue()


def from_text(text: str, path: Path) -> Table:
    """What to_text() wrote. path: for messages. Raises UsageError with the line that is not right."""
    head, _, body = text.partition("\n")
    try:
        about = json.loads(head.removeprefix(_HEAD))
        site = Site(about["device"], about["driver"], about["cuda"])
        machine = Machine.of(about["machine"])
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{path}, line 1: not the site of a table of measurements") from None
    rows = csv.reader(io.StringIO(body))
    names = next(rows, [""])[1:]
    times: dict[str, dict[str, float]] = {}
    for number, row in enumerate(rows, start=3):
        try:
            times[row[0]] = {name: float(value) for name, value in zip(names, row[1:], strict=True) if value}
        except (ValueError, IndexError):
            raise UsageError(f"{path}, line {number}: a problem and {len(names)} times in microseconds are expected") from None
    return Table(site, machine, str(about.get("date", "")), times)


def unpack(table: Table, plan: GemmPlan, path: Path) -> list[str]:
    """Writes the database `path`, which must not exist; the names of the table's choices that the library `plan` does not have."""
    if path.exists():
        raise UsageError(f"{path}: it exists; name a new file")
    kernels = {candidate.name: digest(candidate.plan) for candidate in _own(plan)}
    of_all = {
        "disposition": "passed",
        "machine": {"multiprocessors": table.machine.multiprocessors, "clusters": dict(table.machine.clusters)},
    }
    with closing(Writer(path, kernels, {})) as database:
        for problem, times in table.times.items():
            for name, us in times.items():
                database.add({"name": name, "problem": problem, "ms_median": us * 1e-3, **of_all}, table.site)
    return [name for name in table.names if name not in kernels and name not in BASELINES]


def _own(plan: GemmPlan) -> Iterator[Candidate]:
    """The library's own choices, which come first."""
    return takewhile(lambda candidate: candidate.own, candidates(plan.spec))


def _library(path: Path) -> GemmPlan:
    """Raises SpecError, UsageError and OSError."""
    plan, faults = read(path.read_bytes(), str(path))
    if plan is None:
        raise SpecError(faults)
    if not isinstance(plan, GemmPlan):
        raise UsageError(f"{path}: it is not a GEMM")
    return plan


def _line(problem: str) -> str:
    """As a file of problems has it. Raises UsageError for strides, which such a file cannot have."""
    extents, colon, _ = problem.partition(":")
    if colon:
        raise UsageError(f"{problem}: a file of problems has extents only; omit --problems")
    return extents.replace(",", " ") + "\n"


def main(arguments: Sequence[str] | None = None) -> ExitCode:
    parser = argparse.ArgumentParser(prog="python -m tools.tuning_table", description="Measurements of mmagen tune as a table.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    pack = verbs.add_parser("pack")
    pack.add_argument("databases", metavar="DATABASE", type=Path, nargs="+")
    pack.add_argument("table", metavar="TABLE", type=Path)
    add = verbs.add_parser("add")
    add.add_argument("table", metavar="TABLE", type=Path)
    add.add_argument("spec", metavar="SPEC", type=Path)
    add.add_argument("databases", metavar="DATABASE", type=Path, nargs="+")
    back = verbs.add_parser("unpack")
    back.add_argument("table", metavar="TABLE", type=Path)
    back.add_argument("spec", metavar="SPEC", type=Path)
    back.add_argument("database", metavar="DATABASE", type=Path)
    back.add_argument("--problems", metavar="FILE", type=Path, help="write the problems here, as mmagen tune reads them")
    options = parser.parse_args(arguments)
    try:
        if options.verb == "pack":
            table = packed(options.databases)
            options.table.write_text(to_text(table), "utf-8")
        elif options.verb == "add":
            before = from_text(options.table.read_text("utf-8"), options.table)
            choices = {candidate.name for candidate in _own(_library(options.spec))}
            table, left_out = extended(before, options.databases, choices)
            for problem in left_out:
                print(f"{problem}: no time of cuBLASLt in both runs, left out")
            options.table.write_text(to_text(table), "utf-8")
        else:
            table = from_text(options.table.read_text("utf-8"), options.table)
            plan = _library(options.spec)
            for name in unpack(table, plan, options.database):
                print(f"{name}: not a choice of {plan.name}, left out")
            if options.problems:
                options.problems.write_text("".join(map(_line, table.times)), "utf-8")
    except (MmagenError, OSError) as error:
        print(f"tuning_table: {error}", file=sys.stderr)
        return ExitCode.USAGE
    print(f"{len(table.times)} problems, {len(table.names)} columns")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
