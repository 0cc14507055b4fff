"""python -m tools.predictions [--check]: docs/results/h200-predictions.md, predicted beside measured.

Measured are the times of `verify --bench` (short runs, random data) and the shared memory in the pages of docs/results, which
`mmagen verify --markdown` has written on an H200. Predicted are the times that `mmagen new` ranks by, and of a library's config
those that it chooses by. Specs that have changed since a page was written are left out. --check compares the page with what
would be written, exit code 1.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmagen.families.library import choose
from mmagen.families.reading import read
from mmagen.plan.cost import predict
from mmagen.plan.devices import DEVICES
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem
from mmagen.suggest.estimate import mean_us

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/results/h200-predictions.md"
PAGES = ("h200-hopper-bf16", "h200-hopper-types", "h200-hopper-e4m3-wide", "h200-bench", "h200-bench-f64")
_SECTION = re.compile(
    r"^## (?P<name>\w+): passed\n\n.*?· spec (?P<sha>[0-9a-f]{16}) .*?shared memory (?P<smem>\d+)", re.MULTILINE
)
_DEVICE = next(device for device in DEVICES if device.name == "h200")
_SHORT_US = 20.0  # below, launches weigh as much as the kernel


@dataclass(frozen=True)
class Row:
    """A call. measured, predicted: in microseconds. by: what predicts."""

    name: str
    problem: str
    measured: float
    predicted: float
    by: str

    @property
    def error(self) -> float:
        """Of the prediction, relative to what was measured."""
        return self.predicted / self.measured - 1


def plans() -> dict[str, GemmPlan]:
    """Of all gemms in specs/."""
    found = (read(path.read_bytes(), path.name)[0] for path in sorted((ROOT / "specs").glob("*.yaml")))
    return {plan.name: plan for plan in found if isinstance(plan, GemmPlan)}


def sections(text: str) -> dict[str, tuple[str, int]]:
    """Of a page: project -> digest of its spec, and bytes of shared memory."""
    return {match["name"]: (match["sha"], int(match["smem"])) for match in _SECTION.finditer(text)}


def tables(text: str) -> Iterator[dict[str, str]]:
    """The rows of a page's tables, by their heads."""
    heads: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            heads = []
        elif not heads:
            heads = cells
        elif not set(line) <= set("|-: "):
            yield dict(zip(heads, cells, strict=True))


def measured(text: str) -> Iterator[tuple[str, str, float]]:
    """(project, problem, microseconds) of a page, of short runs: by their rate, else by their time."""
    found = list(tables(text))
    rated = [row for row in found if row.get("run") == "short" and "TFLOPS" in row]
    for row in rated:
        yield row["kernel"], row["problem"], _work(row["problem"]) / float(row["TFLOPS"]) / 1e6
    for row in found:
        if not rated and row.get("ms") and "loop" not in row["name"] and not row["name"].startswith("cublasLt"):
            yield row["name"], row["problem"], 1e3 * float(row["ms"])


def _work(problem: str) -> float:
    m, n, k, *batch = (int(part) for part in problem.split(","))
    return 2.0 * m * n * k * (batch[0] if batch else 1)


def predicted(plan: GemmPlan, text: str) -> tuple[float, str]:
    """Microseconds of a problem "M,N,K[,batch]", and by what."""
    m, n, k, *batch = (int(part) for part in text.split(","))
    problem = Problem(shape=(m, n, k), batch=batch[0] if batch else 1)
    if not plan.configs:
        return mean_us(plan, _DEVICE, [problem]), "estimate"
    config = choose(plan, problem)
    if config.cost:
        return predict(config.plan, config.cost, problem) * 1e6, "cost of its library"
    return mean_us(config.plan, _DEVICE, [problem]), "estimate"


def rows(pages: Sequence[str], of: dict[str, GemmPlan]) -> list[Row]:
    """Of the pages' texts, each problem of a spec once."""
    found: dict[tuple[str, str], Row] = {}
    for text in pages:
        known = sections(text)
        for name, problem, us in measured(text):
            if name in of and name in known and known[name][0] == of[name].spec_sha and re.fullmatch(r"[\d,]+", problem):
                found.setdefault((name, problem), Row(name, problem, us, *predicted(of[name], problem)))
    return list(found.values())


def summary(of: Sequence[Row]) -> str:
    """Number, median and largest error."""
    errors = sorted(abs(row.error) for row in of)
    return f"{len(of)} | {statistics.median(errors):.1%} | {errors[-1]:.0%}"


def page(pages: Sequence[str], of: dict[str, GemmPlan]) -> str:
    """The text of the page."""
    found = rows(pages, of)
    long = [row for row in found if row.measured >= _SHORT_US]
    kinds = [("all", long), *((kind, [row for row in long if row.by == kind]) for kind in ("estimate", "cost of its library"))]
    smem = [
        (name, planned.smem_bytes, known[1])
        for known_of in map(sections, pages)
        for name, known in known_of.items()
        if (planned := of.get(name)) and known[0] == planned.spec_sha and not planned.configs
    ]
    exact = sum(planned == reported for _, planned, reported in smem)
    lines = [
        "# Predicted and measured",
        "",
        "Made by `python -m tools.predictions` from the pages of this folder that `verify --bench` has written on an H200.",
        f"Times are of short runs on random data, each problem of a spec once, {_SHORT_US:.0f} us and longer. `estimate` is what",
        "`mmagen new` ranks by; its coefficients are of datasheets, and of the peaks in `h200-peaks.md`. A library's `cost` was",
        "fitted by `mmagen tune`. Specs that have changed since they were measured are left out.",
        "",
        "| predicted by | problems | median error | largest |",
        "|---|---|---|---|",
        *(f"| {kind} | {summary(some)} |" for kind, some in kinds if some),
        "",
        f"Shared memory: as planned for {exact} of {len(smem)} kernels.",
        "",
        "| spec | problem | measured us | predicted us | error | by |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row.name} | {row.problem} | {row.measured:,.1f} | {row.predicted:,.1f} | {row.error:+.0%} | {row.by} |"
            for row in sorted(long, key=lambda row: (row.name, row.measured))
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """The command."""
    texts = [(PAGE.parent / f"{name}.md").read_text("utf-8") for name in PAGES]
    made = page(texts, plans())
    if "--check" in sys.argv:
        same = PAGE.is_file() and PAGE.read_text("utf-8") == made
        print("" if same else f"{PAGE.relative_to(ROOT)} differs")
        return int(not same)
    PAGE.write_text(made, "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
