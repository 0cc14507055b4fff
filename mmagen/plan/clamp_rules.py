"""Rules of the operation clamp: its bounds are numbers of the type in which the epilogue computes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mmagen.core.errors import ABSENT, Fault, Key
from mmagen.mma.ranges import FINITE, LARGEST

# The least and the largest number of a type.
_RANGES = {
    "s32": (-LARGEST["s32"] - 1, LARGEST["s32"]),
    "f32": (-FINITE["f32"], FINITE["f32"]),
}


def faults(key: Key, bounds: Sequence[float | None], word: str) -> Iterator[Fault]:
    """key: of the entry with the bounds [least, most], null for none. word: the type in which the epilogue computes. Outside of its
    range a bound has no value in C++."""
    least, most = _RANGES.get(word, (-math.inf, math.inf))
    beyond = [one for one in bounds if one is not None and not least <= one <= most]
    if beyond:
        within = [None if one in beyond else one for one in bounds]
        what = f"{beyond[0]:.15g} is beyond {word}, in which this epilogue computes"
        yield Fault(key, what, "null for no bound", _clamp(key, within))
    elif word == "s32" and any(one != int(one) for one in bounds if one is not None):
        low, high = bounds
        whole = [None if low is None else math.ceil(low), None if high is None else math.floor(high)]
        yield Fault(
            key, "the bounds of an epilogue in 32-bit integers are integers", "e.g. {clamp: [0, 127]}", _clamp(key, whole)
        )


def _clamp(key: Key, bounds: Sequence[float | None]) -> dict[Key, object]:
    """The entry with these bounds, or none if they are no interval."""
    low, high = bounds
    empty = (low is None and high is None) or (low is not None and high is not None and low > high)
    return {key: ABSENT if empty else {"clamp": list(bounds)}}
