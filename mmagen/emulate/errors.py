"""The error of the emulator."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from mmagen.core.errors import RunError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class EmulationError(RunError):
    """PTX that cannot be executed here: an unknown instruction, a malformed operand, or a run past its limits.

    The message names the instruction; the caller that knows file and line prefixes them.
    """


class KernelAborted(Exception):
    """The kernel has ended its launch: trap, or an assertion that does not hold. The finding is in the log."""


def defect(where: str, error: Exception, line: str = "") -> EmulationError:
    """The error for an exception that the emulator should not have raised. where: "in the instructions ...", or the like;
    line: file and line, where they are known."""
    prefix = f"{line}: " if line else ""
    if isinstance(error, MemoryError):
        return EmulationError(f"{prefix}the emulator has not enough memory {where}: {error}")
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return EmulationError(f"{prefix}the emulator failed {where}, please report it: {type(error).__name__}: {error} ({place})")


def reported(where: str) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """A decorator: exceptions that the emulator should not raise become EmulationErrors, which cost the verdict of one kernel
    and not the whole run. where: as for `defect`."""

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        @wraps(function)
        def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            try:
                return function(*args, **kwargs)
            except (EmulationError, KernelAborted):
                raise
            except Exception as error:
                raise defect(where, error) from error

        return call

    return decorate
