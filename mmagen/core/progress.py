"""The progress callback of long steps."""

from __future__ import annotations

from collections.abc import Callable

# Called with (steps done, steps in all, what is or was done).
Progress = Callable[[int, int, str], None]
