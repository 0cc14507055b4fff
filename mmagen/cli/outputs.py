"""Writes the results of a verb: a table on the terminal, and each requested format to a file or stdout.

`outputs` maps the name of a format's option, without dashes, to a file, "-" for stdout, or None.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click

from mmagen.core.errors import UsageError
from mmagen.core.screen import fold

_NARROWEST = 40
_COLOURS = {"passed": "green", "compiled": "green", "incorrect": "red", "failed": "red", "build": "red", "skipped": "yellow"}
_COLOURS |= {"not_run": "yellow", "not_supported": "yellow", "REGRESSION": "red"}
_VERDICTS = re.compile(
    r"(?:(?<=  )|(?<=^))"
    r"(?:passed(?: \(emulated\))?|compiled|incorrect|failed|build failed|skipped|not_run|not_supported|REGRESSION)"
    r"(?=  |$)",
    re.MULTILINE,
)


def why_no_file(path: Path) -> str:
    """Why nothing can be written to `path`: it is a folder, or in none that exists."""
    if path.is_dir():
        return "it is a folder; name a file in it"
    return f"{path.absolute().parent} is not a folder; create it, or name a file elsewhere"


def refuse_bad(outputs: Mapping[str, str | None]) -> None:
    """Raise UsageError at the start for outputs that could not be written at the end, possibly hours later."""
    if sum(file == "-" for file in outputs.values()) > 1:
        *options, last = (f"--{option}" for option in outputs)
        raise UsageError(f"only one of {', '.join(options)} and {last} can go to stdout")
    for option, file in outputs.items():
        if file == "":
            raise UsageError(f"--{option}: the path is empty; name a file")
        if file and file != "-" and (Path(file).is_dir() or not Path(file).absolute().parent.is_dir()):
            raise UsageError(f"--{option} {file}: {why_no_file(Path(file))}")


def deliver(table: str, outputs: Mapping[str, str | None], spell: Mapping[str, Callable[[], str]]) -> None:
    """Print `table` and write the requested formats. spell: option -> function that returns the text of its format."""
    # A format on stdout must be alone there; the table then goes to stderr.
    err = "-" in outputs.values()
    click.echo(painted(fold(table, line_width(err)), in_colour(err)), err=err)
    for option, file in outputs.items():
        if not file:
            continue
        # Names of files need not be UTF-8: their other bytes are surrogates, which no encoding has.
        text = spell[option]().encode("utf-8", "backslashreplace")
        if file == "-":
            click.echo(text, nl=False)
        else:
            with _naming(file):
                Path(file).write_bytes(text)


@contextlib.contextmanager
def _naming(file: str) -> Iterator[None]:
    """A write to a full disk does not say of which file it was: here OSError does."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or file) from error


def begin(file: str | None) -> Callable[[str], None]:
    """Empty the file of a format of lines, and return a function that appends to it. `deliver` writes it anew at the end; until
    then it holds what a run that is killed has found. Nothing is written before the end to stdout, a pipe or a device."""
    if not file or file == "-" or (Path(file).exists() and not Path(file).is_file()):
        return lambda text: None
    Path(file).write_text("", "utf-8")

    def append(text: str) -> None:
        with _naming(file), Path(file).open("a", encoding="utf-8") as stream:
            stream.write(text)

    return append


def made_by() -> dict[str, str]:
    """For Markdown pages: the command as typed, and the date in ISO format."""
    return {"command": " ".join(["mmagen", *sys.argv[1:]]), "date": datetime.date.today().isoformat()}


def in_colour(err: bool = False) -> bool:
    """May stdout, or stderr, be coloured? Only a terminal, unless NO_COLOR is set (no-color.org) or TERM says that it has none."""
    stream = sys.stderr if err else sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: bool) -> str:
    """The text with the verdicts in the cells of its tables coloured; cells stand apart by two blanks."""
    return _VERDICTS.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0].split()[0]]), text) if colour else text


def line_width(err: bool = False) -> int | None:
    """Characters of a line of stdout or stderr: COLUMNS, else those of the terminal; None for a pipe or a file, whose lines stay
    whole, for grep and editors."""
    if (asked := os.environ.get("COLUMNS", "")).isdecimal() and int(asked) > 0:
        return max(_NARROWEST, int(asked))
    stream = sys.stderr if err else sys.stdout
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except OSError:
        return None


def show(text: str, *, err: bool = False) -> None:
    """Print sentences, folded to the width of the line."""
    click.echo(fold(text, line_width(err)), err=err)
