"""Which of many alike tests belong to every run; the others are `more`, for runs with MMAGEN_ALL_TESTS."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")


def representatives(those: Iterable[T], names: Collection[str], name_of: Callable[[T], str] = str) -> list[object]:
    """`those` as parameters of a test, named by `name_of` and marked `more` unless that is among `names`.

    AssertionError when one of `names` names none of them: a representative that went away must be replaced.
    """
    ones = list(those)
    assert set(names) <= set(map(name_of, ones)), f"none of these: {sorted(set(names) - set(map(name_of, ones)))}"
    return [pytest.param(one, id=name_of(one), marks=[] if name_of(one) in names else [pytest.mark.more]) for one in ones]
