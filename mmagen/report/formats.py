"""Verdicts as a table, JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from itertools import groupby

import mmagen
from mmagen.build.log import worst
from mmagen.core.screen import UNBROKEN, Line, fold
from mmagen.core.screen import table as laid_out
from mmagen.report.cells import figure, problem_text, text
from mmagen.report.complaints import complaints
from mmagen.verify.run import RECORD_FIELDS, Record
from mmagen.verify.verdict import SKIPPED, Verdict, outcome

_COLUMNS = (
    "name",
    "problem",
    "dist",
    "layout",
    "types",
    "verdict",
    "max err",
    "bound",
    "ms",
    "TFLOPS",
    "regs",
    "spills",
    "smem",
)
CSV_FIELDS = tuple(name for name in RECORD_FIELDS if name != "details")


def table(verdicts: Sequence[Verdict], columns: int | None = None) -> str:
    """One line per record, then why what did not pass did not, each reason once, then what it ran on. Times in ms, sizes in
    bytes. If that is wider than `columns`, what the records of a project have in common is a line above them."""
    rows = [_row(verdict, record) for verdict in verdicts for record in verdict.records]
    body = grid(_COLUMNS, rows, "simple", always=("name", "verdict"), right=_COLUMNS[6:])
    if columns is not None and max(map(len, body.split("\n"))) > columns:
        body = grid(_COLUMNS[1:], _titled(rows), "simple", always=("problem", "verdict"), right=_COLUMNS[6:], columns=columns)
    reasons = [*complaints(verdicts), *skips([record for verdict in verdicts for record in verdict.records])]
    layouts = dict.fromkeys(str(r["layout"]) for v in verdicts for r in v.records if "(" in str(r["layout"]))
    warned = [
        f"{v.name}: {len(v.build.warnings)} compiler warning{'s' * (len(v.build.warnings) != 1)}: {v.build.warnings[0]}"
        for v in verdicts
        if v.build.warnings
    ]
    parts = [body, *(fold("\n".join(lines), columns) for lines in (reasons, warned, [*layouts, footer(verdicts)]))]
    return "\n\n".join(part for part in parts if part)


def _titled(rows: Sequence[Sequence[str]]) -> list[Line]:
    """The rows without name, layout and types, below a line with these for each project."""
    lines: list[Line] = []
    for name, group in groupby(rows, key=lambda row: row[0]):
        own = [*group]
        shared = (", ".join(dict.fromkeys(row[i] for row in own if row[i])) for i in (3, 4))
        lines.append(", ".join(part for part in (name, *shared) if part))
        lines += [[row[1], row[2], "", "", *row[5:]] for row in own]
    return lines


def grid(
    heads: Sequence[str],
    rows: Sequence[Line],
    form: str,
    *,
    always: Sequence[str] = (),
    right: Sequence[str] = (),
    columns: int | None = None,
) -> str:
    """A table: `simple`, which fits `columns`, or `github`. Columns that say nothing in any row (no timing, nothing run) only make
    it wide and are left out, unless their heads are in `always`; those in `right` are aligned so."""
    said = [row for row in rows if not isinstance(row, str)]
    kept = [i for i, head in enumerate(heads) if head in always or any(row[i] for row in said)]
    shown = [row if isinstance(row, str) else [row[i] for i in kept] for row in rows]
    names = [heads[i] for i in kept]
    if form == "simple":
        return laid_out(names, shown, columns, right=right)
    from tabulate import tabulate

    align = ["right" if name in right else "left" for name in names]
    return tabulate(shown, names, tablefmt=form, disable_numparse=True, colalign=align if right and rows else None)


def skips(records: Sequence[Record]) -> list[str]:
    """A line for each reason for skipping, with the number of records."""
    counts: dict[str, int] = {}
    for record in records:
        if record["disposition"] == SKIPPED:
            counts[record["reason"]] = counts.get(record["reason"], 0) + 1
    return [f"{count} skipped: {reason}" for reason, count in counts.items()]


def footer(verdicts: Sequence[Verdict]) -> str:
    """How many of what, and the machine and versions that the records name."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        counts[verdict.word] = counts.get(verdict.word, 0) + 1
    tally = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in counts.items()) or "nothing to report"
    facts = []
    for label, key in (
        ("", "device"),
        ("driver ", "driver"),
        ("CUDA ", "cuda"),
        ("CUTLASS ", "cutlass"),
        ("mmagen ", "mmagen"),
    ):
        values = dict.fromkeys(str(r[key]) for v in verdicts for r in v.records if r[key])
        facts += [label + " / ".join(values)] if values else []
    return f"{tally}\n{' · '.join(facts) or f'mmagen {mmagen.__version__}'}"


def to_json(verdicts: Sequence[Verdict]) -> str:
    """JSON lines: one object per record with every field, in order; a number that JSON cannot hold is a string."""
    lines = (
        json.dumps({name: _plain(value) for name, value in _spoken(record)}, allow_nan=False, ensure_ascii=False)
        for verdict in verdicts
        for record in verdict.records
    )
    return "".join(f"{line}\n" for line in lines)


def to_csv(verdicts: Sequence[Verdict]) -> str:
    """CSV with a header; the fields of `to_json` but for details, in the same order, null as an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_FIELDS)
    for verdict in verdicts:
        for record in verdict.records:
            writer.writerow(["" if value is None else _cell(value) for name, value in _spoken(record) if name in CSV_FIELDS])
    return out.getvalue()


def _spoken(record: Record) -> list[tuple[str, object]]:
    """Fields and values in order, the disposition as people should read it."""
    return [(name, outcome(record) if name == "disposition" else record[name]) for name in RECORD_FIELDS]


def _row(verdict: Verdict, record: Record) -> list[str]:
    smem = record["smem_bytes"]
    if smem is None:
        smem = worst(verdict.build.ptxas).get("smem_bytes") or None
    alone = len(verdict.records) == 1 and record["disposition"] == verdict.disposition
    return [
        str(record["name"]),
        problem_text(record["problem"]),
        text(record["input_dist"]),
        # The letters alone; what they mean stands once below the table.
        text(record["layout"]).split(" (")[0],
        text(record["types"]),
        (verdict.word if alone else outcome(record)).replace(" ", UNBROKEN),
        figure(record["max_abs_err"], ".2e"),
        figure(record["bound"], ".2e"),
        figure(record["ms_median"], ".4f"),
        figure(record["tflops"], ".1f"),
        text(record["registers"]),
        text(record["spill_bytes"]),
        text(smem),
    ]


def _plain(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: object) -> str:
    if isinstance(value, list | tuple | dict):
        return problem_text(value) if not isinstance(value, dict) else json.dumps(value)
    return str(value)


def build_failures(verdicts: Iterable[Verdict]) -> str:
    """The useful lines of every failed build, each line under its project's name; "" when all compiled."""
    return "\n".join(f"{v.name}: {line}" for v in verdicts if not v.build.ok for line in v.build.errors)
