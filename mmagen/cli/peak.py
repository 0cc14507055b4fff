"""`mmagen peak`: selects operations, builds or takes the program, and writes the figures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mmagen
from mmagen.cli.outputs import deliver, line_width, made_by, refuse_bad, show, why_no_file
from mmagen.cli.progress import shown
from mmagen.core.errors import ExitCode, UsageError
from mmagen.core.progress import Progress
from mmagen.families.peak.loops import loop, refusal
from mmagen.microbench.chart import to_svg
from mmagen.microbench.figures import Figure, Machine, exit_code, figure
from mmagen.microbench.measure import Program, Records, Settings, listed, run
from mmagen.microbench.report import table, to_csv, to_json, to_markdown
from mmagen.mma.catalogue import CUTLASS, called, choose_operations
from mmagen.mma.operation import Operation
from mmagen.toolchain.find import Toolchain, find_toolchain


@dataclass(frozen=True)
class Options:
    """arch: target, None for the local GPU's. compile_only: where to write the program, which is then not run. program: a
    program made that way, to run instead of compiling."""

    arch: str | None = None
    settings: Settings = field(default_factory=Settings)
    compile_only: Path | None = None
    program: Path | None = None
    jobs: int | None = None


def peak(names: Sequence[str], filters: Mapping[str, Any], options: Options, outputs: Mapping[str, str | None]) -> ExitCode:
    """Measure the operations called `names` (wildcards * and ?) or all that match the filters.

    filters: as for select; without names and filters, all operations or all of the program. outputs: "json", "csv", "markdown",
    "svg" -> file or "-". Raises MmagenError.
    """
    refuse_bad(outputs)
    _refuse_bad_programs(options)
    if options.program and not names and all(value is None for value in filters.values()):
        names = listed(options.program)
    wanted = chosen(names, filters)
    toolchain = find_toolchain(want=("nvcc", "host_compiler", "cutlass", "gpus"))
    target = options.arch or _target(toolchain)
    here = f"{target} ({toolchain.gpus[0].name})" if toolchain.gpus and not options.arch else target
    obstacles = {operation.name: _obstacle(operation, target, here) for operation in wanted}
    able = [operation for operation in wanted if not obstacles[operation.name]]
    with shown() as progress:
        program = Program(options.program) if options.program else _build(able, target, toolchain, options, progress)
        if options.compile_only:
            return _compiled(program, len(able), options.compile_only)
        records = _run(program, [operation.name for operation in able], options.settings, toolchain, progress)
    gpu = toolchain.gpus[0] if toolchain.gpus else None
    machine = Machine(
        target,
        gpu.name if gpu else None,
        gpu.driver if gpu else None,
        toolchain.nvcc.version if toolchain.nvcc else None,
        CUTLASS if options.program else toolchain.cutlass.version if toolchain.cutlass else None,
        mmagen.__version__,
    )
    found = []
    for operation in wanted:
        for inputs in options.settings.inputs:
            obstacle = {"inputs": inputs, "disposition": "not_supported", "reason": obstacles[operation.name]}
            found.append(figure(operation, records.get((operation.name, inputs), obstacle), machine))
    _report(found, machine, outputs)
    return exit_code(found)


def list_operations(names: Sequence[str], filters: Mapping[str, Any], arch: str | None) -> ExitCode:
    """Print which operations can be measured, and where. Raises UsageError."""
    from mmagen.microbench.listing import listing

    toolchain = find_toolchain(want=() if arch else ("gpus",))
    target = arch or _target(toolchain)
    wanted = chosen(names, filters)
    deliver(listing(wanted, target, lambda operation: _obstacle(operation, target), line_width()), {}, {})
    return ExitCode.OK


def _build(able: Sequence[Operation], target: str, toolchain: Toolchain, options: Options, progress: Progress) -> Program:
    if not able or not (toolchain.gpus or options.compile_only):
        return Program(None)
    from mmagen.microbench.program import build

    loops = [loop(operation, target) for operation in able]
    program = build(loops, target, toolchain, jobs=options.jobs, progress=progress)
    for line in program.warnings:
        show(f"ptxas: {line}", err=True)
    return program


def settings(inputs: str, seconds: float, sample_ms: float) -> Settings:
    """Settings from the options of the command line. Raises UsageError for unknown inputs."""
    words = tuple(dict.fromkeys(inputs.split(",")))
    for word in words:
        if word not in ("random", "zeros", "ones") and not (word.isdecimal() and int(word) <= 7):
            raise UsageError(f"--inputs {word}: must be random, zeros, ones or an integer from 0 to 7")
    return Settings(words, seconds, sample_ms)


def chosen(names: Sequence[str], filters: Mapping[str, Any]) -> list[Operation]:
    """The selected operations, each once. Raises UsageError for a name or filters that match none."""
    return list(dict.fromkeys(choose_operations(names, filters, called)))


def _target(toolchain: Toolchain) -> str:
    """The local GPU's target, with the suffix "a" from sm_90 on, which the newest operations need."""
    if not toolchain.gpus:
        return "sm_90a"
    major, minor = toolchain.gpus[0].capability
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def _obstacle(operation: Operation, target: str, here: str = "") -> str | None:
    """Why the operation cannot be measured on `target`, or None; a missing architecture is reported first.

    here: the target and the GPU, in words.
    """
    if not operation.runs_on(target):
        needed = " or ".join(operation.targets) if operation.targets else f"{operation.arch} or later"
        return f"needs {needed}, not {here or target}"
    return refusal(operation)


