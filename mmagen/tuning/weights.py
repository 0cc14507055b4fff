"""How much each measured problem counts: as problems of its kind do among random ones, not as often as they were measured.

Problems are of a kind by how long they take at least and whether they have few rows, by how lines of A and B lie in memory or
whether they are copied, and by how those of D do. Weights are raked: each of these divisions in turn is given its shares among
random problems, until all have them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mmagen.plan.cost import Call

# Of an H200, roughly: operations of 16-bit operands and bytes in a microsecond, and a launch. They only divide problems.
_OPERATIONS, _BYTES, _LAUNCH_US = 7e8, 4e6, 2.0
_DURATIONS = ((5.0, "below 5 us"), (15.0, "5 to 15 us"), (60.0, "15 to 60 us"), (math.inf, "above 60 us"))
_FEW = 64  # rows or columns of D
_SWEEPS = 50
_MOST = 5.0  # of a weight, relative to the mean: few problems cannot stand for many
_NOTICED = 0.02  # of random problems, of which a kind is named that was not measured

Division = Callable[[Call], str]


@dataclass(frozen=True)
class Weights:
    """of: call -> weight, 1 on average. missing: kinds of random problems that were not measured, with their share, in words."""

    of: Mapping[Call, float]
    missing: tuple[str, ...] = ()


def least_us(call: Call, sizes: tuple[float, float, float]) -> float:
    """Microseconds that a call takes at least, by operations and bytes. sizes: bytes of an element of A, B and D."""
    a, b, d = sizes
    operations = 2.0 * call.m * call.n * call.k * call.batch * a / 2
    moved = (call.m * call.k * a + call.n * call.k * b + call.m * call.n * d) * call.batch
    return _LAUNCH_US + max(operations / _OPERATIONS, moved / _BYTES)


def as_random(
    calls: Sequence[Call],
    random: Sequence[Call],
    sizes: tuple[float, float, float],
    copied: Collection[Call] = (),
) -> Weights:
    """Weights of `calls` with which they are divided as `random` are. sizes: bytes of an element of A, B and D. copied: those of
    both whose operands are copied."""

    def duration(call: Call) -> str:
        us = least_us(call, sizes)
        return next(name for most, name in _DURATIONS if us < most)

    def extent(call: Call) -> str:
        few = min(call.m, call.n) <= _FEW
        return f"take {duration(call)} with {'at most' if few else 'more than'} {_FEW} rows or columns"

    def lines(call: Call) -> str:
        if call in copied:
            return "have operands that are copied"
        whole = all(pitch % 128 == 0 for pitch in call.pitches[:2])
        return f"have pitches of A and B that are {'multiples' if whole else 'no multiples'} of 128 bytes"

    def stores(call: Call) -> str:
        return f"have a pitch of D that is {'a multiple' if call.pitches[2] % 16 == 0 else 'no multiple'} of 16 bytes"

    weights = dict.fromkeys(calls, 1.0)
    missing: list[str] = []
    wanted = []
    for division in (extent, lines, stores):
        shares = _shares(random, division)
        measured = {division(call) for call in calls}
        missing += [
            f"{share:.0%} of random problems {kind}, and none of these was measured"
            for kind, share in shares.items()
            if kind not in measured and share >= _NOTICED
        ]
        present = {kind: share for kind, share in shares.items() if kind in measured}
        total = sum(present.values())
        wanted.append((division, {kind: share / total for kind, share in present.items()}))
    for _ in range(_SWEEPS):
        for division, shares in wanted:
            _give(weights, division, shares)
    return Weights(_trimmed(weights), tuple(missing))


def _shares(calls: Sequence[Call], division: Division) -> dict[str, float]:
    counts: dict[str, int] = {}
    for call in calls:
        counts[division(call)] = counts.get(division(call), 0) + 1
    return {kind: count / len(calls) for kind, count in counts.items()}


def _give(weights: dict[Call, float], division: Division, shares: Mapping[str, float]) -> None:
    """Scale the weights of each part of a division to its share. What random problems do not have keeps next to nothing."""
    sums: dict[str, float] = {}
    for call, weight in weights.items():
        sums[division(call)] = sums.get(division(call), 0.0) + weight
    total = sum(sums.values())
    for call in weights:
        kind = division(call)
        weights[call] *= shares.get(kind, 0.0) * total / sums[kind] if sums[kind] else 0.0


def _trimmed(weights: Mapping[Call, float]) -> dict[Call, float]:
    """With a mean of 1, and none above `_MOST`."""
    mean = _mean(weights.values())
    cut = {call: min(weight / mean, _MOST) for call, weight in weights.items()}
    mean = _mean(cut.values())
    return {call: weight / mean for call, weight in cut.items()}


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
