"""Judges results: one verdict per project, one exit code for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mmagen
from mmagen.build.job import BuildResult
from mmagen.build.log import worst
from mmagen.core.errors import ExitCode
from mmagen.verify.run import RECORD_FIELDS, Record, RunResult, last_message

EMULATED = "cpu-ptx"  # the device of records that no GPU had a part in
SKIPPED = "skipped"  # the disposition of what was left out for a stated reason
# From the worst to the best: a verdict is as bad as the worst of its records.
_SEVERITY = ("incorrect", "failed", "not_run", "not_supported", "passed")


@dataclass(frozen=True)
class Verdict:
    """The result of one project.

    disposition: the worst of its records', those that are skipped apart. records: at least one, each with all of RECORD_FIELDS; a
    project that reported nothing has one made for it. reason: the first thing wrong, "" when passed. seconds: compiling (as
    measured when it was not from the cache) and running. compile_only: compiling is all that was asked for. began: when its first
    program was, in seconds since 1970; 0 if none was.
    """

    name: str
    disposition: str
    records: tuple[Record, ...]
    reason: str
    seconds: float
    build: BuildResult
    compile_only: bool = False
    unsuitable: bool = False
    began: float = 0.0

    @property
    def word(self) -> str:
        """The disposition for people: "compiled" and "build failed" where the record's word says less."""
        if self.compile_only and self.build.ok:
            return "compiled"
        if not self.build.ok:
            return "build failed"
        passed = [outcome(record) for record in self.records if record["disposition"] == "passed"]
        return max(passed, key=len) if self.disposition == "passed" else self.disposition


def outcome(record: Record) -> str:
    """The record's disposition as every report spells it: what was only emulated says so."""
    passed = record["disposition"] == "passed"
    return "passed (emulated)" if passed and record["device"] == EMULATED else record["disposition"]


def judge(
    build: BuildResult,
    *runs: RunResult,
    compile_only: bool = False,
    no_gpu: str = "",
    skipped: Sequence[tuple[str, str]] = (),
) -> Verdict:
    """The verdict on `build` and on what its programs said.

    runs: the runs of its programs; none with compile_only, or with `no_gpu`, the sentence why no GPU could run them. skipped:
    what was not run, a problem or a program, and why; each becomes a record that does not count for the verdict.
    A run without records, or whose records and exit code contradict each other, is failed: no records prove nothing.
    """
    seconds = (0.0 if build.cached else build.seconds) + sum(run.seconds for run in runs)
    if not build.ok:
        return Verdict(
            build.name,
            "failed",
            (_record_without_run(build, "failed", build.reason),),
            build.reason,
            seconds,
            build,
            compile_only,
        )
    omitted = tuple(_record_without_run(build, SKIPPED, why) | {"problem": what} for what, why in skipped)
    if compile_only or not runs:
        why = "" if compile_only else no_gpu or "nothing was run"
        record = _record_without_run(build, "not_run", why or "compiled only, as asked")
        records = [record, *omitted]
        return Verdict(build.name, "not_run", tuple(records), why, seconds, build, compile_only, unsuitable=bool(no_gpu))
    records = []
    for run in runs:
        records += _judged(build, run)
    disposition = min((record["disposition"] for record in records), key=_SEVERITY.index)
    reason = next((r["reason"] or r["disposition"] for r in records if r["disposition"] == disposition), "")
    # A program ends with 77 when the GPU does not suit, whatever words its records have for that.
    unsuitable = all(run.exit_code == ExitCode.NOTHING_VERIFIED and not run.reason for run in runs)
    unsuitable = unsuitable and not any(record["disposition"] == "passed" for record in records)
    return Verdict(
        build.name,
        disposition,
        (*records, *omitted),
        "" if disposition == "passed" else reason,
        seconds,
        build,
        unsuitable=unsuitable and disposition in ("not_run", "not_supported"),
        began=min((run.began for run in runs if run.began), default=0.0),
    )


