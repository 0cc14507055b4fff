"""Verdicts as a page to commit: Markdown with device, driver, versions, date and the command that made it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mmagen.report.baselines import LIBRARIES, comparisons, summary
from mmagen.report.cells import figure, problem_text, text
from mmagen.report.coverage import coverage
from mmagen.report.formats import footer, grid, skips
from mmagen.verify.run import Record
from mmagen.verify.verdict import Verdict, outcome


def _figure(key: str, form: str) -> Callable[[Record], str]:
    return lambda record: figure(record[key], form)


def _text(key: str) -> Callable[[Record], str]:
    return lambda record: text(record[key])


_COLUMNS: tuple[tuple[str, Callable[[Record], str]], ...] = (
    ("problem", lambda record: problem_text(record["problem"])),
    ("inputs", _text("input_dist")),
    ("verdict", outcome),
    ("max error", _figure("max_abs_err", ".2e")),
    ("bound", _figure("bound", ".2e")),
    ("ms", _figure("ms_median", ".4f")),
    ("min", _figure("ms_min", ".4f")),
    ("max", _figure("ms_max", ".4f")),
    ("TFLOPS", _figure("tflops", ".1f")),
    ("% of instruction loop", _figure("pct_peak", ".1f")),
    ("of the baseline", _figure("ratio", ".3f")),
    ("SM MHz", _figure("sm_clock_mhz", ".0f")),
    ("W", _figure("power_w", ".0f")),
)


def to_markdown(verdicts: Sequence[Verdict], *, command: str, date: str) -> str:
    """A section per project with its facts and a row per record; baselines that a benchmark ran have rows of their own.
    First comes how the kernels compare with them.

    command: what was typed; date: ISO date of the run.
    """
    tally, facts = footer(verdicts).split("\n")
    parts = [f"# Results\n\n{facts}. {date}. {tally[0].upper()}{tally[1:]}.\n\nMade by `{command}`."]
    for library in LIBRARIES:
        if compared := comparisons(verdicts, library):
            parts.append(f"## Beside {library.title}\n\n{summary(compared, library)}")
    parts += [_section(verdict) for verdict in verdicts]
    return "\n\n".join(parts) + "\n"


def _section(verdict: Verdict) -> str:
    own = [record for record in verdict.records if record["name"] == verdict.name] or list(verdict.records)
    first = own[0]
    facts = [first["layout"], first["types"]]
    facts += [
        f"{label} {first[key]}"
        for label, key in (
            ("spec", "spec_sha"),
            ("registers", "registers"),
            ("spill bytes", "spill_bytes"),
            ("shared memory", "smem_bytes"),
        )
        if first[key] is not None
    ]
    lines = [f"## {verdict.name}: {verdict.word}", " · ".join(str(fact) for fact in facts if fact)]
    if verdict.reason:
        lines.append(verdict.reason)
    lines += coverage(verdict)
    baselines = len(own) < len(verdict.records)
    columns = (("name", _text("name")), *_COLUMNS) if baselines else _COLUMNS
    rows = [[spell(record) for _, spell in columns] for record in verdict.records]
    lines.append(grid([head for head, _ in columns], rows, "github"))
    lines += skips(verdict.records)
    return "\n\n".join(lines)
