"""Rules of the numpy arrays that an emulated kernel writes beside D."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from mmagen.binding.errors import ArgumentError


def check_written(arrays: Sequence[tuple[str, Any]], written: Collection[str]) -> None:
    """arrays: of a call, with the names of their arguments. written: the names of those that receive results.

    Raises ArgumentError where one of these cannot be written, or shares memory with another array: on a GPU one would be written
    while the other is read, and here the results of one would be lost.
    """
    for at, (name, array) in enumerate(arrays):
        if name not in written:
            continue
        if not isinstance(array, np.ndarray):
            raise ArgumentError(name, f"it is written, and {type(array).__name__} is no numpy array; pass one")
        if not array.flags.writeable:
            raise ArgumentError(name, "it is read-only; pass an array that can be written")
        others = [
            *arrays[:at],
            *(one for one in arrays[at + 1 :] if one[0] not in written),
        ]  # of two results the second is named
        for other, beside in others:
            if np.shares_memory(array, np.asarray(beside)):
                raise ArgumentError(name, f"its memory overlaps that of {other}; pass another array")
