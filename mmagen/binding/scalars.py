"""alpha and beta as a call passes them: numbers of Python and numpy; what is none may be an array of one element."""

from __future__ import annotations

from numbers import Complex, Real
from typing import Any

from mmagen.binding.errors import ArgumentError


def number(name: str, value: Any) -> float | None:
    """A real number; None for what is no number, and may be an array. Raises ArgumentError for numbers that a kernel cannot take,
    and for what is neither."""
    if isinstance(value, Real):
        try:
            return float(value)
        except OverflowError:
            raise ArgumentError(name, "it is larger than any f64; pass a smaller number") from None
    if isinstance(value, Complex | str | bytes | list | tuple | None):
        raise ArgumentError(name, f"it is {repr(value)[:60]}; this kernel takes a real number")
    return None
