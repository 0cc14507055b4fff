"""Implements `mmagen verify --atoms`; the work is done in other packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mmagen.build.job import BuildResult
from mmagen.cli.outputs import deliver, line_width, made_by, show
from mmagen.core.errors import ExitCode, UsageError
from mmagen.core.progress import Progress
from mmagen.mma.forms import chosen
from mmagen.mma.operation import Operation
from mmagen.op_tests import report
from mmagen.op_tests.check import Options, verify_atoms
from mmagen.report.formats import to_csv, to_json
from mmagen.report.junit import to_junit
from mmagen.toolchain.find import COMPILE, Toolchain, find_toolchain
from mmagen.verify.verdict import Verdict, exit_code, judge


def verify(
    texts: Sequence[str],
    outputs: Mapping[str, str | None],
    progress: Progress,
    *,
    where: str = "auto",
    compile_only: bool = False,
    arch: Sequence[str] = (),
    dist: str | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    timeout_s: float = 600.0,
) -> ExitCode:
    """Verify the operations that `texts` select and write the reports. outputs: json, csv, junit, markdown -> file."""
    operations = chosen(texts)
    if dist == "zeros":
        raise UsageError("--dist zeros is not available with --atoms; use small_int, uniform or overflow")
    toolchain = find_toolchain(want=COMPILE if compile_only else (*COMPILE, "gpus"))
    if where == "gpu" and not compile_only and not toolchain.gpus:
        why = toolchain.remedies["gpus"]
        show(f"mmagen: {why}", err=True)
        verdicts = [judge(BuildResult(operation.name, Path(), True), no_gpu=why) for operation in operations]
        _report(operations, verdicts, outputs)
        return code(verdicts)
    options = Options(tuple(arch), "" if compile_only else _place(where, toolchain), dist, seed or 0, jobs, timeout_s)
    verdicts = verify_atoms(operations, toolchain, options, progress)
    _report(operations, verdicts, outputs)
    return code(verdicts)


def _place(where: str, toolchain: Toolchain) -> str:
    """ "gpu" or "cpu": the emulator is used if there is no GPU."""
    return where if where != "auto" else "gpu" if toolchain.gpus else "cpu"


def code(verdicts: Sequence[Verdict]) -> ExitCode:
    """As for projects, except that operations this machine cannot run do not fail the call if any other was run."""
    suitable = [verdict for verdict in verdicts if not verdict.unsuitable]
    return exit_code(suitable or verdicts)


def _report(operations: Sequence[Operation], verdicts: Sequence[Verdict], outputs: Mapping[str, str | None]) -> None:
    spell = {
        "json": lambda: to_json(verdicts),
        "csv": lambda: to_csv(verdicts),
        "junit": lambda: to_junit(verdicts),
        "markdown": lambda: report.page(operations, verdicts, **made_by()),
    }
    deliver(report.table(operations, verdicts, columns=line_width("-" in outputs.values())), outputs, spell)
