"""Extents of problems that a kernel can count: what `check_extents` of gemm_arguments.cuh refuses in a call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from mmagen.core.errors import Fault
from mmagen.plan.tiling import LARGEST_EXTENT
from mmagen.spec.model import Problem, Spec

# Of M, N and K, and of the number of CTAs: the end of the last tile fits 31 bits.
MOST = 2**31 - 1 - LARGEST_EXTENT


def extent_faults(spec: Spec, problems: Iterable[Problem]) -> Iterator[Fault]:
    """Faults of problems of a gemm with larger extents, or with more tiles. Sizes of groups bound the tiles of grouped kernels."""
    assert spec.tile
    tile_m, tile_n = spec.tile[1::-1] if spec.operands == "swapped" else spec.tile[:2]
    for i, problem in enumerate(problems):
        shape = [min(extent, MOST) for extent in problem.shape]
        written = problem.model_dump(mode="json")
        if list(problem.shape) != shape:
            names = [f"{name} is {extent}" for name, extent in zip("MNK", problem.shape, strict=True) if extent > MOST]
            what = f"{problem.text}: {' and '.join(names)}"
            yield Fault(("problems", i), what, f"at most {MOST}", {("problems", i): {**written, "shape": shape}})
            continue
        across = math.ceil(problem.n / tile_n)
        tiles = math.ceil(problem.m / tile_m) * across * problem.batch
        if tiles > MOST and not spec.grouped:
            rows = max(1, MOST // (across * problem.batch)) * tile_m
            fewer = {**written, "shape": [min(problem.m, rows), *shape[1:]]}
            if across * problem.batch > MOST:
                fewer |= {"batch": 1}
            yield Fault(
                ("problems", i),
                f"{problem.text} has {tiles} tiles of {tile_m} x {tile_n}",
                f"at most {MOST}, e.g. {fewer['shape'][0]} rows" + (" and a batch of 1" if fewer["batch"] == 1 else ""),
                {("problems", i): fewer},
            )
