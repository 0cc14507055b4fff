"""Errors, faults of a spec with their locations, and exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

Key = tuple[str | int, ...]


class Absent(Enum):
    """In a change: the key is to be left out."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
# Values that a spec should have, as YAML has them, by their path.
Change = Mapping[Key, Any]


class ExitCode(IntEnum):
    """Exit codes of `mmagen`, common to all verbs."""

    OK = 0
    INCORRECT = 1
    USAGE = 2
    BUILD_FAILED = 3
    RUN_FAILED = 4
    NOTHING_VERIFIED = 77
    INTERRUPTED = 130


_BY_SERIOUSNESS = (
    ExitCode.INTERRUPTED,
    ExitCode.INCORRECT,
    ExitCode.USAGE,
    ExitCode.BUILD_FAILED,
    ExitCode.RUN_FAILED,
    ExitCode.NOTHING_VERIFIED,
    ExitCode.OK,
)


def most_serious(*codes: ExitCode) -> ExitCode:
    """The exit code if several apply: an incorrect result (1) first, then 2, 3, 4 and 77."""
    return min(codes, key=_BY_SERIOUSNESS.index, default=ExitCode.OK)


def path_of(key: Key) -> str:
    """`tile[2]`: the path of a value in a spec; "" for the whole document."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).lstrip(".")


@dataclass(frozen=True)
class Fault:
    """One error in a spec, not yet located in a file.

    key: path of the offending value in the spec, e.g. ("tile", 2); () for the whole document.
    what: the error, with the offending value.
    remedy: a legal value, or how to find one; never empty.
    change: the nearest legal values, as far as this rule knows; what they lead to is tried by `families.remedies`.
    """

    key: Key
    what: str
    remedy: str
    change: Change = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Diagnostic:
    """A Fault with its location: line and column, counted from 1."""

    file: str
    line: int
    column: int
    key: Key
    what: str
    remedy: str
    change: Change = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        path = path_of(self.key)
        where = f"{self.file}:{self.line}:{self.column}"
        return f"{where} {path}: {self.what}; {self.remedy}" if path else f"{where}: {self.what}; {self.remedy}"


class MmagenError(Exception):
    """Base of all expected failures; `exit_code` is the exit code of the process."""

    exit_code = ExitCode.USAGE


class SpecFaults(MmagenError):
    """A refused spec, with all its faults, not yet located in the file."""

    def __init__(self, faults: tuple[Fault, ...]):
        super().__init__("; ".join(f"{path_of(f.key)}: {f.what}; {f.remedy}" for f in faults))
        self.faults = faults


class SpecError(MmagenError):
    """Refused spec files, with all their faults and their locations. advice: changes with which they are accepted."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], advice: tuple[str, ...] = ()):
        super().__init__("\n".join((*map(str, diagnostics), *advice)))
        self.diagnostics = diagnostics


class UsageError(MmagenError):
    """A command line, file or folder that cannot be used as asked."""


class BuildError(MmagenError):
    """A missing toolchain, or a project that does not compile."""

    exit_code = ExitCode.BUILD_FAILED


class RunError(MmagenError):
    """A program that could not be run to completion."""

    exit_code = ExitCode.RUN_FAILED
