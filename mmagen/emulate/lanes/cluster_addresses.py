"""Addresses of other CTAs' shared memory.

A shared::cluster address holds the rank of its CTA, plus one, above 24 bits of offset; none there: the thread's own CTA.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Indices
from mmagen.emulate.lanes.lanes import Lanes

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1


def owners(lanes: Lanes, users: Indices, where: Indices) -> tuple[Indices, Indices]:
    """(CTA in the batch, offset in it), int64[n] each, of shared addresses `where` that lanes `users` use. For an
    address in no CTA of the cluster: the thread's own CTA, offset -1."""
    own, rank = lanes.cta[users], where >> RANK_SHIFT
    size = lanes.cluster
    inside = (rank >= 0) & (rank <= size)
    return np.where(inside & (rank > 0), own // size * size + rank - 1, own), np.where(inside, where & OFFSET_MASK, -1)
