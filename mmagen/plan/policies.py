"""The C++ policies of a GEMM kernel: Config::{Kernel, Mainloop, TileScheduler, Epilogue} as types, and their headers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """A policy class. cxx: its type, as spelled inside of Config. header: of include/mmagen, without `.cuh`. what: its job in
    a sentence."""

    cxx: str
    header: str
    what: str


FUNCTOR = Policy(
    "mmagen::LinearCombination<ElementD, ElementAccumulator, Scalar>",
    "linear_combination",
    "the epilogue's functor: D = alpha * accumulator + beta * C",
)
SINGLE_TILE = Policy("mmagen::SingleTileScheduler<Config>", "tile_scheduler_single", "one output tile for each CTA")


@dataclass(frozen=True)
class Policies:
    """kernel: None where Config names none, since one kernel serves all. base: the mainloop that `mainloop` derives from, if
    its header has to be included as well."""

    kernel: Policy | None
    mainloop: Policy
    scheduler: Policy
    epilogue: Policy
    base: Policy | None = None
    functor: Policy = FUNCTOR

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that config.cuh includes, without `.cuh`, sorted."""
        return tuple(sorted({part.header for part in self.reading}))

    @property
    def reading(self) -> tuple[Policy, ...]:
        """In the order in which to read them."""
        parts = (self.kernel, self.scheduler, self.base, self.mainloop, self.epilogue, self.functor)
        return tuple(part for part in parts if part)
