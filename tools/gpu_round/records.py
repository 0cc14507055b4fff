"""The records of a round, JSON lines that are only appended to, and the table of what they come to.

A line is an event: a round begins, a job is planned, begins, ends, or has an outcome of a unit. A round that is killed has said
what it planned: what has no outcome then was not run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import Any

from tabulate import tabulate

from tools.gpu_round.jobs import WORDS, Ended, Job, Outcome

Event = dict[str, Any]
_NAMED = ("wrong", "failed", "cut_off", "not_run")  # listed by name below the table
_LOG_KEPT = 4000  # characters, of a job that did not pass
_PAGE_WIDTH = 130
_MOST_NAMES = 12
_CUT, _NOT_BEGUN = "the round ended while it ran", "the round ended before it began"


class Records:
    """Appends to a file; each line is flushed, so that a round that is killed loses none."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        cut = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        self._file = path.open("a", encoding="utf-8")
        if cut:  # the last round was stopped within a line
            self._file.write("\n")

    def _add(self, event: str, **facts: Any) -> None:
        self._file.write(json.dumps({"event": event, **facts}) + "\n")
        self._file.flush()

    def round(self, **facts: Any) -> None:
        """A round begins. facts: the machine, the limits, a digest of the sources."""
        self._add("round", **facts)

    def planned(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._add("plan", job=job.name, kind=job.kind, units=job.units)

    def refused(self, outcome: Outcome) -> None:
        """An outcome of what no job can be made of."""
        self._add("outcome", job="", **asdict(outcome))

    def began(self, job: Job, cpus: Sequence[int], gpus: Sequence[int]) -> None:
        self._add("begin", job=job.name, cpus=cpus, gpus=gpus)

    def ended(self, job: Job, ended: Ended, outcomes: Iterable[Outcome]) -> None:
        """A job's end, and its outcomes, which come first: an end is only noted with all of them."""
        bad = False
        for outcome in outcomes:
            bad |= outcome.word in ("wrong", "failed")
            self._add("outcome", job=job.name, **asdict(outcome))
        log = {"log": ended.log[-_LOG_KEPT:]} if bad or ended.exit_code is None else {}
        self._add("end", job=job.name, exit_code=ended.exit_code, seconds=round(ended.seconds, 2), reason=ended.reason, **log)

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> list[Event]:
    """The whole lines of a file; none if there is no such file."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    events = []
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "event" in event:
            events.append(event)
    return events


def passed(events: Sequence[Event], source: str) -> dict[tuple[str, str], Outcome]:
    """By (kind, unit), all that passed in rounds with these sources and was not bad in a later one with them."""
    found: dict[tuple[str, str], Outcome] = {}
    same = False
    for event in events:
        if event["event"] == "round":
            same = event.get("source") == source
        elif event["event"] == "outcome" and same:
            one = _outcome(event)
            found.pop((one.kind, one.unit), None)
            found |= {(one.kind, one.unit): one} if one.word == "passed" else {}
    return found


def outcomes(events: Sequence[Event]) -> list[Outcome]:
    """Of the last round, and what passed in those before with the same sources: one for each unit. A planned unit of a job that has
    not ended, and that has none, was cut off or not run."""
    starts = [number for number, event in enumerate(events) if event["event"] == "round"]
    if not starts:
        return []
    before, last = events[: starts[-1]], events[starts[-1] :]
    found = passed(before, str(last[0].get("source")))
    begun, ended = ({event["job"] for event in last if event["event"] == word} for word in ("begin", "end"))
    for event in last:
        if event["event"] == "outcome":
            one = _outcome(event)
            found[one.kind, one.unit] = one
    for event in last:
        if event["event"] != "plan" or event["job"] in ended:
            continue
        word, reason = ("cut_off", _CUT) if event["job"] in begun else ("not_run", _NOT_BEGUN)
        for unit in event["units"]:
            found.setdefault((event["kind"], unit), Outcome(event["kind"], unit, word, reason))
    return list(found.values())


def _outcome(event: Event) -> Outcome:
    return Outcome(**{key: event[key] for key in ("kind", "unit", "word", "reason", "left_out")})


def table(found: Sequence[Outcome]) -> str:
    """By name what did not pass, with reasons, the worst last; then a line for each kind. A log that is cut keeps its end."""
    if not found:
        return "there was nothing to run"
    kinds = list(dict.fromkeys(one.kind for one in found))
    count = {kind: [sum(one.kind == kind and one.word == word for one in found) for word in WORDS] for kind in kinds}
    left = {kind: sum(one.left_out for one in found if one.kind == kind) for kind in kinds}
    rows = [[kind, *count[kind], left[kind]] for kind in kinds]
    rows.append(["all", *(sum(column) for column in zip(*count.values(), strict=True)), sum(left.values())])
    heads = ("", *(word.replace("_", " ") for word in WORDS), "problems left out")
    parts = []
    for word in reversed(_NAMED):
        if lines := _names([one for one in found if one.word == word]):
            parts.append("\n".join([f"{word.replace('_', ' ')}:", *lines]))
    return "\n\n".join([*parts, tabulate(rows, heads)])


def _names(found: Sequence[Outcome]) -> list[str]:
    """By kind and reason: `  specs: a, b, ... (12 more): why`."""
    by: dict[tuple[str, str], list[str]] = {}
    for one in found:
        by.setdefault((one.kind, one.reason), []).append(one.unit)
    lines = []
    for (kind, reason), units in by.items():
        more = f", ... ({len(units) - _MOST_NAMES} more)" if len(units) > _MOST_NAMES else ""
        lines.append(f"  {kind}: {', '.join(units[:_MOST_NAMES])}{more}{f': {reason}' if reason else ''}")
    return lines


def summary(facts: Mapping[str, Any], found: Sequence[Outcome]) -> str:
    """A page in Markdown: what was run where, the table as preformatted text, and what passed by name, of tests by their file."""
    lines = [
        f"- {key}: `{value}`" if key == "command" else f"- {key}: {value}" for key, value in facts.items() if key != "event"
    ]
    parts = ["\n".join(["# GPU round", "", *lines]), "\n".join(["```", table(found), "```"])]
    passed_by_kind: dict[str, list[str]] = {}
    for one in found:
        if one.word == "passed":
            passed_by_kind.setdefault(one.kind, []).append(one.unit)
    for kind, units in passed_by_kind.items():
        files = Counter(unit.partition("::")[0] for unit in units)
        names = [f"{name} ({many})" if many > 1 else name for name, many in sorted(files.items())]
        parts += [f"## Passed: {kind}", "\n".join(wrap(", ".join(names), _PAGE_WIDTH))]
    return "\n\n".join(parts) + "\n"