def _run(program: Program, names: Sequence[str], settings: Settings, toolchain: Toolchain, progress: Progress) -> Records:
    """A record for each name and kind of inputs."""
    measured: Records = {}
    if program.path and toolchain.gpus:
        measured = {(r["name"], r["inputs"]): r for r in run(program.path, names, settings, progress)}
    records: Records = {}
    for name in names:
        for inputs in settings.inputs:
            if name in program.failed:
                made = {"disposition": "failed", "reason": f"it does not compile: {program.failed[name]}"}
            elif not toolchain.gpus:
                made = {"disposition": "not_supported", "reason": toolchain.remedies["gpus"]}
            else:
                made = {"disposition": "not_run", "reason": "the program printed no record for it"}
            records[name, inputs] = measured.get((name, inputs), made | {"inputs": inputs})
    return records


def _compiled(program: Program, count: int, place: Path) -> ExitCode:
    for name, error in program.failed.items():
        show(f"{name}: {error}", err=True)
    if program.path:
        shutil.copy2(program.path, place)
    show(
        f"{count - len(program.failed)} of {count} loops compiled in {program.seconds:.0f} s of nvcc: "
        f"{place if program.path else 'no program'}"
    )
    return ExitCode.OK if program.path and not program.failed else ExitCode.BUILD_FAILED


def _refuse_bad_programs(options: Options) -> None:
    if options.program and options.compile_only:
        raise UsageError("--program compiles nothing; leave out --compile-only")
    if options.program and not os.access(options.program, os.X_OK):
        raise UsageError(f"--program {options.program}: not an executable file")
    if options.compile_only and not options.compile_only.absolute().parent.is_dir():
        raise UsageError(f"--compile-only {options.compile_only}: {why_no_file(options.compile_only)}")


def _report(found: Sequence[Figure], machine: Machine, outputs: Mapping[str, str | None]) -> None:
    page, chart = outputs.get("markdown"), outputs.get("svg")
    beside = os.path.relpath(chart, Path(page).parent) if chart and page and "-" not in (chart, page) else None
    deliver(
        table(found, machine, line_width("-" in outputs.values())),
        outputs,
        {
            "json": lambda: to_json(found),
            "csv": lambda: to_csv(found),
            "svg": lambda: to_svg(found, machine),
            "markdown": lambda: to_markdown(found, machine, **made_by(), chart=beside),
        },
    )
