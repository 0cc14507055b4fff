"""The C++ policies of a GEMM kernel: Config::{Kernel, Mainloop, TileScheduler, Epilogue} as types, and their headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmagen.mma.atoms import ElementType
from mmagen.plan.operations import Operation, functor_cxx


@dataclass(frozen=True)
class Policy:
    """A policy class. cxx: its type, as spelled in Config. header: in include/mmagen, without `.cuh`. what: its purpose."""

    cxx: str
    header: str
    what: str


FUNCTOR = Policy(
    "mmagen::LinearCombination<ElementD, ElementAccumulator, Scalar>",
    "linear_combination",
    "the epilogue's functor: D = alpha * accumulator + beta * C",
)


OF_COMPLEX = Policy(
    "mmagen::ComplexLinearCombination<ElementD, ElementAccumulator, Scalar>",
    "complex_linear_combination",
    "the epilogue's functor: D = alpha * accumulator + beta * C of complex numbers, real alpha and beta",
)


def functor(operations: Sequence[Operation], of: ElementType, project: str, row_major: bool, swapped: bool = False) -> Policy:
    """The functor that does them. of: the type of accumulators; row_major and swapped: see operations.cxx."""
    if not operations:
        return FUNCTOR if of.parts == 1 else OF_COMPLEX
    steps = ", ".join(one.word for one in operations)
    return Policy(
        functor_cxx(operations, project, row_major, swapped),
        "epilogue_operations",
        f"the epilogue's functor: {steps}",
    )


SINGLE_TILE = Policy("mmagen::SingleTileScheduler<Config>", "tile_scheduler_single", "one output tile for each CTA")


@dataclass(frozen=True)
class Policies:
    """kernel: None if Config does not select one. bases: the mainloops that `mainloop` derives from, whose headers must also be
    included."""

    kernel: Policy | None
    mainloop: Policy
    scheduler: Policy
    epilogue: Policy
    bases: tuple[Policy, ...] = ()
    functor: Policy = FUNCTOR

    @property
    def headers(self) -> tuple[str, ...]:
        """Headers for config.cuh to include, without `.cuh`, sorted."""
        return tuple(sorted({part.header for part in self.reading}))

    @property
    def reading(self) -> tuple[Policy, ...]:
        """The policies in reading order."""
        parts = (self.kernel, self.scheduler, *self.bases, self.mainloop, self.epilogue, self.functor)
        return tuple(part for part in parts if part)
