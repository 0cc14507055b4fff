"""Measures with the benchmarks of kernels what is not in the records yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mmagen.build.job import BuildResult
from mmagen.verify.run import RunResult, run
from tools.beyond_dense.rows import Kernel, Row, shuffled
from tools.library_page.kept import Found, Kept, Key
from tools.library_page.measuring import today

_AT_ONCE = 8  # problems of one process: what they found is kept when it ends
_LIMIT_S = 150.0  # of one process; a hang

Measure = Callable[[BuildResult, Sequence[str], float], RunResult]


@dataclass(frozen=True)
class Settings:
    """samples: of each candidate, each of sample_ms milliseconds."""

    samples: int = 7
    sample_ms: float = 4.0
    seed: int = 1

    def text(self, kernel: Kernel, turn: int) -> str:
        """Of the key of a measurement. turn: of the rounds of a row, from 0."""
        return f"{self.samples} x {self.sample_ms:g} ms, seed {self.seed}, {'graphs' if kernel.graphs else 'launches'}, turn {turn}"

    def arguments(self, kernel: Kernel, problems: Sequence[str]) -> list[str]:
        """Of the benchmark."""
        words = [
            "--dist",
            "uniform",
            "--reps",
            str(self.samples),
            "--sample-ms",
            f"{self.sample_ms:g}",
            "--seed",
            str(self.seed),
        ]
        words += ["--graphs"] if kernel.graphs else []
        return words + [word for problem in problems for word in ("--problem", problem)]


@dataclass(frozen=True)
class Subject:
    """A kernel that was compiled. keys: of its measurements by turn."""

    kernel: Kernel
    built: BuildResult
    keys: Mapping[int, Key]


def benchmark(built: BuildResult, arguments: Sequence[str], limit_s: float) -> RunResult:
    """Run the program, which verifies each problem before it times it."""
    return run(built, program="bench", args=arguments, timeout_s=limit_s)


def measure(
    row: Row,
    subjects: Mapping[Kernel, Subject],
    settings: Settings,
    kept: Kept,
    until: float | None,
    said: Callable[[str], None] = lambda _: None,
    program: Measure = benchmark,
) -> None:
    """Everything of a row that is not in `kept`; kernels without a subject are left out. until: on time.monotonic(), nothing is
    measured later. said: gets what is being measured."""
    for turn in range(row.rounds):
        for kernel, problems in shuffled([*row.problems().items()], settings.seed + turn):
            if kernel not in subjects:
                continue
            one = subjects[kernel]
            left = missing(problems, kept.of(one.keys[turn]))
            while left and (until is None or time.monotonic() < until):
                said(f"{kernel.name}: {len(left)} left, turn {turn + 1} of {row.rounds}")
                _some(one, one.keys[turn], left[:_AT_ONCE], settings, kept, until, program)
                left = missing(problems, kept.of(one.keys[turn]))


def missing(problems: Sequence[str], found: Mapping[str, Found]) -> list[str]:
    """Those that there is something left to find out about."""
    return [problem for problem in problems if problem not in found or not found[problem].ended]


def _some(
    one: Subject, key: Key, problems: Sequence[str], settings: Settings, kept: Kept, until: float | None, program: Measure
) -> None:
    """Some problems in one process. Where it ends early the first without a record is to blame, unless time is up."""
    limit_s = _LIMIT_S if until is None else min(_LIMIT_S, max(1.0, until - time.monotonic()))
    ran = program(one.built, settings.arguments(one.kernel, problems), limit_s)
    for problem in problems:
        records = tuple(record for record in ran.records if record["problem"] == problem)
        if records:
            kept.add(key, Found(problem, records, date=today()))
        elif until is None or time.monotonic() < until:
            kept.add(key, Found(problem, skipped=ran.reason or "the benchmark says nothing of it", date=today()))
            return
        else:
            return
