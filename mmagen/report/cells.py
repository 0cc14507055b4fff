"""Values as cells of tables."""

from __future__ import annotations


def problem_text(problem: object) -> str:
    """4096x4096x1024 for a list of extents; a text as it is; "" for None."""
    if isinstance(problem, list | tuple):
        return "x".join(str(extent) for extent in problem)
    return text(problem)


def number_of(value: object) -> float | None:
    """None for what is no number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def figure(value: object, form: str) -> str:
    """A number in `form`, 0 without decimals; a text as it is; "" for None."""
    number = number_of(value)
    return text(value) if number is None else "0" if number == 0 else format(number, form)


def text(value: object) -> str:
    """ "" for None."""
    return "" if value is None else str(value)
