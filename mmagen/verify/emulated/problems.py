"""Small problems with the character of large ones: what can go wrong goes wrong on a handful of CTAs too."""

from __future__ import annotations

from mmagen.plan.plans import GemmPlan as Plan
from mmagen.spec.model import Problem

_ALIGNED = 16  # elements: a multiple of every vector


def small_problems(plan: Plan) -> tuple[Problem, ...]:
    """What the emulator runs for a plan: whole tiles and more of them along K than there are stages; ragged tails in
    every mode, several CTAs, a batch, alpha and beta, in wide vectors; the same off its alignment; a single element. With
    TMA also a problem with fewer rows than a box has, all within one k tile, whose rows end within 16 bytes."""
    if plan.kernel != "gemm":
        return (Problem(shape=plan.tile),)
    m, n, k = plan.tile
    ragged = (_next(m), _next(n), _next(2 * k))
    parts = plan.scheduler.split_k  # each has more steps than stages
    few = (Problem(shape=(43, 43, 43), ld_pad=_RAGGED, beta=1.0),) if plan.operands[0].tma else ()
    return (
        *few,
        *_streamed(plan),
        Problem(shape=(m, n, k * (plan.stages + 1) * parts)),
        Problem(shape=ragged, batch=2, ld_pad=_ALIGNED - _RAGGED, alpha=-1.0, beta=2.0),
        Problem(shape=(17, 33, 65), offset=1, beta=1.0),
        Problem(shape=(1, 1, 1)),
    )


_RAGGED = 5


def _streamed(plan: Plan) -> tuple[Problem, ...]:
    """Where clusters share tiles: a wave and one more, and a single tile for all of them."""
    if not plan.scheduler.stream_k:
        return ()
    m, n = (extent * ctas for extent, ctas in zip(plan.tile, plan.scheduler.cluster, strict=False))
    k = plan.tile[2]
    return Problem(shape=(m, 4 * n, 6 * k), beta=1.0), Problem(shape=(m, n, 24 * k))


def _next(extent: int) -> int:
    """The next extent that is 5 more than a multiple of 16: ragged itself, and aligned with 11 elements of padding."""
    return extent + 1 + (_RAGGED - extent - 1) % _ALIGNED
