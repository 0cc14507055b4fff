"""The error of the emulator."""

from __future__ import annotations

from mmagen.core.errors import RunError


class EmulationError(RunError):
    """PTX that cannot be executed here: an unknown instruction, a malformed operand, or a run past its limits.

    The message names the instruction; the caller that knows file and line prefixes them.
    """


class KernelAborted(Exception):
    """The kernel has ended its launch: trap, or an assertion that does not hold. The finding is in the log."""
