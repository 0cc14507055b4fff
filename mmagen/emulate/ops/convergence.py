"""Instructions that all threads of a warp or warpgroup must execute together."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arithmetic.wgmma import WARPGROUP
from mmagen.emulate.arrays import Indices, Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.ptx.model import Instruction


def warps_of(X: Batch, mask: Mask | None, i: Instruction) -> Indices | None:
    """int64[w]: the warps that take part in a warp-wide instruction; None for all. Incomplete ones are a finding."""
    if mask is None:
        return None
    by_warp = mask.reshape(-1, 32)
    warps = by_warp.any(axis=1)
    if not by_warp[warps].all():
        X.findings.partial_warps(i, mask)
    return None if warps.all() else np.flatnonzero(warps)


def spread_warps(X: Batch, warps: Indices | None, values: Values) -> Values:
    """A register uint[w, 32] of some warps as an array over all lanes."""
    if warps is None:
        return values.reshape(-1)
    result = np.zeros((X.lanes.size // 32, 32), dtype=values.dtype)
    result[warps] = values
    return result.reshape(-1)


def whole_warpgroups(X: Batch, mask: Mask | None, i: Instruction) -> Indices:
    """int64[g]: the warpgroups that are there with all of their 128 threads; others are a finding."""
    groups = X.wgmmas.groups_of(mask)
    active = X.lanes.live if mask is None else mask
    whole = np.array([int(active[X.wgmmas.lanes_of(g)].sum()) == WARPGROUP for g in groups.tolist()], dtype=bool)
    if not whole.all():
        lane = X.wgmmas.first_lane(int(groups[~whole][0]))
        X.findings.add("warp_divergence", i, int((~whole).sum()), lane, "runs without some threads of its warpgroup")
    complete: Indices = groups[whole]
    return complete
