"""python -m tools.gpu_round --seconds T [--out DIR]: all that needs a GPU, in one command that ends after T seconds.

Specs are compiled on most of the processors, those that take longest first, and verified on the GPUs as they are ready; beside
that, on processors kept for it, the tests of tests/gpu run. --bench and --alone name what measures time: a GPU does that and
nothing else. What did not end in time is cut off or not run, and said so; it never counts as passed. DIR/records.jsonl has a line
for each event and is only appended to: the same command goes on with what has not passed with the same sources. The table comes
last.

Exit code 0 if all that was asked for passed or was skipped by name, 1 if something is wrong, 4 if something failed, was cut off or
not run, 77 without a GPU.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mmagen.core.errors import ExitCode
from mmagen.toolchain.gpus import find_gpus
from mmagen.toolchain.model import Gpu
from tools.gpu_round import records as kept
from tools.gpu_round import specs, suites
from tools.gpu_round.jobs import Job, Outcome
from tools.gpu_round.resources import Cores, Gpus, pools
from tools.gpu_round.schedule import Round
from tools.gpu_round.sources import digest

ROOT = Path(__file__).resolve().parents[2]
_END_S = 8.0  # of the time: to end what runs, and to write
_COMPILE_CORES = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    options = _options(arguments)
    events = options.out / "records.jsonl"
    if options.report:
        print(kept.table(kept.outcomes(kept.read(events))))
        return _exit_code(kept.outcomes(kept.read(events)))
    began = time.monotonic()
    gpus, why = find_gpus(os.environ)
    if not gpus and options.on == "gpu" and not options.dry_run:
        print(f"nothing was run: {why}", file=sys.stderr)
        return ExitCode.NOTHING_VERIFIED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that children end too
    options.out.mkdir(parents=True, exist_ok=True)
    source = digest(ROOT)
    done = kept.passed(kept.read(events), source)
    with tempfile.TemporaryDirectory(prefix="mmagen-round-") as work:
        jobs, refused = _jobs(options, Path(work), done)
        if options.dry_run:
            print("\n".join(f"{job.name}: {' '.join(job.command)}" for job in jobs))
            return ExitCode.OK
        _run(options, jobs, refused, gpus, source, events, began, Path(work) / "logs")
    found = kept.outcomes(kept.read(events))
    facts = next(event for event in reversed(kept.read(events)) if event["event"] == "round")
    (options.out / "summary.md").write_text(kept.summary(facts, found), "utf-8")
    print(kept.table(found))
    return _exit_code(found)


def _run(
    options: argparse.Namespace,
    jobs: Sequence[Job],
    refused: Sequence[Outcome],
    gpus: Sequence[Gpu],
    source: str,
    events: Path,
    began: float,
    logs: Path,
) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    records = kept.Records(events)
    records.round(
        command=" ".join(["python -m tools.gpu_round", *sys.argv[1:]]),
        time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        seconds=options.seconds,
        gpus=[gpu.name for gpu in gpus],
        driver=gpus[0].driver if gpus else "",
        processors=len(cpus),
        source=source,
    )
    for one in refused:
        records.refused(one)
    records.planned(jobs)
    cores = Cores(pools(cpus, options.reserve if options.reserve is not None else max(4, len(cpus) // 8)))
    round_ = Round(jobs, cores, Gpus(max(1, len(gpus)), options.share), records, logs, _say, ROOT)
    try:
        round_.run(began + options.seconds - _END_S)
    except (SystemExit, KeyboardInterrupt):
        _say("ended by a signal; what ran is cut off")
    finally:
        records.close()


def _jobs(options: argparse.Namespace, work: Path, done: Collection[tuple[str, str]]) -> tuple[list[Job], list[Outcome]]:
    """What is left to do, in the order in which it should begin: what measures, specs, sanitizers, tests, random specs. And the
    specs that are refused."""
    sets = [(options.specs, options.max_dim), (options.bench, 0), (options.sanitize, specs.SANITIZED_DIM)]
    (verified, refused), (timed, bad_timed), (checked, bad_checked) = (specs.asked(paths, most) for paths, most in sets)
    verified = [one for one in verified if one.key not in done]
    timed = [replace(one, bench=True) for one in timed if ("bench", one.name) not in done]
    checked = [one for one in checked if ("sanitize", one.name) not in done]
    compiled: dict[Path, str] = {}
    jobs: list[Job] = []
    if options.on == "gpu":
        each = {one.path: one for one in (*checked, *verified, *timed)}  # with its benchmark, if that is needed
        sign = 1 if options.first == "short" else -1
        order = sorted(each.values(), key=lambda one: (not one.bench, sign * one.cost))
        jobs, compiled = specs.compiling(order, work, _COMPILE_CORES)
    jobs += specs.benchmarks(timed, work, compiled, options.sustained, options.out / "bench.jsonl")
    jobs += [suites.alone(text) for text in options.alone if ("alone", text) not in done]
    jobs += specs.verifying(verified, work, compiled, options.on)
    jobs += specs.sanitized(checked, work, compiled)
    tests = suites.files_of(ROOT / "tests/gpu") if options.tests is None else options.tests
    jobs += suites.tests(tests, work, {unit for kind, unit in done if kind == "tests"}, options.out / "tests.jsonl")
    jobs += [suites.random_specs(seed, count, options.out / f"random_{seed}.jsonl") for seed, count in options.random]
    return jobs, [*refused, *bad_timed, *bad_checked]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu_round", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=540.0, metavar="T", help="of everything together (default: 540)")
    parser.add_argument("--out", type=Path, default=Path("build/gpu_round"), metavar="DIR")
    paths = partial(parser.add_argument, type=Path, nargs="*", metavar="PATH")
    paths("--specs", default=[ROOT / "specs", ROOT / "tests/gpu/odd"], help="to verify (default: specs tests/gpu/odd)")
    parser.add_argument("--max-dim", type=int, default=1100, help="largest extent of a problem; 0 for none (default: 1100)")
    paths("--bench", default=[], help="specs to compare with cuBLASLt")
    parser.add_argument("--sustained", type=float, default=0.0, metavar="S", help="of --bench, seconds of each kernel")
    paths("--sanitize", default=[], help="specs to run under compute-sanitizer")
    paths("--tests", default=None, help="files of tests (default: tests/gpu)")
    parser.add_argument("--random", type=_random, nargs="*", default=[], metavar="SEED:COUNT", help="random specs")
    parser.add_argument("--alone", action="append", default=[], metavar="COMMAND", help="a command that measures")
    parser.add_argument("--first", choices=("long", "short"), default="long", help="specs to compile first (default: long)")
    parser.add_argument("--reserve", type=int, metavar="N", help="processors that compile no specs (default: 4, or an eighth)")
    parser.add_argument("--share", type=int, default=8, metavar="N", help="jobs that share a GPU (default: 8)")
    parser.add_argument("--on", choices=("gpu", "cpu"), default="gpu", help="cpu: emulate the specs")
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    parser.add_argument("--report", action="store_true", help="print the table of the last round in DIR")
    return parser.parse_args(arguments)


def _random(text: str) -> tuple[int, int]:
    seed, _, count = text.partition(":")
    if not (seed.isdigit() and count.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not SEED:COUNT, e.g. 7:200")
    return int(seed), int(count)


def _exit_code(found: Sequence[Outcome]) -> int:
    words = {one.word for one in found}
    if "wrong" in words:
        return ExitCode.INCORRECT
    return ExitCode.RUN_FAILED if words & {"failed", "cut_off", "not_run"} else ExitCode.OK


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
