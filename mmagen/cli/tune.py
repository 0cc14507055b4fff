"""`mmagen tune`: measures configurations of a spec and writes the library of the best."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from mmagen.cli.outputs import line_width, show, why_no_file
from mmagen.cli.progress import shown
from mmagen.core.errors import ExitCode, SpecError, UsageError
from mmagen.core.files import content
from mmagen.core.screen import table
from mmagen.families.reading import read
from mmagen.spec.load import load
from mmagen.toolchain.find import find_toolchain
from mmagen.toolchain.model import Toolchain
from mmagen.tuning import measure
from mmagen.tuning.tune import Options, Runner, check, tune


@dataclass(frozen=True)
class Places:
    """out: where the library spec goes. database: None for a file beside it, .jsonl. scheduler: of Dask, "" for none."""

    out: Path
    database: Path | None = None
    scheduler: str = ""
    options: Options = field(default_factory=Options)


def run(spec: Path, places: Places) -> ExitCode:
    """Tune `spec`. Raises MmagenError."""
    data = content(spec)
    _, wrong = read(data, str(spec))
    if wrong:
        raise SpecError(tuple(wrong))
    base = places.database or places.out.with_suffix(".jsonl")
    for place in (places.out, base):
        if place.is_dir() or not place.absolute().parent.is_dir():
            raise UsageError(f"{place}: {why_no_file(place)}")
    loaded = load(data, str(spec)).spec
    check(loaded, places.options.problems)
    toolchain = find_toolchain()
    if places.options.measure and not toolchain.gpus and not places.scheduler:
        show(f"mmagen: nothing to measure on: {toolchain.remedies.get('gpus', 'no GPU')}", err=True)
        return ExitCode.NOTHING_VERIFIED
    with contextlib.ExitStack() as stack:
        runner, toolchain = _runner(places.scheduler, toolchain, stack) if places.options.measure else (measure.run, toolchain)
        progress = stack.enter_context(shown())
        done = tune(loaded, places.options, base, toolchain, runner, progress, lambda line: show(line, err=True))
    places.out.write_text(done.text, "utf-8")
    click.echo(table((), done.figures, line_width()))
    for note in done.notes:
        show(f"note: {note}", err=True)
    how = "" if done.recommended else f", not recommended: {spec} does better"
    show(f"{places.out}: {len(done.names)} configurations{how}; measurements in {base}")
    return ExitCode.INCORRECT if done.incorrect else ExitCode.RUN_FAILED if done.lost else ExitCode.OK


def seconds(text: str) -> float:
    """`20m`, `90s`, `1.5h` or a number of seconds. Raises UsageError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if not match or float(match[1]) <= 0:
        raise UsageError(f"--budget {text}: write a time like 20m, 90s or 1.5h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def _runner(scheduler: str, toolchain: Toolchain, stack: contextlib.ExitStack) -> tuple[Runner, Toolchain]:
    """Of the one GPU, or of Dask's workers, which `stack` ends; and the toolchain with the GPUs that are measured on."""
    if not scheduler and len(toolchain.gpus) <= 1:
        return measure.run, toolchain
    from mmagen.tuning.workers import Workers

    workers = Workers(scheduler, len(toolchain.gpus))
    stack.callback(workers.close)
    gpus = workers.gpus()
    if not gpus:
        raise UsageError(f"--scheduler {scheduler}: none of its workers has an NVIDIA GPU")
    return workers, replace(toolchain, gpus=gpus)
