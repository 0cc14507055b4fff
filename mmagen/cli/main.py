"""The command line as a process: the message and exit code of every outcome."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType

import click

from mmagen.cli.commands import commands
from mmagen.cli.outputs import show
from mmagen.core.errors import ExitCode, MmagenError, SpecError
from mmagen.core.notices import take_notices

# Besides ExitCode: a bug in mmagen (sysexits' EX_SOFTWARE), a closed pipe, SIGTERM.
INTERNAL_ERROR = 70
# Set by the shell function that `_MMAGEN_COMPLETE=bash_source mmagen` prints.
_COMPLETE = "_MMAGEN_COMPLETE"
BROKEN_PIPE = 128 + signal.SIGPIPE
TERMINATED = 128 + signal.SIGTERM
_STDOUT = "standard output"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line (`arguments`, default sys.argv) and exit the process with its exit code."""
    _replace_closed_streams()
    with _terminable(), _few_collections(process_ends=arguments is None):
        code = _run(sys.argv[1:] if arguments is None else list(arguments))
        for text in take_notices():
            _say(f"mmagen: {text}")
    sys.exit(int(code))


def _replace_closed_streams() -> None:
    """Nothing is read from a standard stream that the caller has closed, and what is written to it is lost: Python has None for it.
    Its number goes to the null device, too: a file that is opened later would have it, and child processes write there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115


def _run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; every expected failure prints a message on stderr."""
    try:
        if asked := os.environ.get(_COMPLETE):
            from click.shell_completion import shell_complete

            return shell_complete(commands, {}, "mmagen", _COMPLETE, asked)
        # Not commands.main(): it would turn a closed pipe into exit code 1, which means "incorrect".
        with commands.make_context("mmagen", arguments) as context:
            code = commands.invoke(context)
        sys.stdout.flush()
        return code or ExitCode.OK
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        told = io.StringIO()
        error.show(told)
        _say(told.getvalue().rstrip("\n"))
        return ExitCode.USAGE
    except SpecError as error:
        _say(str(error))
        return error.exit_code
    except MmagenError as error:
        _say(f"mmagen: {error}")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say("mmagen: interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # nobody reads it
        return BROKEN_PIPE
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if error.filename is None and not full:
            return _internal(error)
        # A write to a full disk does not name its file.
        unnamed = f"a file could not be written, here or in {tempfile.gettempdir()}"
        place = error.filename or _printing(error) or unnamed
        remedy = "; free space there" if full else ""
        if place == _STDOUT:
            _drop_output()
        elif full:
            remedy += ", or set TMPDIR for temporary files"
        _say(f"mmagen: {place}: {error.strerror}{remedy}")
        return ExitCode.USAGE
    except Exception as error:
        return _internal(error)


def _drop_output() -> None:
    """What is still to be written to standard output is lost: Python would try again when it exits, and end with exit code 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _printing(error: OSError) -> str:
    """The name of standard output if that is what could not be written: everything is printed by click."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    printed = any((one.f_globals.get("__name__"), one.f_code.co_name) == ("click.utils", "echo") for one in frames)
    return _STDOUT if printed or frames[-1].f_code is _run.__code__ else ""


def _internal(error: Exception) -> int:
    if os.environ.get("MMAGEN_DEBUG"):
        _say("".join(traceback.format_exception(error)).rstrip())
    text = " ".join(str(error).split())
    _say(f"mmagen: internal error, please report it: {type(error).__name__}: {text} (MMAGEN_DEBUG=1 shows where)")
    return INTERNAL_ERROR


def _say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        show(text, err=True)


@contextlib.contextmanager
def _few_collections(process_ends: bool) -> Iterator[None]:
    """Collect garbage less often: a build makes long-lived objects, and collecting takes a tenth of its time.

    process_ends: afterwards nothing more is collected, not even what the restored threshold would collect at once.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        if process_ends:
            gc.freeze()
        gc.set_threshold(*before)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into an orderly exit, so that a cancelled CI job leaves no compiler or kernel running."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: the caller handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
