"""Where the results of a verb go: a table for people, and each format asked for to its file or the standard output.

`outputs` maps the option that asks for a format, without its dashes, to a file, "-" for the standard output, or None.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from mmagen.core.errors import UsageError


def refuse_bad(outputs: Mapping[str, str | None]) -> None:
    """UsageError for what could not be written at the end, which may be hours away."""
    if sum(file == "-" for file in outputs.values()) > 1:
        *options, last = (f"--{option}" for option in outputs)
        raise UsageError(f"only one of {', '.join(options)} and {last} can go to the standard output")
    for option, file in outputs.items():
        if file and file != "-" and (Path(file).is_dir() or not Path(file).absolute().parent.is_dir()):
            raise UsageError(f"--{option} {file}: not a file in an existing folder")


def deliver(table: str, outputs: Mapping[str, str | None], spell: Mapping[str, Callable[[], str]]) -> None:
    """Prints `table` and writes what was asked for; spell: option -> the text of its format."""
    # Whoever pipes a format wants nothing else in the pipe; the table then goes to the other stream.
    click.echo(table, err="-" in outputs.values())
    for option, file in outputs.items():
        if file == "-":
            click.echo(spell[option](), nl=False)
        elif file:
            Path(file).write_text(spell[option](), "utf-8")


def made_by() -> dict[str, str]:
    """For a page to commit: the command as typed, and the day as an ISO date."""
    return {"command": " ".join(["mmagen", *sys.argv[1:]]), "date": datetime.date.today().isoformat()}
