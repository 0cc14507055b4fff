"""Verdicts as a table, JSON lines, CSV and JUnit XML."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

import mmagen
from mmagen.build.log import worst
from mmagen.verify.run import RECORD_FIELDS, Record
from mmagen.verify.verdict import EMULATED, SKIPPED, Verdict, outcome

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
# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def table(verdicts: Sequence[Verdict]) -> str:
    """One line per record, then why what did not pass did not, each reason for skipping once, then what it ran on. Times in ms,
    sizes in bytes."""
    rows = [_row(verdict, record) for verdict in verdicts for record in verdict.records]
    body = grid(_COLUMNS, rows, "simple", always=("name", "verdict"), right=_COLUMNS[6:])
    reasons = [
        f"{record['name']}{_at(record)}: {record['reason']}"
        for verdict in verdicts
        for record in verdict.records
        if record["reason"] and verdict.word != "compiled" and record["disposition"] != SKIPPED
    ]
    reasons += skips([record for verdict in verdicts for record in verdict.records])
    layouts = dict.fromkeys(str(r["layout"]) for v in verdicts for r in v.records if "(" in str(r["layout"]))
    warned = [
        f"{v.name}: {len(v.build.warnings)} compiler warning{'s' * (len(v.build.warnings) != 1)}: {v.build.warnings[0]}"
        for v in verdicts
        if v.build.warnings
    ]
    parts = [[body], reasons, warned, [*layouts, footer(verdicts)]]
    return "\n\n".join("\n".join(part) for part in parts if part)


def grid(
    heads: Sequence[str], rows: Sequence[Sequence[str]], form: str, *, always: Sequence[str] = (), right: Sequence[str] = ()
) -> str:
    """A table in one of tabulate's forms. Columns that say nothing in any row (no timing, nothing run) only make it wide
    and are left out, unless their heads are in `always`; those in `right` are aligned so."""
    from tabulate import tabulate

    kept = [i for i, head in enumerate(heads) if head in always or any(row[i] for row in rows)]
    align = ["right" if heads[i] in right else "left" for i in kept]
    return tabulate(
        [[row[i] for i in kept] for row in rows],
        [heads[i] for i in kept],
        tablefmt=form,
        disable_numparse=True,
        colalign=align if right and rows else None,
    )


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
    """CSV with a header; the fields of `to_json` in the same order, null as an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(RECORD_FIELDS)
    for verdict in verdicts:
        for record in verdict.records:
            writer.writerow(["" if value is None else _cell(value) for _, value in _spoken(record)])
    return out.getvalue()


def _spoken(record: Record) -> list[tuple[str, object]]:
    """Fields and values in order, the disposition as people should read it."""
    return [(name, outcome(record) if name == "disposition" else record[name]) for name in RECORD_FIELDS]


def to_junit(verdicts: Sequence[Verdict]) -> str:
    """JUnit XML: a suite per project, a case per record; times in seconds.

    incorrect is a failure; failed is an error; not_run, not_supported and skipped are skipped, but a compile-only case that
    compiled is a success.
    """
    root = ElementTree.Element("testsuites", name="mmagen")
    for verdict in verdicts:
        suite = ElementTree.SubElement(root, "testsuite", name=verdict.name, time=f"{verdict.seconds:.3f}")
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        for record in verdict.records:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=_xml(f"mmagen.{verdict.name}"),
                name=_xml(_case_name(verdict, record)),
                time=f"{(_number(record['ms_median']) or 0.0) / 1000:.6f}",
            )
            counts["tests"] += 1
            counted = _outcome(case, verdict, record)
            if counted:
                counts[counted] += 1
        if not verdict.build.ok:
            ElementTree.SubElement(suite, "system-err").text = _xml("\n".join(verdict.build.errors))
        for key, value in counts.items():
            suite.set(key, str(value))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _outcome(case: ElementTree.Element, verdict: Verdict, record: Record) -> str:
    """Add the element that a record's disposition asks for and return the count it belongs to, "" for a success."""
    word = record["disposition"]
    if _is_well(verdict, record):
        return ""
    element, counted = {"incorrect": ("failure", "failures"), "failed": ("error", "errors")}.get(word, ("skipped", "skipped"))
    ElementTree.SubElement(case, element, message=_xml(record["reason"] or word))
    return counted


def _is_well(verdict: Verdict, record: Record) -> bool:
    return record["disposition"] == "passed" or (verdict.compile_only and verdict.build.ok)


def _case_name(verdict: Verdict, record: Record) -> str:
    if verdict.compile_only or not verdict.build.ok:
        return "compile"
    parts = [problem_text(record["problem"]), record["input_dist"]]
    parts += ["(emulated)"] if record["device"] == EMULATED else []
    return " ".join(str(part) for part in parts if part) or "run"


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
        verdict.word if alone else outcome(record),
        figure(record["max_abs_err"], ".2e"),
        figure(record["bound"], ".2e"),
        figure(record["ms_median"], ".4f"),
        figure(record["tflops"], ".1f"),
        text(record["registers"]),
        text(record["spill_bytes"]),
        text(smem),
    ]


def problem_text(problem: object) -> str:
    """4096x4096x1024 for a list of extents; a text as it is; "" for None."""
    if isinstance(problem, list | tuple):
        return "x".join(str(extent) for extent in problem)
    return text(problem)


def _at(record: Record) -> str:
    problem = problem_text(record["problem"])
    return f" {problem}" if problem else ""


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def figure(value: object, form: str) -> str:
    """A number in `form`, 0 without decimals; a text as it is; "" for None."""
    number = _number(value)
    return text(value) if number is None else "0" if number == 0 else format(number, form)


def text(value: object) -> str:
    """ "" for None."""
    return "" if value is None else str(value)


def _plain(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: object) -> str:
    if isinstance(value, list | tuple | dict):
        return problem_text(value) if not isinstance(value, dict) else json.dumps(value)
    return str(value)


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def build_failures(verdicts: Iterable[Verdict]) -> str:
    """The useful lines of every failed build, each line under its project's name; "" when all compiled."""
    return "\n".join(f"{v.name}: {line}" for v in verdicts if not v.build.ok for line in v.build.errors)
