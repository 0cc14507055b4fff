"""Selects the configurations of a library: those whose times, problem by problem, come closest to the fastest of all.

Three things may count. How close the fastest of the selected ones comes; how the low end compares with a baseline, since a few bad
problems vanish in a mean (`objective.loss`); and which of the selected ones the predicted times would choose, since the fastest one
is of no use where another is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from mmagen.tuning.objective import Vector
from mmagen.tuning.objective import loss as loss_of

P = TypeVar("P", bound=Hashable)

Times = Mapping[str, Mapping[P, float]]

_CHOICE = 0.7  # weight of the choice, the rest is that of the fastest
_NOTHING = 1e-4  # of the mean of the logarithm: what a name must add
_MISSING = 10.0  # the logarithm of a time that a name lacks, over the fastest


def select(
    times: Times[P],
    most: int,
    baseline: Mapping[P, float] | None = None,
    predicted: Times[P] | None = None,
    kernels: Mapping[str, str] | None = None,
    exchange: bool = True,
    weights: Mapping[P, float] | None = None,
    known: Collection[str] = (),
) -> list[str]:
    """Names of at most `most` kernels, the most useful first. times: name -> problem -> seconds; problems that a name lacks it
    cannot do.

    kernels: the kernel of each name, by default one of its own. Greedy: each step adds the kernel that helps most, with all its
    names; then, with `exchange`, kernels are exchanged one by one as long as that helps. Names that add nothing are left out.
    baseline: seconds of a rival, of any problems. predicted: seconds by which a name would be chosen, of all that `times` has.
    weights: how much each problem counts, by default 1. known: names whose kernels are another set that exchanges begin with, so
    that what they lead to is at least as good.
    """
    names = sorted(times)
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        groups.setdefault(kernels[name] if kernels else name, []).append(i)
    each = list(groups.values())
    of_names = _Loss(times, names, baseline or {}, predicted, weights)

    def loss(chosen: Sequence[int]) -> float:
        return of_names([i for group in chosen for i in each[group]])

    starts = [_greedy(loss, len(each), most)]
    of_known = [place for place, group in enumerate(each) if any(names[i] in known for i in group)]
    if exchange and 0 < len(of_known) <= most:
        starts.append(_greedy(loss, len(each), most, of_known))
    chosen = min((_exchanged(loss, len(each), one) if exchange else one for one in starts), key=loss)
    return [names[i] for i in _by_use(of_names, _useful(of_names, [i for group in chosen for i in each[group]]))]


def _greedy(loss: Callable[[Sequence[int]], float], count: int, most: int, known: Sequence[int] = ()) -> list[int]:
    """At most `most` of `count` groups, these among them: each step adds the one that helps most."""
    chosen = list(known)
    while len(chosen) < min(most, count):
        best = min((i for i in range(count) if i not in chosen), key=lambda i: loss([*chosen, i]))
        if chosen and loss([*chosen, best]) > loss(chosen) - 1e-9:
            break
        chosen.append(best)
    return chosen


def _exchanged(loss: Callable[[Sequence[int]], float], count: int, groups: Sequence[int]) -> list[int]:
    """Exchange one group by one, as long as that helps."""
    chosen, improved = list(groups), True
    while improved:
        improved = False
        for place in range(len(chosen)):
            rest = chosen[:place] + chosen[place + 1 :]
            better = min((i for i in range(count) if i not in rest), key=lambda i: loss([*rest, i]))
            if loss([*rest, better]) < loss(chosen) - 1e-9:
                chosen[place], improved = better, True
    return chosen


def _useful(loss: _Loss, chosen: Sequence[int]) -> list[int]:
    """Without those that add next to nothing, the least useful first: every name costs the choice some time."""
    kept = list(chosen)
    while len(kept) > 1:
        least = min(kept, key=lambda i: loss([j for j in kept if j != i]))
        if loss([j for j in kept if j != least]) > loss(kept) + _NOTHING:
            break
        kept.remove(least)
    return kept


class _Loss:
    """How far a selection is from the fastest of all names, and how its low end compares with the baseline."""

    def __init__(
        self,
        times: Times[P],
        names: Sequence[str],
        baseline: Mapping[P, float],
        predicted: Times[P] | None,
        weights: Mapping[P, float] | None,
    ) -> None:
        problems = list(dict.fromkeys(problem for name in names for problem in times[name]))
        table = _table(times, names, problems)
        fastest = table.min(axis=0)
        self._logs: Vector = np.asarray(np.minimum(np.log(table / fastest), _MISSING))  # (names, problems)
        rival = np.array([baseline.get(problem, np.inf) for problem in problems])
        self._rival: Vector = np.asarray(np.log(rival / fastest))
        self._weights = np.array([1.0 if weights is None else weights[problem] for problem in problems])
        self._predicted = None if predicted is None else _table(predicted, names, problems)

    def __call__(self, chosen: Sequence[int]) -> float:
        logs = self._logs[list(chosen)]
        fastest = loss_of(logs.min(axis=0), self._rival, self._weights)
        if self._predicted is None:
            return fastest
        taken = self._predicted[list(chosen)].argmin(axis=0)
        chosen_logs: Vector = logs[taken, np.arange(logs.shape[1])]
        return (1 - _CHOICE) * fastest + _CHOICE * loss_of(chosen_logs, self._rival, self._weights)


def _table(times: Times[P], names: Sequence[str], problems: Sequence[P]) -> Vector:
    return np.array([[times[name].get(problem, np.inf) for problem in problems] for name in names])


def _by_use(loss: _Loss, chosen: Sequence[int]) -> list[int]:
    """The chosen ones in the order in which a greedy choice among them would take them."""
    ordered: list[int] = []
    while len(ordered) < len(chosen):
        ordered.append(min((i for i in chosen if i not in ordered), key=lambda i: loss([*ordered, i])))
    return ordered
