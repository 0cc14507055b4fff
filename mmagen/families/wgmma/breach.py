"""A broken rule of wgmma kernels, and changes that several rules try."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log2

from mmagen.core.errors import Key
from mmagen.families.wgmma import decisions
from mmagen.families.wgmma.changes import Change
from mmagen.spec.model import Spec

POWERS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Breach:
    """A broken rule. rule: what is legal; tries: candidate changes, nearest first."""

    key: Key
    what: str
    rule: str
    tries: Iterable[Change] = ()


def clusters(spec: Spec) -> list[Change]:
    """All clusters, those most like the spec's first, the larger of two."""
    m, n = map(log2, decisions.cluster(spec))
    near = sorted((abs(log2(i) - m) + abs(log2(j) - n), -i * j, (i, j)) for i in POWERS for j in POWERS)
    return [{"cluster": cluster} for *_, cluster in near]
