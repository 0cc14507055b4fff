"""python -m tools.library_page SPEC... --problems SET... --markdown FILE: measures libraries as they are and writes the page.

Each library's choice by predicted time, each of its kernels (not with --choice-only) and cuBLASLt take turns on each problem.
With --cutlass, GEMMs of CUTLASS's collective builders do too.
What is measured is appended to --records as it comes: the same command goes on with what is missing, on all GPUs that it sees,
and --page-only writes the page of what there is. What --budget left out is listed on the page.

SET: as of `mmagen tune --problems`, or eleven, large, or cutlass. Needs an NVIDIA GPU, except with --page-only. Exit code 1 if a
kernel was wrong, 4 if one failed or something is missing, 77 if nothing was measured.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from mmagen.build.build import build
from mmagen.build.job import BuildResult
from mmagen.cli.progress import shown
from mmagen.cli.tune import seconds
from mmagen.core.errors import BuildError, Diagnostic, ExitCode, MmagenError, SpecError, UsageError
from mmagen.families.reading import read
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.plan.cost import element_bytes
from mmagen.plan.plans import GemmPlan
from mmagen.plan.project import ProjectPlan
from mmagen.toolchain.find import find_toolchain
from mmagen.toolchain.gpus import find_gpus
from mmagen.tuning.database import digest
from mmagen.tuning.measure import Settings
from mmagen.tuning.page import Row, rows, to_markdown
from mmagen.tuning.problems import as_argument, problems_of
from tools.library_page import cutlass_builder, energy
from tools.library_page.kept import Found, Kept, Key, session_of
from tools.library_page.measuring import Task, measure, sustain, today

_RESULTS = Path(__file__).resolve().parents[2] / "docs/results"
_NAMED = {name: _RESULTS / f"{name}-problems.txt" for name in ("eleven", "large", "cutlass")}
_WITHIN = 1.5  # kernels slower than this factor of the fastest get one sample


@dataclass(frozen=True)
class Subject:
    """A library in one layout. sets: of problems, by name, as programs take them."""

    plan: GemmPlan
    title: str
    sets: Mapping[str, tuple[str, ...]]
    key: Key

    @property
    def problems(self) -> tuple[str, ...]:
        """Of all sets, each once."""
        return tuple(dict.fromkeys(problem for of in self.sets.values() for problem in of))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; returns the exit code."""
    options = _options(arguments)
    try:
        return _measured(options)
    except MmagenError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.library_page", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("specs", type=Path, nargs="+", metavar="SPEC")
    parser.add_argument("--problems", action="append", required=True, metavar="SET")
    parser.add_argument("--markdown", type=Path, required=True, metavar="FILE")
    parser.add_argument("--layout", nargs="+", default=[""], metavar="LAYOUT", help="instead of the spec's own: NT, NN, TT, TN")
    parser.add_argument("--choice-only", action="store_true", help="do not time the kernels that are not chosen")
    parser.add_argument("--cutlass", action="store_true", help="also GEMMs of CUTLASS's collective builders, compiled for it")
    parser.add_argument("--sustained", type=float, default=0.0, metavar="S", help="also each kernel for S seconds, with energy")
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--sample-ms", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", metavar="TIME", help="20m, 90s: no problem begins later")
    parser.add_argument("--records", type=Path, metavar="FILE", help="default: build/library_page/, by the page's name")
    parser.add_argument("--page-only", action="store_true", help="measure nothing")
    parser.add_argument("-j", "--jobs", type=int, help="compile steps at a time")
    return parser.parse_args(arguments)


def _measured(options: argparse.Namespace) -> int:
    settings = Settings(options.sample_ms, options.samples, within=_WITHIN, seed=options.seed)
    kept = Kept(options.records or Path("build/library_page") / f"{options.markdown.stem}.jsonl")
    if kept.damaged:
        print(f"{kept.damaged} lines of the records are cut or damaged and left out", file=sys.stderr)
    until = None if options.budget is None else time.monotonic() + seconds(options.budget)
    subjects = _subjects(options, settings, kept)
    if not options.page_only:
        _measure(options, subjects, settings, kept, until)
    return _write(options, subjects, kept)


