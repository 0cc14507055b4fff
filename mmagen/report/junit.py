"""Verdicts as JUnit XML, as Jenkins's xUnit plugin, GitLab and GitHub's report actions read it (a test has Jenkins's schema).

A suite per project, a case per record. A wrong result, and a right one with findings such as races, are failures; what did not
compile, did not end or crashed is an error; what was not run is skipped.
"""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree

from mmagen.report.cells import figure, problem_text
from mmagen.report.complaints import of_record
from mmagen.verify.run import Record
from mmagen.verify.verdict import EMULATED, SKIPPED, Verdict

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FACTS = ("device", "driver", "cuda", "cutlass", "mmagen", "spec_sha", "layout", "types")
_FIGURES = ("max_abs_err", "bound", "ms_median", "tflops", "ratio", "registers", "spill_bytes", "smem_bytes")
_MOST_CHARACTERS = 300  # of a message: viewers show it in one line


def to_junit(verdicts: Sequence[Verdict], attachments: Sequence[str] = (), targets: Mapping[str, str] | None = None) -> str:
    """The whole file; times in seconds, of the clock. attachments: files that CI viewers should offer beside each case that did
    not pass, as `[[ATTACHMENT|file]]` in its output. targets: the spec or folder that each project is verified from, by the
    project's name."""
    root = ElementTree.Element("testsuites", name="mmagen")
    totals = {"tests": 0, "failures": 0, "errors": 0}
    for verdict in verdicts:
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_xml(verdict.name),
            time=f"{verdict.seconds:.3f}",
            timestamp=_began(verdict).isoformat(timespec="seconds"),
            hostname=_xml(platform.node()),
        )
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in _facts(verdict):
            ElementTree.SubElement(properties, "property", name=name, value=_xml(value))
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        for record in verdict.records:
            counts["tests"] += 1
            counted = _case(suite, verdict, record, attachments, (targets or {}).get(verdict.name, "SPEC"))
            if counted:
                counts[counted] += 1
        if not verdict.build.ok:
            ElementTree.SubElement(suite, "system-err").text = _xml("\n".join(verdict.build.errors))
        for key, count in counts.items():
            suite.set(key, str(count))
        for key in totals:
            totals[key] += counts[key]
    for key, count in totals.items():
        root.set(key, str(count))
    root.set("time", f"{sum(verdict.seconds for verdict in verdicts):.3f}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _began(verdict: Verdict) -> datetime:
    began = verdict.began or datetime.now(UTC).timestamp() - verdict.seconds
    return datetime.fromtimestamp(began, UTC)


def _facts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """What the records of a project have in common."""
    for name in _FACTS:
        values = dict.fromkeys(str(record[name]) for record in verdict.records if record[name])
        if values:
            yield name, " / ".join(values)


def _case(suite: ElementTree.Element, verdict: Verdict, record: Record, attachments: Sequence[str], target: str) -> str:
    """Add a record and return the count it belongs to, "" for a success."""
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_xml(f"mmagen.{verdict.name}"),
        name=_xml(_name(verdict, record)),
        time=f"{record['seconds'] or 0.0:.3f}",
    )
    element, counted = _outcome(verdict, record)
    if element:
        text = of_record(record) if counted != "skipped" else []
        message = " ".join((text[0] if text else str(record["reason"] or record["disposition"])).split())
        if len(message) > _MOST_CHARACTERS:
            message = message[: _MOST_CHARACTERS - 4] + " ..."
        child = ElementTree.SubElement(case, element, message=_xml(message))
        if counted != "skipped":
            child.set("type", record["disposition"])
            child.text = _xml("\n".join([*text, *_again(record, target)]))
    output = [f"{name}: {figure(record[name], '.6g')}" for name in _FIGURES if record[name] is not None]
    output += [f"[[ATTACHMENT|{file}]]" for file in attachments if counted in ("failures", "errors")]
    if output:
        ElementTree.SubElement(case, "system-out").text = _xml("\n".join(output))
    return counted


def _outcome(verdict: Verdict, record: Record) -> tuple[str, str]:
    """The element that a record's disposition asks for and the count, both "" for a success."""
    if record["disposition"] == "passed" or (verdict.compile_only and verdict.build.ok and record["disposition"] != SKIPPED):
        return "", ""
    found = (record["details"] or {}).get("findings")
    if record["disposition"] == "incorrect" or (record["disposition"] == "failed" and found):
        return "failure", "failures"
    return ("error", "errors") if record["disposition"] == "failed" else ("skipped", "skipped")


def _name(verdict: Verdict, record: Record) -> str:
    if verdict.compile_only or not verdict.build.ok:
        return "compile"
    parts = [problem_text(record["problem"]), record["input_dist"]]
    parts += ["(emulated)"] if record["device"] == EMULATED else []
    return " ".join(str(part) for part in parts if part) or "run"


def _again(record: Record, target: str) -> Iterator[str]:
    """How to run that problem alone."""
    if record["problem"] is None or record["input_dist"] is None:
        return
    where = " --on cpu" if record["device"] == EMULATED else ""
    seed = f" --seed {record['seed']}" if record["seed"] is not None else ""
    problem = shlex.quote(problem_text(record["problem"]))
    yield f"again: mmagen verify {shlex.quote(target)}{where} --problem {problem} --dist {record['input_dist']}{seed}"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
