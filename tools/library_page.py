"""python -m tools.library_page SPEC --problems SET... --markdown FILE: measures a library as it is and writes the page.

SET is as for `mmagen tune --problems`: random:SEED[:COUNT], models, spec, or a file with a problem a line; repeatable, each a
section of the page. The library's choice, each of its kernels (not with --choice-only) and cuBLASLt take turns on each problem.
Needs an NVIDIA GPU. Exit code 1 if a kernel was wrong, 4 if one failed, 77 if nothing could be measured.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from pathlib import Path

from mmagen.build.build import build
from mmagen.cli.progress import shown
from mmagen.core.errors import ExitCode, UsageError
from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.plan.cost import element_bytes
from mmagen.plan.plans import GemmPlan
from mmagen.spec.load import load
from mmagen.toolchain.find import find_toolchain
from mmagen.tuning.measure import Record, Session, Settings, run
from mmagen.tuning.page import rows, to_markdown
from mmagen.tuning.problems import as_argument, problems_of


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=Path)
    parser.add_argument("--problems", action="append", required=True, metavar="SET")
    parser.add_argument("--markdown", type=Path, required=True, metavar="FILE")
    parser.add_argument("--choice-only", action="store_true", help="do not time the kernels that are not chosen")
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--sample-ms", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        return _measured(options)
    except UsageError as error:
        print(error, file=sys.stderr)
        return ExitCode.USAGE


def _measured(options: argparse.Namespace) -> int:
    made = plan(load(options.spec.read_bytes(), str(options.spec)).spec)
    if not isinstance(made, GemmPlan) or not made.configs:
        raise UsageError(f"{options.spec}: not a library; it has no configs")
    sizes = element_bytes(made)
    sets = {name: [as_argument(one) for one in problems_of(name, made.problems, sizes)] for name in options.problems}
    problems = list(dict.fromkeys(problem for of in sets.values() for problem in of))
    names = [made.name] if options.choice_only else [made.name, *(config.name for config in made.configs)]
    settings = Settings(options.sample_ms, options.samples, within=1.5, seed=options.seed)
    session = _run(made, names, problems, settings)
    found = {row.problem: row for row in rows(session, made.name)}
    if not found:
        reasons = [session.message, *(str(record.get("reason")) for record in session.records), "nothing was measured"]
        print(next(reason for reason in reasons if reason and reason != "None"), file=sys.stderr)
        return ExitCode.NOTHING_VERIFIED
    page = to_markdown(
        {name: [found[problem] for problem in of if problem in found] for name, of in sets.items()},
        session,
        f"{made.name}: choice by predicted time",
        " ".join(["python -m tools.library_page", *sys.argv[1:]]),
        datetime.date.today().isoformat(),
    )
    options.markdown.write_text(page, "utf-8")
    print("\n".join(page.split("\n\n## ")[1].splitlines()))
    for problem, reason in (*session.skipped.items(), *session.lost.items()):
        print(f"{problem}: {reason}", file=sys.stderr)
    if session.message:
        print(session.message, file=sys.stderr)
    wrong = any(record["disposition"] == "incorrect" for record in session.records)
    return ExitCode.INCORRECT if wrong else ExitCode.RUN_FAILED if session.lost or session.message else ExitCode.OK


def _run(made: GemmPlan, names: list[str], problems: list[str], settings: Settings) -> Session:
    with tempfile.TemporaryDirectory(prefix="mmagen-page-") as folder, shown() as progress:
        project = Path(folder) / made.name
        write(render(made), project)
        [result] = build([project], find_toolchain(), programs=("tune",), progress=progress)
        if not result.ok:
            raise UsageError(f"{made.name}: {result.reason}")
        done: dict[str, None] = {}

        def on_record(record: Record) -> None:
            done[record["problem"]] = None
            progress(len(done), len(problems), record["problem"])

        return run(result.programs["tune"], names, problems, settings, on_record=on_record)


if __name__ == "__main__":
    sys.exit(main())
