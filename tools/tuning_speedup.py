"""python -m tools.tuning_speedup SPEC [--workers 1 2] [--repeat 2]: how much sooner several GPUs have measured the same candidates.

`mmagen tune` runs with a new database for each number of Dask workers, one worker process for each GPU, in turns. Compared is the
time of the measurements: the candidates are compiled once, and how long that took is printed apart. All runs must have measured the
same kernels on the same problems, each once. --kill ends one worker of another run of the most in the middle; what it had must be
measured all the same. Exit code 1 if measurements differ, are lost or doubled, 77 without as many GPUs.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tabulate import tabulate

from mmagen.cli.progress import shown
from mmagen.core.errors import ExitCode, MmagenError
from mmagen.spec.load import load
from mmagen.toolchain.find import find_toolchain
from mmagen.toolchain.model import Toolchain
from mmagen.tuning.measure import Record, Session, Settings
from mmagen.tuning.tune import Options, Runner, tune
from mmagen.tuning.workers import Seen, Workers, gpus_here


@dataclass
class Run:
    """One tuning. seconds: of the measurements; other_s: of all else, compilation above all. records: how often each kernel was
    measured on each problem. killed: the process id of the worker that was killed, 0 for none."""

    workers: int
    seconds: float = 0.0
    other_s: float = 0.0
    records: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: tuple[str, ...] = ()
    killed: int = 0


def timed(run: Run, runner: Runner, killed: Callable[[], None] | None = None) -> Runner:
    """`runner`, whose time and records are noted in `run`. killed: called when a third of the problems have records."""

    def measured(
        program: Path,
        kernels: Sequence[str],
        problems: Sequence[str],
        settings: Settings,
        on_record: Callable[[Record], None],
        until: float | None,
    ) -> Session:
        seen: set[str] = set()
        left = [killed] if killed else []

        def noted(record: Record) -> None:
            seen.add(record["problem"])
            run.records[record["name"], record["problem"]] += 1
            if left and len(seen) >= len(problems) / 3:
                left.pop()()
            on_record(record)

        began = time.monotonic()
        try:
            return runner(program, kernels, problems, settings, noted, until)
        finally:
            run.seconds = time.monotonic() - began

    return measured


def tuned(
    spec: Path, options: Options, toolchain: Toolchain, count: int, kill: bool = False, gpus: Callable[[], Seen] = gpus_here
) -> Run:
    """Tune with so many workers and a new database. kill: end one of them in the middle. gpus: as Workers has it."""
    run = Run(count)
    with tempfile.TemporaryDirectory(prefix="mmagen-speedup-") as folder, closing(Workers("", count, gpus)) as workers:

        def end_one() -> None:
            run.killed = next(iter(workers.processes().values()))
            os.kill(run.killed, signal.SIGKILL)

        runner = timed(run, workers, end_one if kill else None)
        began = time.monotonic()
        with shown() as progress:
            loaded = load(spec.read_bytes(), str(spec)).spec
            done = tune(loaded, options, Path(folder) / "base.jsonl", toolchain, runner, progress, lambda _: None)
        run.other_s = time.monotonic() - began - run.seconds
        run.notes = done.notes
    return run


def differences(runs: Sequence[Run]) -> list[str]:
    """What is not the same in all runs, in sentences."""
    found = []
    for number, run in enumerate(runs):
        doubled = [key for key, times in run.records.items() if times > 1]
        lost = set(runs[0].records) - set(run.records)
        more = set(run.records) - set(runs[0].records)
        for what, keys in (("measured more than once", doubled), ("lost", lost), ("measured here alone", more)):
            if keys:
                shown_ = ", ".join(f"{name} on {problem}" for name, problem in sorted(keys)[:3])
                found.append(f"run {number + 1} ({run.workers} workers): {len(keys)} {what}: {shown_}")
    return found


def table(runs: Sequence[Run], killed: Run | None) -> str:
    """Medians by number of workers, and how many times less than with the first number."""
    counts = list(dict.fromkeys(run.workers for run in runs))
    seconds = {count: statistics.median(run.seconds for run in runs if run.workers == count) for count in counts}
    other = runs[0].other_s  # the first run compiles; the others find the programs in the cache
    rows = [
        (
            str(count),
            str(sum(run.workers == count for run in runs)),
            ", ".join(f"{run.seconds:.1f}" for run in runs if run.workers == count),
            f"{seconds[counts[0]] / seconds[count]:.2f}",
            f"{(other + seconds[counts[0]]) / (other + seconds[count]):.2f}",
        )
        for count in counts
    ]
    heads = ("workers", "runs", "measurements, s", "times less", "with compilation")
    lines = [tabulate(rows, heads, tablefmt="github", disable_numparse=True)]
    lines.append(f"{len(runs[0].records)} measurements in each run; compilation and the fit of the first took {other:.0f} s.")
    if killed:
        lines.append(
            f"One of {killed.workers} workers killed in the middle: {killed.seconds:.1f} s, {len(killed.records)} measurements."
        )
    return "\n\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = _options(arguments)
    toolchain = find_toolchain()
    if len(toolchain.gpus) < max(options.workers):
        print(f"{max(options.workers)} workers need as many GPUs; there are {len(toolchain.gpus)}", file=sys.stderr)
        return ExitCode.NOTHING_VERIFIED
    settings = Settings(options.sample_ms, options.samples)
    wanted = Options(options.problems, tried=options.tried, jobs=options.jobs, settings=settings)
    try:
        order = [count for turn in range(options.repeat) for count in (options.workers[:: 1 if turn % 2 == 0 else -1])]
        runs = [tuned(options.spec, wanted, toolchain, count) for count in order]
        killed = tuned(options.spec, wanted, toolchain, max(options.workers), kill=True) if options.kill else None
    except MmagenError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    every = [*runs, *([killed] if killed else [])]
    command = " ".join(["python -m tools.tuning_speedup", *sys.argv[1:]])
    gpu = toolchain.gpus[0]
    text = f"`{command}`, {gpu.name}, driver {gpu.driver}\n\n{table(runs, killed)}\n"
    print(text, end="")
    if options.markdown:
        options.markdown.write_text(f"# Tuning with several GPUs\n\n{text}", "utf-8")
    for note in dict.fromkeys(note for run in every for note in run.notes):
        print(f"note: {note}", file=sys.stderr)
    wrong = differences(every)
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return ExitCode.INCORRECT if wrong else ExitCode.OK


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.tuning_speedup", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("spec", type=Path)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], metavar="N", help="numbers to compare (default: 1 2)")
    parser.add_argument("--problems", default="random:9:100", metavar="SET", help="as of mmagen tune (default: random:9:100)")
    parser.add_argument("--tried", type=int, default=40, help="candidates (default: 40)")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--sample-ms", type=float, default=1.5)
    parser.add_argument("--repeat", type=int, default=2, metavar="N", help="runs of each number, in turns (default: 2)")
    parser.add_argument("--kill", action="store_true", help="one more run, in which a worker is killed")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("-j", "--jobs", type=int, help="compile steps at a time")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
