"""Selects the configurations of a library: those whose fastest, problem by problem, come closest to the fastest of all."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

P = TypeVar("P", bound=Hashable)

Vector = NDArray[np.float64]


def select(times: Mapping[str, Mapping[P, float]], most: int, exchange: bool = True) -> list[str]:
    """At most `most` names, the most useful first. times: name -> problem -> seconds; problems that a name lacks it cannot do.

    Greedy: each step adds the name that raises the geometric mean most of the fastest time over the fastest of the selected
    ones; then, with `exchange`, names are exchanged one by one as long as that raises it. Names that add nothing are left out.
    """
    names = sorted(times)
    logs = _logs(times, names)
    chosen: list[int] = []
    while len(chosen) < min(most, len(names)):
        best = min((i for i in range(len(names)) if i not in chosen), key=lambda i: _loss(logs, [*chosen, i]))
        if chosen and _loss(logs, [*chosen, best]) > _loss(logs, chosen) - 1e-9:
            break
        chosen.append(best)
    improved = exchange
    while improved:
        improved = False
        for place in range(len(chosen)):
            rest = chosen[:place] + chosen[place + 1 :]
            better = min((i for i in range(len(names)) if i not in rest), key=lambda i: _loss(logs, [*rest, i]))
            if _loss(logs, [*rest, better]) < _loss(logs, chosen) - 1e-9:
                chosen[place], improved = better, True
    return [names[i] for i in _by_use(logs, chosen)]


def _logs(times: Mapping[str, Mapping[P, float]], names: Sequence[str]) -> Vector:
    """(names, problems): the logarithm of each time over the fastest; large where there is none."""
    problems = list(dict.fromkeys(problem for name in names for problem in times[name]))
    table = np.array([[times[name].get(problem, np.inf) for problem in problems] for name in names])
    return np.asarray(np.minimum(np.log(table / table.min(axis=0)), 10.0))


def _loss(logs: Vector, chosen: Sequence[int]) -> float:
    return float(logs[list(chosen)].min(axis=0).mean())


def _by_use(logs: Vector, chosen: Sequence[int]) -> list[int]:
    """The chosen ones in the order in which a greedy choice among them would take them."""
    ordered: list[int] = []
    while len(ordered) < len(chosen):
        ordered.append(min((i for i in chosen if i not in ordered), key=lambda i: _loss(logs, [*ordered, i])))
    return ordered