def refused(file: str, reason: str) -> Verdict:
    """For a spec that was refused: nothing was generated from it. reason: its diagnostics."""
    build = BuildResult(file, Path(file), True)
    return Verdict(file, "failed", (_record_without_run(build, "failed", f"refused: {reason}"),), reason, 0.0, build)


def exit_code(verdicts: Sequence[Verdict]) -> ExitCode:
    """One exit code for all: incorrect (1), else build failed (3), else run failed (4), else 77, else 0.

    1 comes first because a wrong result is worse than none. 4 also covers what was asked for and not done while
    something else was; 77 is kept for runs in which no GPU here suited any project. No verdicts at all are 4.
    """
    if any(v.disposition == "incorrect" for v in verdicts):
        return ExitCode.INCORRECT
    if any(not v.build.ok for v in verdicts):
        return ExitCode.BUILD_FAILED
    done = [v for v in verdicts if v.disposition == "passed" or v.compile_only]
    if verdicts and len(done) == len(verdicts):
        return ExitCode.OK
    if verdicts and all(v.unsuitable for v in verdicts):
        return ExitCode.NOTHING_VERIFIED
    return ExitCode.RUN_FAILED


def _judged(build: BuildResult, run: RunResult) -> list[Record]:
    """The run's records, each checked on its own, and one more when the run as a whole cannot be trusted."""
    records = [_checked(record) if record["name"] == build.name else record for record in run.records]
    trouble = run.reason or _contradiction(build.name, records, run)
    if trouble:
        records.append(_record_without_run(build, "failed", trouble))
    elif not records:
        records.append(_record_without_run(build, "not_run", last_message(run.stderr).removeprefix(": ") or "no suitable GPU"))
    return records


def _checked(record: Record) -> Record:
    """A record that says passed with an error that is not a number, or no error at all, did not pass.

    Only for the kernel's own: a benchmark's records on its baselines have no error.
    """
    error = record["max_abs_err"]
    if record["disposition"] != "passed":
        return record
    if isinstance(error, bool) or not isinstance(error, int | float) or not math.isfinite(error):
        return record | {"disposition": "failed", "reason": f"says passed with max_abs_err {error!r}"}
    return record


def _contradiction(name: str, records: Sequence[Record], run: RunResult) -> str:
    """How the exit code and the records disagree, or ""."""
    ended = f"{run.program} ended with exit code {run.exit_code}"
    if not records and run.exit_code == ExitCode.NOTHING_VERIFIED:
        return ""
    if not any(record["name"] == name for record in records):
        return f"{ended} and reported no result for {name}{last_message(run.stderr)}"
    words = {record["disposition"] for record in records}
    agrees: dict[int | None, bool] = {
        ExitCode.OK: not words & {"incorrect", "failed"},
        ExitCode.INCORRECT: "incorrect" in words,
        ExitCode.RUN_FAILED: bool(words & {"failed", "not_run"}),
        # Also how a program ends that could do only some of its problems.
        ExitCode.NOTHING_VERIFIED: not words & {"incorrect", "failed"} and words != {"passed"},
    }
    if agrees.get(run.exit_code, False):
        return ""
    return f"{ended} but reports {', '.join(sorted(words))}{last_message(run.stderr)}"


def _record_without_run(build: BuildResult, disposition: str, reason: str) -> Record:
    """A record for a project that reported none."""
    ptxas = worst(build.ptxas)
    known = {
        "name": build.name,
        "disposition": disposition,
        "registers": ptxas.get("registers"),
        "spill_bytes": ptxas.get("spill_bytes"),
        "cuda": build.cuda or None,
        "cutlass": build.cutlass or None,
        "mmagen": mmagen.__version__,
        "spec_sha": build.spec_sha or None,
        "reason": reason,
    }
    return {name: known.get(name) for name in RECORD_FIELDS}
