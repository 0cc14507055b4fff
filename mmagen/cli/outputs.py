"""Writes the results of a verb: a table on the terminal, and each requested format to a file or stdout.

`outputs` maps the name of a format's option, without dashes, to a file, "-" for stdout, or None.
"""

from __future__ import annotations

import datetime
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from mmagen.core.errors import UsageError


def refuse_bad(outputs: Mapping[str, str | None]) -> None:
    """Raise UsageError at the start for outputs that could not be written at the end, possibly hours later."""
    if sum(file == "-" for file in outputs.values()) > 1:
        *options, last = (f"--{option}" for option in outputs)
        raise UsageError(f"only one of {', '.join(options)} and {last} can go to stdout")
    for option, file in outputs.items():
        if file and file != "-" and (Path(file).is_dir() or not Path(file).absolute().parent.is_dir()):
            raise UsageError(f"--{option} {file}: not a file in an existing folder")


def deliver(table: str, outputs: Mapping[str, str | None], spell: Mapping[str, Callable[[], str]]) -> None:
    """Print `table` and write the requested formats. spell: option -> function that returns the text of its format."""
    # A format on stdout must be alone there; the table then goes to stderr.
    click.echo(table, err="-" in outputs.values())
    for option, file in outputs.items():
        if file == "-":
            click.echo(spell[option](), nl=False)
        elif file:
            Path(file).write_text(spell[option](), "utf-8")


def made_by() -> dict[str, str]:
    """For Markdown pages: the command as typed, and the date in ISO format."""
    return {"command": " ".join(["mmagen", *sys.argv[1:]]), "date": datetime.date.today().isoformat()}


def in_colour() -> bool:
    """May stdout be coloured? Only a terminal, unless NO_COLOR is set (no-color.org) or TERM says that it has none."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def line_width() -> int | None:
    """Characters of a line of the terminal; None where stdout is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
