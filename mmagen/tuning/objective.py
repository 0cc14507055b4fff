"""What a library is judged by, on problems that do not all count the same: the geometric mean of a rival's times over its own, and
the low end of these.

The low end is the mean of the lowest fifth, up to a ratio of 1.05. The 5th percentile itself depends on a single problem, which
says little of others; the mean of a fifth depends on all problems that are lost or nearly lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

LOW = 0.2  # of all problems, by weight: those that make up the low end
LOW_WEIGHT = 0.5  # of their mean; the mean of all counts 1
ENOUGH = math.log(1.05)  # of a ratio: what lies above is no part of the low end


def loss(times: Vector, rival: Vector, weights: Vector) -> float:
    """Less is better. times, rival: logarithms, over any time that is common to both; a rival is inf where it was not measured.
    weights: of the problems, of any sum."""
    share = weights / weights.sum()
    behind = np.maximum(times - rival + ENOUGH, 0)
    return float(share @ times) + LOW_WEIGHT * _mean_of_highest(behind, share)


def _mean_of_highest(values: Vector, share: Vector) -> float:
    """Of the highest values, as many as have the share LOW together; of the last one a part."""
    order = np.argsort(-values)
    before = np.cumsum(share[order]) - share[order]
    taken = np.clip(LOW - before, 0, share[order])
    return float(taken @ values[order]) / LOW


@dataclass(frozen=True)
class Ratios:
    """A rival's time over a library's, of each problem, and how much the problem counts."""

    values: Sequence[float]
    weights: Sequence[float]

    @property
    def mean(self) -> float:
        """Geometric."""
        return math.exp(float(np.average(np.log(self.values), weights=self.weights)))

    @property
    def low(self) -> float:
        """The 5th percentile: the least value below which 5 % of the weight lie, or more."""
        order = np.argsort(self.values)
        below = np.cumsum(np.asarray(self.weights)[order]) / sum(self.weights)
        return float(np.asarray(self.values)[order][int(np.searchsorted(below, 0.05))])

    @property
    def loss(self) -> float:
        """By which libraries are compared on the same problems: less is better."""
        logs = -np.log(np.asarray(self.values, dtype=float))
        return loss(logs, np.zeros_like(logs), np.asarray(self.weights, dtype=float))

    @property
    def text(self) -> str:
        return f"{self.mean:.3f} (5th percentile {self.low:.3f}, lowest {min(self.values):.3f}, {len(self.values)} problems)"
