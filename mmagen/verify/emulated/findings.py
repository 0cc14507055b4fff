"""What the emulator's reports of a problem's launches come to in its record: disposition, reason and details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mmagen.emulate import Coverage, EmulationError, Finding, Report

_MOST_PLACES = 4  # named in a sentence


class OutcomeError(EmulationError):
    """Something that is wrong beside a problem: in a call that no problem makes, or in another function of the library. outcome:
    of the record, so that a wrong result is incorrect and a race has its findings there as well."""

    def __init__(self, where: str, outcome: Mapping[str, Any]):
        super().__init__(f"{where}: {outcome['reason']}")
        self.outcome: dict[str, Any] = {"disposition": outcome["disposition"], "reason": str(self)}
        if details := outcome.get("details"):
            findings = [one | {"message": f"{where}: {one['message']}"} for one in details["findings"]]
            self.outcome["details"] = {"endless": details["endless"], "findings": findings}


def findings_of(reports: Sequence[Report]) -> list[Finding]:
    """Those of all launches."""
    return [finding for report in reports for finding in report.findings]


def with_findings(wrong: str, reports: Sequence[Report]) -> dict[str, Any]:
    """A wrong result is incorrect; a right one that a race or a stray access was on the way to has failed."""
    reasons = ([wrong] if wrong else []) + _sentences(_reported(reports))
    extra = {"details": _details(reports)}
    if not reasons:
        return extra
    return extra | {"disposition": "incorrect" if wrong else "failed", "reason": "; ".join(reasons)}


def _reported(reports: Sequence[Report]) -> list[Finding]:
    """The findings, and boxes that were prefetched and never loaded, which leave results right."""
    return [finding for report in reports for finding in (*report.findings, *report.unused_prefetches)]


def _sentences(findings: Sequence[Finding]) -> list[str]:
    """The first finding, and where the others are; the details have all of each."""
    places: dict[tuple[str, str, int], int] = {}
    for finding in findings:
        key = (finding.kind, finding.file, finding.line)
        places[key] = places.get(key, 0) + finding.count
    if not findings:
        return []
    (first, times), *others = places.items()
    message = f"{first[1]}:{first[2]}: {first[0]}: {findings[0].message}{f' ({times} times)' if times > 1 else ''}"
    more = [f"{kind} at {file}:{line}" for (kind, file, line), _ in others]
    left = f" and {len(more) - _MOST_PLACES} more places" if len(more) > _MOST_PLACES else ""
    return [message, *([f"also {', '.join(more[:_MOST_PLACES])}{left}"] if more else [])]


def _details(reports: Sequence[Report]) -> dict[str, Any]:
    """What only the emulator reports: findings, coverage of branches and loops for each launch, traffic by source line."""
    return {
        "steps": sum(report.steps for report in reports),
        "ctas": sum(report.ctas for report in reports),
        "endless": any(report.stopped for report in reports),
        "findings": [vars(finding) for finding in _reported(reports)],
        "coverage": [_covered(report.coverage) for report in reports],
        "traffic": [vars(line) for report in reports for line in report.by_line()],
    }


def _covered(coverage: Coverage) -> dict[str, Any]:
    """The coverage of one launch."""
    missed = sorted(coverage.missed, key=lambda goal: (goal.ptx_line, goal.what))
    return {"entry": coverage.entry, "goals": len(coverage.goals), "missed": [vars(goal) for goal in missed]}
