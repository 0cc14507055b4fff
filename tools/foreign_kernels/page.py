"""The pages of results, docs/results/foreign-kernels.md and foreign-functions.md."""

from __future__ import annotations

from collections.abc import Sequence

import mmagen
from tools.foreign_kernels.faults import Fault
from tools.foreign_kernels.run import Outcome
from tools.foreign_kernels.sources import Checkout


def page(
    outcomes: Sequence[Outcome], faults: Sequence[tuple[Fault, Outcome]], found: dict[str, Checkout], nvcc: str, file: str
) -> str:
    """Markdown: versions, a row per kernel, the defects that are reported and true, and the planted faults. file: where it goes."""
    silent = sum(outcome.ok and not outcome.findings for outcome in outcomes)
    known = sum(outcome.ok and bool(outcome.findings) for outcome in outcomes)
    lines = [
        "# Kernels of other projects in the emulator",
        "",
        f"`python -m tools.foreign_kernels {' '.join(f'--{name} DIR' for name in found)}"
        f"{' --faults' if faults else ''} --markdown {file}`",
        "",
        f"mmagen {mmagen.__version__}, nvcc {nvcc}, no GPU. Compiled from:",
        "",
        "| project | version | commit |",
        "|---|---|---|",
        *(f"| [{x.source.name}]({x.source.url}) | {x.source.version} | `{x.commit}` |" for x in found.values()),
        "",
        "Operands are small integers, so that results are compared exactly. Each kernel is known to be right on GPUs: a finding is",
        "either true of this version of the kernel, and explained below, or a defect of the emulator.",
        "",
        f"{len(outcomes)} runs: {silent} right without a finding, {known} right with true findings alone, "
        f"{len(outcomes) - silent - known} others.",
        "",
        "| kernel | source | arch | problem | result | findings | steps | s |",
        "|---|---|---|---|---|---|---:|---:|",
        *map(_row, outcomes),
        *_defects(outcomes),
        *_faults(faults),
    ]
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome) -> str:
    kernel = outcome.kernel
    problem = kernel.problem.text if kernel.problem else "its own"
    findings = ", ".join(f"{kind} ({count})" for kind, count in outcome.findings.items()) or "none"
    cells = (kernel.name, f"`{kernel.where}`", kernel.arch, problem, outcome.result.splitlines()[0], findings)
    return f"| {' | '.join(cells)} | {outcome.steps} | {outcome.seconds:.1f} |"


def _defects(outcomes: Sequence[Outcome]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for outcome in outcomes:
        for kind, why in outcome.kernel.defects.items():
            by_reason.setdefault(why, []).append(f"{outcome.kernel.name} (`{kind}`)")
    if not by_reason:
        return []
    return ["", "## True findings", "", *(f"- {', '.join(names)}: {why}." for why, names in by_reason.items())]


def _faults(faults: Sequence[tuple[Fault, Outcome]]) -> list[str]:
    if not faults:
        return []
    rows = [f"| {f.kernel} | {f.what} | {o.seen_as(f.seen) or 'not seen'} |" for f, o in faults]
    return ["", "## Faults planted in their PTX", "", "| kernel | fault | seen as |", "|---|---|---|", *rows]
