"""Lanes that execute a synchronizing instruction with the same operands."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Indices, Values


def alike(*operands: Values) -> list[tuple[tuple[int, ...], Indices]]:
    """(values, which lanes have them) for each combination of values, in the order of its first lane. operands: [n] each, of n
    lanes, at least one; the lanes are int64 indices, ascending.

    Lanes with the same values are mostly adjacent: neighbours are compared as arrays, and only the first lane of each run of
    equal ones is looked up.
    """
    differs = np.any([one[1:] != one[:-1] for one in operands], axis=0)
    runs: dict[tuple[int, ...], list[Indices]] = {}
    for run in np.split(np.arange(len(operands[0])), np.flatnonzero(differs) + 1):
        runs.setdefault(tuple(int(one[run[0]]) for one in operands), []).append(run)
    return [(values, np.concatenate(of_values)) for values, of_values in runs.items()]
