"""From answers to the text of a spec."""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.suggest import write
from mmagen.suggest.rank import Ranking, rank
from mmagen.suggest.wanted import Wanted


@dataclass(frozen=True)
class Suggestion:
    """text: the YAML; ranking: the candidates that it was chosen from."""

    text: str
    ranking: Ranking


def suggest(want: Wanted) -> Suggestion:
    """A spec that `build` accepts. Raises UsageError where there is none."""
    ranking = rank(want)
    any_shape = ranking.candidates[0].plan.any_shape
    return Suggestion(write.ranked(want, ranking) if any_shape else write.one_tile(want, ranking), ranking)
