"""How a benchmark's kernels stand to cuBLASLt: ratios problem by problem, and their geometric mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from mmagen.report.formats import figure, problem_text
from mmagen.verify.verdict import Verdict

FIRST, BEST = "cublasLt_first", "cublasLt_best8"
_SUSTAINED = " sustained"


@dataclass(frozen=True)
class Bout:
    """One problem of one kernel, measured in one run beside the library's first heuristic and the best of its first eight.

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


def bouts(verdicts: Sequence[Verdict]) -> list[Bout]:
    """All of them, short runs first; a problem that the library did not run has none."""
    found = []
    for verdict in verdicts:
        rivals = {(record["name"], problem_text(record["problem"])): record["tflops"] for record in verdict.records}
        for record in verdict.records:
            key = problem_text(record["problem"])
            first, best = rivals.get((FIRST, key)), rivals.get((BEST, key))
            if record["name"] == verdict.name and record["tflops"] and first and best:
                found.append(
                    Bout(
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
    return sorted(found, key=lambda bout: bout.sustained)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of positive numbers, at least one."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summary(found: Sequence[Bout]) -> str:
    """A GitHub table, and below it the geometric means and the lowest ratio of each kernel and kind of run."""
    rows = [
        (
            bout.name,
            bout.problem,
            "sustained" if bout.sustained else "short",
            f"{bout.tflops:.1f}",
            f"{bout.best:.1f}",
            f"{bout.tflops / bout.best:.3f}",
            f"{bout.first:.1f}",
            f"{bout.tflops / bout.first:.3f}",
            figure(bout.mhz, ".0f"),
            figure(bout.watts, ".0f"),
        )
        for bout in found
    ]
    heads = ("kernel", "problem", "run", "TFLOPS", "cuBLASLt best of 8", "of it", "cuBLASLt first", "of it", "SM MHz", "W")
    groups: dict[tuple[str, bool], list[Bout]] = {}
    for bout in found:
        groups.setdefault((bout.name, bout.sustained), []).append(bout)
    means = [
        (
            name,
            "sustained" if sustained else "short",
            str(len(group)),
            f"{geometric_mean([bout.tflops / bout.best for bout in group]):.3f}",
            f"{min(bout.tflops / bout.best for bout in group):.3f}",
            f"{geometric_mean([bout.tflops / bout.first for bout in group]):.3f}",
        )
        for (name, sustained), group in groups.items()
    ]
    of_means = ("kernel", "run", "problems", "mean of best of 8", "lowest", "mean of first")
    return "\n\n".join(
        tabulate(body, head, tablefmt="github", disable_numparse=True) for head, body in ((of_means, means), (heads, rows))
    )
