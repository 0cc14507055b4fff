"""What the special registers hold in each lane."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mmagen.emulate.arrays import Values
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.program.program import Program
from mmagen.emulate.program.specials import SPECIALS, WIDE_SPECIALS


def special_registers(program: Program, lanes: Lanes) -> list[Values]:
    """Values of SPECIALS, in that order, as uint32 (the 64-bit ones as uint64)."""
    values: dict[str, npt.ArrayLike] = dict.fromkeys(SPECIALS, 0)
    values |= _places(program, lanes)
    lane = (lanes.thread % 32).astype(np.uint64)
    values |= {"laneid": lane, "warpid": lanes.thread // 32, "nwarpid": lanes.width // 32, "nsmid": 1}
    values |= {"dynamic_smem_size": program.dynamic_smem, "total_smem_size": program.shared_bytes}
    bit = np.uint64(1) << lane
    below, every = bit - np.uint64(1), np.uint64(0xFFFFFFFF)
    values |= {"lanemask_eq": bit, "lanemask_lt": below, "lanemask_le": below | bit}
    values |= {"lanemask_gt": every & ~(below | bit), "lanemask_ge": every & ~below}
    return [np.atleast_1d(values[n]).astype(np.uint64 if n in WIDE_SPECIALS else np.uint32) for n in SPECIALS]


def _places(program: Program, lanes: Lanes) -> dict[str, npt.ArrayLike]:
    """Where a thread is in its CTA, its CTA in cluster and grid, and the cluster in the grid."""
    values: dict[str, npt.ArrayLike] = {}
    cluster, rank = np.divmod(lanes.cta + lanes.first, program.cluster)
    step_t = step_c = step_r = 1
    for axis, block, grid, size in zip("xyz", program.block, program.grid, program.cluster_extents, strict=True):
        number, place = cluster // step_c % (grid // size), rank // step_r % size
        values[f"tid.{axis}"], values[f"ntid.{axis}"] = lanes.thread // step_t % block, block
        values[f"ctaid.{axis}"], values[f"nctaid.{axis}"] = number * size + place, grid
        values[f"cluster_ctaid.{axis}"], values[f"cluster_nctaid.{axis}"] = place, size
        values[f"clusterid.{axis}"], values[f"nclusterid.{axis}"] = number, grid // size
        step_t, step_c, step_r = step_t * block, step_c * (grid // size), step_r * size
    values["cluster_ctarank"] = rank
    return values | {"cluster_nctarank": program.cluster, "is_explicit_cluster": int(program.cluster > 1)}
