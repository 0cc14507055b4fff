"""Runs one batch: makes its cases, runs them on the GPU or emulator, and judges them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mmagen.mma.forms import Form, distributions
from mmagen.mma.inputs import Matrices
from mmagen.op_tests import case as cases
from mmagen.op_tests.batch import Batch, entry
from mmagen.op_tests.case import Launch
from mmagen.op_tests.program import Executed, encoded, execute

# Cases of so many bytes go to the program at a time: it starts seldom, and no file grows large.
_FILE_BYTES = 96 << 20


@dataclass(frozen=True)
class BatchRun:
    """Everything that a worker process needs. indices: which of the batch's kernels to run."""

    batch: Batch
    program: Path
    indices: tuple[int, ...]
    emulated: bool
    dist: str | None
    seed: int
    timeout_s: float


@dataclass(frozen=True)
class CaseResult:
    """One form on one kind of inputs, over all lines of shared memory. error, bound: of the worst element of all."""

    distribution: str
    lines: str
    disposition: str
    error: float | None
    bound: float | None
    reason: str
    launches: int
    elements: int
    incorrect: int


@dataclass(frozen=True)
class FormResult:
    """All kinds of inputs of one form."""

    cases: tuple[CaseResult, ...]


@dataclass(frozen=True)
class _Planned:
    """A case to run."""

    index: int
    form: Form
    distribution: str
    lines: tuple[int, int]
    data: Matrices
    launch: Launch


@dataclass(frozen=True)
class _Finding:
    """What one case showed."""

    disposition: str
    error: float | None
    bound: float | None
    reason: str

    def badness(self) -> tuple[int, float]:
        """Larger is worse: the disposition first, then the error."""
        return ("passed", "not_supported", "failed", "incorrect").index(self.disposition), self.error or 0.0


def run_batch(run: BatchRun) -> dict[int, FormResult]:
    """What each kernel did, by index."""
    outcomes: dict[tuple[int, str], list[tuple[_Planned, Executed]]] = {}
    for group in _groups(run):
        for planned, executed in zip(group, _execute(run, group), strict=True):
            outcomes.setdefault((planned.index, planned.distribution), []).append((planned, executed))
    found: dict[int, list[CaseResult]] = {}
    for (index, distribution), results in outcomes.items():
        found.setdefault(index, []).append(_result(distribution, results))
    return {index: FormResult(tuple(results)) for index, results in found.items()}


def _groups(run: BatchRun) -> Iterator[list[_Planned]]:
    """All cases, as many at a time as one file may hold."""
    group: list[_Planned] = []
    size = 0
    for index in run.indices:
        form = run.batch.forms[index]
        for distribution in distributions(form.operation):
            if run.dist not in (None, distribution):
                continue
            data = cases.matrices(form, distribution, run.seed)
            for lines in cases.lines_of(form):
                launch = cases.launch_of(form, data, lines)
                group.append(_Planned(index, form, distribution, lines, data, launch))
                size += sum(image.nbytes for image in launch.images) + launch.size_d
        if size > _FILE_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _execute(run: BatchRun, group: list[_Planned]) -> list[Executed]:
    if run.emulated:
        from mmagen.emulate import parse
        from mmagen.op_tests.code import ptx_text
        from mmagen.op_tests.emulated import execute_emulated

        module = parse(ptx_text(run.program), f"{run.batch.name}.ptx")
        return [execute_emulated(module, entry(planned.index), planned.launch, run.timeout_s) for planned in group]
    with tempfile.TemporaryDirectory(prefix="mmagen-cases-") as scratch:
        try:
            return execute(
                run.program, [encoded(planned.index, planned.launch) for planned in group], Path(scratch), run.timeout_s
            )
        except OSError as error:
            return [Executed(None, f"{run.program.name} does not start: {error.strerror or error}")] * len(group)


def _result(distribution: str, results: list[tuple[_Planned, Executed]]) -> CaseResult:
    """The worst of what one form did on one kind of inputs."""
    incorrect = elements = 0
    worst = _Finding("passed", 0.0, 0.0, "")
    truth = cases.truth_of(results[0][0].form, results[0][0].data, distribution)
    for planned, executed in results:
        if executed.d is None:
            unknown = executed.no_code or re.search(r"\b(is|are) not supported\b", executed.error)
            found = _Finding("not_supported" if unknown else "failed", None, None, executed.error)
        else:
            outcome = cases.judge(planned.form, executed.d, truth)
            incorrect += outcome.incorrect
            elements += truth.values.size
            where = f" (lines of {_spelled([planned.lines])} bytes)" if any(planned.lines) and outcome.reason else ""
            disposition = "incorrect" if outcome.incorrect else "passed"
            found = _Finding(disposition, outcome.worst_error, outcome.bound, outcome.reason + where)
        worst = max(worst, found, key=_Finding.badness)
    return CaseResult(
        distribution,
        _spelled([planned.lines for planned, _ in results]),
        worst.disposition,
        worst.error,
        worst.bound,
        worst.reason,
        len(results),
        elements,
        incorrect,
    )


def _spelled(lines: list[tuple[int, int]]) -> str:
    """`16/16, 32/32` for lines of A and B, A's left out where it is in registers; "" where nothing is in shared memory."""
    return ", ".join(dict.fromkeys("/".join(str(part) for part in pair if part) for pair in lines if any(pair)))
