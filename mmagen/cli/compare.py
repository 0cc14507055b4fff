"""Implements `mmagen compare`; the work is done in mmagen.report.changes."""

from __future__ import annotations

from pathlib import Path

import click

from mmagen.cli.outputs import in_colour, line_width, painted, show
from mmagen.core.errors import ExitCode, UsageError
from mmagen.core.files import content
from mmagen.core.screen import table
from mmagen.report.changes import Key, Measured, changes, read, rows, summary


def compare(old: Path, new: Path, noise: float) -> ExitCode:
    """Print what differs between two reports. INCORRECT where something became worse. Raises UsageError for a file that is
    no report."""
    before, after = _read(old), _read(new)
    found = changes(before, after, noise)
    if found:
        heads = ("", "kernel", "problem", "inputs", "change")
        click.echo(painted(table(heads, rows(found), line_width()), in_colour()) + "\n")
    show(summary(before, after, found, noise))
    return ExitCode.INCORRECT if any(one.regression for one in found) else ExitCode.OK


_LARGEST = 1 << 30  # bytes of a report


def _read(path: Path) -> dict[Key, Measured]:
    try:
        return read(content(path, _LARGEST).decode("utf-8"), str(path))
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text; pass the output of mmagen verify --json") from None
