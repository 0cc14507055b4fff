"""How many steps one thread of a kernel takes in the emulator, which stops a thread that takes many more."""

from __future__ import annotations

from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem

_TILE, _K_TILE = 1000, 200  # steps without those of elements: coordinates, barriers, waits
_ELEMENT = 32  # steps for an element that a thread copies, or a result that it stores, each on its own with its bounds checked
_SUM = 4  # steps in each k tile for each of a thread's sums, where those of a k tile are added apart
_GENEROUS = 4


def expected_steps(plan: ProductPlan, problem: Problem, clusters: int, copied: bool) -> int:
    """Steps, at most, of a thread in a launch of so many clusters. copied: A and B are loaded by threads, not by TMA.

    A step is an instruction; a matrix instruction takes a quarter as many as it has threads.
    """
    m, n, k = plan.tile
    tiles, k_tiles = plan.work_of_a_cta(problem, clusters)
    threads = plan.tiled_mma.threads
    loaded = -(-(m + n) * k // threads) if copied else 0
    atoms = threads // plan.atom.threads
    products = -(-m * n * k // (plan.atom.m * plan.atom.n * plan.atom.k * atoms)) * max(2, plan.atom.threads // 4)
    sums = -(-m * n // threads)
    # A CTA without a tile, as of groups that are all empty, finds out that it has none.
    return max(tiles, 1) * (_TILE + _ELEMENT * sums + k_tiles * (_K_TILE + _ELEMENT * loaded + _SUM * sums + products))


def step_limit(plan: ProductPlan, problem: Problem, clusters: int, copied: bool) -> int:
    """The steps after which a thread is in a loop that does not end; arguments as of expected_steps."""
    return _GENEROUS * expected_steps(plan, problem, clusters, copied)
