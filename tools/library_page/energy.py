"""The tables of sustained runs: rates, and what a flop costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from mmagen.tuning.measure import BASELINES, Record
from mmagen.tuning.page import geometric_mean

_SUFFIX = " sustained"  # of the problem, in the benchmark's records

INTRODUCTION = """\
One kernel after the other for {seconds:g} s without a pause, measured in the second half of it. *pJ/flop*: power of the board over
the rate, a multiply and an add counted as two."""


@dataclass(frozen=True)
class Rate:
    """Of one candidate: TFLOPS, watts and MHz; nan where not read."""

    tflops: float
    watts: float
    mhz: float

    @property
    def picojoule(self) -> float:
        """Of a flop."""
        return self.watts / self.tflops


@dataclass(frozen=True)
class Row:
    """One problem: the library's choice, cuBLASLt's first heuristic and the fastest of its first eight."""

    problem: str
    own: Rate
    first: Rate
    best8: Rate


def rows(records: Iterable[Record], library: str) -> list[Row]:
    """Of the problems that were run by all three. library: the name of its kernel in the records."""
    rates: dict[str, dict[str, Rate]] = {}
    for record in records:
        problem = str(record["problem"])
        if problem.endswith(_SUFFIX) and record["tflops"]:
            numbers = [float("nan") if record[key] is None else float(record[key]) for key in ("power_w", "sm_clock_mhz")]
            rates.setdefault(problem.removesuffix(_SUFFIX), {})[record["name"]] = Rate(float(record["tflops"]), *numbers)
    names = (library, *BASELINES)
    return [Row(problem, *(of[name] for name in names)) for problem, of in rates.items() if all(name in of for name in names)]


def to_markdown(title: str, found: Sequence[Row], seconds: float) -> str:
    """A section."""
    over_best = [one.own.tflops / one.best8.tflops for one in found]
    over_first = [one.own.tflops / one.first.tflops for one in found]
    energy = [one.own.picojoule / one.best8.picojoule for one in found]
    means = (
        geometric_mean(over_best),
        min(over_best, default=float("nan")),
        geometric_mean(over_first),
        geometric_mean(energy),
    )
    of_means = ("problems", "over best 8: geometric mean", "lowest", "over first", "pJ/flop over that of best 8")
    summary = tabulate([(str(len(found)), *map(_number, means))], of_means, tablefmt="github", disable_numparse=True)
    heads = ("M, N, K", "TFLOPS", "MHz", "W", "pJ/flop", "best of 8: TFLOPS", "W", "pJ/flop", "over best 8", "over first")
    lines = [
        (
            one.problem.replace(",", " x "),
            *_of(one.own, clock=True),
            *_of(one.best8, clock=False),
            _number(one.own.tflops / one.best8.tflops),
            _number(one.own.tflops / one.first.tflops),
        )
        for one in found
    ]
    table = tabulate(lines, heads, tablefmt="github", disable_numparse=True)
    return "\n\n".join([f"## {title}", INTRODUCTION.format(seconds=seconds), summary, table])


def _of(rate: Rate, clock: bool) -> tuple[str, ...]:
    mhz = (_number(rate.mhz, ".0f"),) if clock else ()
    return _number(rate.tflops, ".1f"), *mhz, _number(rate.watts, ".0f"), _number(rate.picojoule, ".3f")


def _number(value: float, form: str = ".3f") -> str:
    return "-" if np.isnan(value) else format(value, form)