def _subjects(options: argparse.Namespace, settings: Settings, kept: Kept) -> list[Subject]:
    """Each spec in each layout. Raises MmagenError for a spec that is refused or is no library."""
    gpus, why = find_gpus(os.environ)
    if not gpus and not options.page_only:
        raise _NothingToMeasureOn(why)
    cuda = find_toolchain(want=("nvcc",)).nvcc
    what = f"{'choice' if options.choice_only else 'all'}{' cutlass' if options.cutlass else ''}"
    how = f"{settings} {what}, heuristics in turns"  # before, cuBLASLt's were timed one after the other
    found = []
    for path in options.specs:
        for layout in options.layout:
            plan = _plan(path, layout)
            if options.cutlass:
                cutlass_builder.check(plan)
            sizes = element_bytes(plan)
            sets = {
                name: tuple(as_argument(one) for one in problems_of(str(_NAMED.get(name, name)), plan.problems, sizes))
                for name in options.problems
            }
            title = f"{plan.name} {layout}".rstrip()
            code = digest(plan)
            if options.page_only:
                keys = kept.devices(code, how)
                key = keys[-1] if keys else Key(code, how, "", "", "")
            else:
                key = Key(code, how, gpus[0].name, gpus[0].driver, cuda.version if cuda else "")
            found.append(Subject(plan, title, sets, key))
    return found


class _NothingToMeasureOn(MmagenError):
    exit_code = ExitCode.NOTHING_VERIFIED


def _plan(path: Path, layout: str) -> GemmPlan:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    plan, wrong = _in_layout(path, yaml.safe_load(data), layout) if layout else read(data, str(path))
    if plan is None:
        raise SpecError(tuple(wrong))
    if not isinstance(plan, GemmPlan) or not plan.configs:
        raise UsageError(f"{path}: not a library; it has no configs")
    return plan


def _in_layout(path: Path, written: dict[str, Any], layout: str) -> tuple[ProjectPlan | None, tuple[Diagnostic, ...]]:
    """read() of a library in another layout, without each tile_n that is not legal there; of launches that are then alike, one."""
    changed = written | {"layout": layout}
    plan, wrong = read(yaml.safe_dump(changed, sort_keys=False), f"{path} {layout}")
    narrow = [one.key for one in wrong if one.key[-1:] == ("tile_n",)]
    if not narrow:
        return plan, wrong
    for _, config, _, launch, _ in narrow:
        changed["configs"][config]["clusters"][launch].pop("tile_n", None)
    for one in changed["configs"]:
        apart: dict[str, Any] = {}
        for launch in one.get("clusters") or ():
            apart.setdefault(f"{launch['cluster']} {launch.get('tile_n')}", launch)
        if apart:
            one["clusters"] = [*apart.values()]
    return read(yaml.safe_dump(changed, sort_keys=False), f"{path} {layout}")


def _measure(
    options: argparse.Namespace, subjects: Sequence[Subject], settings: Settings, kept: Kept, until: float | None
) -> None:
    missing = [one for one in subjects if _left(one.problems, kept.of(one.key))]
    missing += [one for one in subjects if options.sustained and one not in missing]
    with _built(missing, options) as built, shown() as progress:
        tasks = []
        for one, result in zip(missing, built, strict=True):
            names = (one.plan.name, *(() if options.choice_only else (config.name for config in one.plan.configs)))
            names += cutlass_builder.names() if options.cutlass else ()
            tasks.append(Task(one.key, result.programs["tune"], names, one.problems))
        total = sum(len(_left(one.problems, kept.of(one.key))) for one in missing)
        done: list[str] = []

        def said(problem: str) -> None:
            done.append(problem)
            progress(len(done), total, problem)

        measure(tasks, settings, len(find_gpus(os.environ)[0]), kept, until, said)
        for one, result in zip(missing, built, strict=True):
            if options.sustained:
                sustain(result, _sustained_key(one, options.sustained), one.problems, options.sustained, kept, until)


