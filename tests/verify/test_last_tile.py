"""The problem of which the last tile alone is executed; that it catches faults: tests/support/mutations_large.py."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from mmagen.families import plan
from mmagen.plan.countable import MOST, extent_faults
from mmagen.spec.load import load
from mmagen.verify.emulated.last_tile import last_tile

SPECS = Path(__file__).resolve().parents[2] / "specs"
CLUSTERS = {
    "mmagen": 1,
    "name": "clusters",
    "kernel": "gemm",
    "atom": "SM90_64x64x16_F32BF16BF16_SS",
    "layout": "TN",
    "atoms_layout": [1, 1, 1],
    "schedule": "pingpong",
}


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize(
    "name", ["fma_gemm_f32", "sm80_gemm_classic", "sm80_gemm_s4", "sm90_gemm_bf16_tn", "sm90_gemm_splitk", "sm90_gemm_swapped"]
)
def test_the_last_tile_lies_behind_many(name, offset):
    it = plan(load((SPECS / f"{name}.yaml").read_bytes(), name).spec)
    last = last_tile(it, offset)
    extents = [extent * count for extent, count in zip(it.tile_of_d, it.cluster_of_d, strict=False)]
    tiles = [-(-whole // extent) for whole, extent in zip(last.problem.shape, extents, strict=False)]
    assert 2**27 < math.prod(tiles) * last.problem.batch <= 2**28
    starts = [whole - part for whole, part in zip(last.problem.shape, last.part.shape, strict=True)]
    for start, extent, count, part in zip(starts, extents, tiles, last.part.shape, strict=False):
        assert start > 2**16 and start % extent == start % 128 == 0
        assert part <= 16 and (count - 1) * extent == start and count & (count - 1)
    k_tiles = last.part.k // it.tile[2] // it.scheduler.split_k
    assert last.part.k == last.problem.k and k_tiles == (2 if offset else 4 * it.stages)
    assert last.part.ld_pad >= max(starts) and last.part.ld_pad % 16 == 0 and last.part.offset == offset


@pytest.mark.parametrize("tile", [[64, 64, 64], [64, 128, 64], [64, 192, 64]])
@pytest.mark.parametrize("cluster", [[4, 2], [1, 8], [8, 2], [2, 8], [4, 4]])
def test_a_call_of_large_clusters_has_no_more_tiles_than_it_may(cluster, tile):
    it = plan(load(yaml.safe_dump(CLUSTERS | {"cluster": cluster, "tile": tile}), "clusters.yaml").spec)
    problem = last_tile(it, 0).problem
    assert not list(extent_faults(it.spec, [problem]))
    assert 0.9 * MOST < it.tiles_of(problem) * it.scheduler.cluster_ctas <= MOST, "the grid where each cluster has one tile"
