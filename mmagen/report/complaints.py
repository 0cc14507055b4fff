"""Why problems did not pass, as a few short lines: each finding once for all problems of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mmagen.report.cells import problem_text
from mmagen.verify.run import Record
from mmagen.verify.verdict import SKIPPED, Verdict

_MOST = 8  # findings of a kernel


@dataclass
class _Complaint:
    """One thing that is wrong. records: in which it was seen."""

    text: str
    message: str
    records: list[Record] = field(default_factory=list)


def complaints(verdicts: Sequence[Verdict]) -> list[str]:
    """Lines for the end of a table: for each kernel what is wrong and where, in how many problems and in which first."""
    return [line for verdict in verdicts if verdict.word != "compiled" for line in _of_verdict(verdict)]


def of_record(record: Record) -> list[str]:
    """The same of one problem: a line for each finding, or its reason."""
    found = _found([record])
    return [f"{one.text}: {one.message}" if one.text else one.message for one in found]


def _of_verdict(verdict: Verdict) -> Iterator[str]:
    records = [record for record in verdict.records if record["reason"] and record["disposition"] != SKIPPED]
    found = _found(records)
    for one in found[:_MOST]:
        what = f"{one.text}{_problems(one.records)}" if one.text else _problems(one.records).removeprefix(", ")
        name = one.records[0]["name"]
        yield f"{name}: {what}\n  {one.message}" if what and one.text else f"{name}{f' {what}' if what else ''}: {one.message}"
    if len(found) > _MOST:
        yield f"{verdict.name}: and {len(found) - _MOST} more; --json has all"


def _found(records: Sequence[Record]) -> list[_Complaint]:
    """Findings by kind and place, in order; of a record without findings its reason."""
    found: dict[object, _Complaint] = {}
    for record in records:
        for key, text, message in _said(record):
            one = found.setdefault(key, _Complaint(text, message))
            if record not in one.records:
                one.records.append(record)
    return [*found.values()]


def _said(record: Record) -> Iterator[tuple[object, str, str]]:
    """(what is counted as one, its short name, what it says)"""
    findings = (record["details"] or {}).get("findings") or ()
    if not findings or record["disposition"] == "incorrect":
        # Of a wrong result first by how much; its findings follow.
        reason = str(record["reason"]).partition("; ")[0] if findings else str(record["reason"])
        yield (record["name"], reason), "", reason
    for finding in findings:
        place = f"{finding['file']}:{finding['line']}"
        yield (record["name"], finding["kind"], place), f"{finding['kind']} at {place}", finding["message"]


def _problems(records: Sequence[Record]) -> str:
    """In how many problems, and which the first is."""
    first = problem_text(records[0]["problem"])
    if len(records) == 1:
        return f", {first}" if first else ""
    return f", {len(records)} problems, first {first}"
