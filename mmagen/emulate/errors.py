"""What goes wrong while a kernel's PTX is read or executed on the CPU."""

from __future__ import annotations

from mmagen.core.errors import RunError


class EmulationError(RunError):
    """PTX that cannot be executed here: an unknown instruction, a malformed operand, or a run past its limits.

    The message names the instruction; whoever knows the file and line puts them in front.
    """