def _renamed(found: Found, before: str) -> Found:
    """With its problem's name begun by the library's, where there are several."""
    records = tuple({**record, "problem": f"{before}{record['problem']}"} for record in found.records)
    return replace(found, problem=f"{before}{found.problem}", records=records)


def _sustained_key(subject: Subject, sustained_s: float) -> Key:
    key = subject.key
    return Key(key.library, f"sustained {sustained_s:g}", key.device, key.driver, key.cuda)


def _left(problems: Sequence[str], found: Mapping[str, Found]) -> list[str]:
    return [problem for problem in problems if problem not in found or not found[problem].ended]


@contextlib.contextmanager
def _built(subjects: Sequence[Subject], options: argparse.Namespace) -> Iterator[list[BuildResult]]:
    """Each library's programs. Raises BuildError."""
    programs = ("tune", "bench") if options.sustained else ("tune",)
    with tempfile.TemporaryDirectory(prefix="mmagen-page-") as folder, shown() as progress:
        projects = [Path(folder) / str(number) / one.plan.name for number, one in enumerate(subjects)]
        for project, one in zip(projects, subjects, strict=True):
            write(render(one.plan), project)
            if options.cutlass:
                cutlass_builder.add_to(project, one.plan)
        results = build(projects, find_toolchain(), jobs=options.jobs, programs=programs, progress=progress) if projects else []
        for result in results:
            if not result.ok:
                raise BuildError(f"{result.name}: {result.reason}")
        yield results


def _write(options: argparse.Namespace, subjects: Sequence[Subject], kept: Kept) -> int:
    """The page, and the exit code."""
    measured: dict[str, Found] = {}
    tables: dict[str, list[Row]] = {}
    sustained: list[str] = []
    missing: dict[str, str] = {}
    several = len(subjects) > 1
    rivals = cutlass_builder.names() if options.cutlass else ()
    for one in subjects:
        found = {problem: of for problem, of in kept.of(one.key).items() if problem in one.problems}
        by_problem = {row.problem: row for row in rows(session_of(found), one.plan.name, rivals)}
        of_it = f"{one.title}, " if several else ""
        for name, of in one.sets.items():
            tables[f"{of_it}{name}"] = [by_problem[each] for each in of if each in by_problem]
        measured |= {f"{of_it}{problem}": _renamed(each, of_it) for problem, each in found.items()}
        missing |= {f"{of_it}{problem}": "not yet" for problem in _left(one.problems, found)}
        if options.sustained:
            of_bench = kept.of(_sustained_key(one, options.sustained))
            rates = energy.rows((record for each in of_bench.values() for record in each.records), one.plan.name)
            sustained.append(energy.to_markdown(f"{one.title}: sustained", rates, options.sustained))
            missing |= {f"{of_it}{problem}, sustained": "not yet" for problem in _left(one.problems, of_bench)}
            missing |= {f"{of_it}{problem}, sustained": each.skipped for problem, each in of_bench.items() if each.skipped}
    session = session_of(measured)
    if not any(tables.values()):
        reasons = [*session.skipped.values(), *session.lost.values(), "nothing was measured"]
        print(reasons[0], file=sys.stderr)
        return ExitCode.NOTHING_VERIFIED
    session.skipped |= missing
    names = ", ".join(one.title for one in subjects)
    command = " ".join(["python -m tools.library_page", *sys.argv[1:]])
    date = max((one.date for one in measured.values()), default=today())
    page = to_markdown(tables, session, f"{names}: choice by predicted time", command, date, "CUTLASS" if rivals else "")
    options.markdown.write_text("\n\n".join([page.rstrip("\n"), *sustained]) + "\n", "utf-8")
    print("\n".join(page.split("\n\n## ")[1].splitlines()))
    for problem, reason in (*session.skipped.items(), *session.lost.items()):
        print(f"{problem}: {reason}", file=sys.stderr)
    if any(record["disposition"] == "incorrect" for record in session.records):
        return ExitCode.INCORRECT
    return ExitCode.RUN_FAILED if session.lost or missing else ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
