"""Ratios of a benchmark's kernels to another library for each problem, and their geometric means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from mmagen.report.cells import figure, problem_text
from mmagen.verify.verdict import Verdict

_SUSTAINED = " sustained"


@dataclass(frozen=True)
class Library:
    """first, best: names of the candidates of a benchmark that are the library's own choice, and the fastest of its algorithms;
    first_text, best_text: what tables call them."""

    title: str
    first: str
    best: str
    first_text: str
    best_text: str


CUBLASLT = Library("cuBLASLt", "cublasLt_first", "cublasLt_best8", "first", "best of 8")
CUSPARSELT = Library("cuSPARSELt", "cusparseLt_default", "cusparseLt_best", "default", "best of its search")
LIBRARIES = (CUBLASLT, CUSPARSELT)


@dataclass(frozen=True)
class Comparison:
    """One problem of one kernel, measured in one run beside a library's own choice and the fastest of its algorithms.

    tflops, first, best: TFLOPS (TOPS for integers). mhz, watts: clock and power under the kernel, None where not read.
    """

    name: str
    problem: str
    sustained: bool
    tflops: float
    first: float
    best: float
    mhz: float | None
    watts: float | None


def comparisons(verdicts: Sequence[Verdict], library: Library) -> list[Comparison]:
    """One for each problem that the library also ran, short runs first."""
    found = []
    for verdict in verdicts:
        baselines = {(record["name"], problem_text(record["problem"])): record["tflops"] for record in verdict.records}
        for record in verdict.records:
            key = problem_text(record["problem"])
            first, best = baselines.get((library.first, key)), baselines.get((library.best, key))
            if record["name"] == verdict.name and record["tflops"] and first and best:
                found.append(
                    Comparison(
                        verdict.name,
                        key.removesuffix(_SUSTAINED),
                        key.endswith(_SUSTAINED),
                        record["tflops"],
                        first,
                        best,
                        record["sm_clock_mhz"],
                        record["power_w"],
                    )
                )
    return sorted(found, key=lambda one: one.sustained)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of positive numbers, at least one."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summary(found: Sequence[Comparison], library: Library) -> str:
    """A GitHub table, and below it the geometric means and the lowest ratio of each kernel and kind of run."""
    rows = [
        (
            one.name,
            one.problem,
            "sustained" if one.sustained else "short",
            f"{one.tflops:.1f}",
            f"{one.best:.1f}",
            f"{one.tflops / one.best:.3f}",
            f"{one.first:.1f}",
            f"{one.tflops / one.first:.3f}",
            figure(one.mhz, ".0f"),
            figure(one.watts, ".0f"),
        )
        for one in found
    ]
    best, first = f"{library.title} {library.best_text}", f"{library.title} {library.first_text}"
    heads = ("kernel", "problem", "run", "TFLOPS", best, "of it", first, "of it", "SM MHz", "W")
    groups: dict[tuple[str, bool], list[Comparison]] = {}
    for one in found:
        groups.setdefault((one.name, one.sustained), []).append(one)
    means = [
        (
            name,
            "sustained" if sustained else "short",
            str(len(group)),
            f"{geometric_mean([one.tflops / one.best for one in group]):.3f}",
            f"{min(one.tflops / one.best for one in group):.3f}",
            f"{geometric_mean([one.tflops / one.first for one in group]):.3f}",
        )
        for (name, sustained), group in groups.items()
    ]
    of_means = ("kernel", "run", "problems", f"mean of {library.best_text}", "lowest", f"mean of {library.first_text}")
    return "\n\n".join(
        tabulate(body, head, tablefmt="github", disable_numparse=True) for head, body in ((of_means, means), (heads, rows))
    )
