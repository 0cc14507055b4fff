"""What the parts of a kernel with further arguments do to its inputs and to what is expected of it.

A part is what a Tensor or Number of the plan names as its `part`. It fills its tensors and says how the expected result
follows from them; whatever it does not say is as for a plain GEMM. A new part is a subclass of Part and a line in PARTS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.matrix import Draw, Operands, put_source

if TYPE_CHECKING:
    from mmagen.verify.emulated.task import Task

Values = npt.NDArray[np.float64]

# The parts, as module:name, by the name that a plan's arguments have.
PARTS = {
    "epilogue": "mmagen.verify.emulated.epilogue:EPILOGUE",
    "sparse": "mmagen.verify.emulated.sparse:SPARSE",
    "scale": "mmagen.verify.emulated.scale:SCALE",
    "group": "mmagen.verify.emulated.groups:GROUPS",
    "weights": "mmagen.verify.emulated.weights:WEIGHTS",
    "packed": "mmagen.verify.emulated.packed:PACKED",
}


@dataclass(frozen=True)
class Sums:
    """Of products, before the epilogue, (batch, m, n): the exact ones, how far an accumulator may be from them, and the sums of
    magnitudes."""

    exact: Values
    drift: Values
    magnitude: Values


@dataclass(frozen=True)
class Interval:
    """What a tensor may hold before the rounding to its type, and what it should."""

    low: Values
    expected: Values
    high: Values


@dataclass(frozen=True)
class Call:
    """One call. of: what is multiplied and how it was drawn."""

    plan: ProductPlan
    problem: Problem
    draw: Draw
    data: Operands


class Part:
    """A part that changes nothing, and fills its tensors as C is filled."""

    name = ""

    def shapes(self, plan: ProductPlan, problem: Problem) -> dict[str, tuple[int, int]]:
        """(rows, columns) in memory of those of a, b, c and d that are not those of a plain GEMM: (m,k), (n,k), (m,n), (m,n)."""
        return {}

    def pads(self, plan: ProductPlan, problem: Problem) -> dict[str, int]:
        """By how many elements of memory lines of a and b exceed their columns, where that is not ld_pad."""
        return {}

    def single(self, plan: ProductPlan, problem: Problem) -> frozenset[str]:
        """Those of a, b, c, d and the further tensors of which there is one, however many matrices a batch has."""
        return frozenset()

    def numbers(self, plan: ProductPlan, problem: Problem) -> Mapping[str, int | float]:
        """The values of its Numbers."""
        return {}

    def fill(self, plan: ProductPlan, problem: Problem, draw: Draw, data: Operands, rng: np.random.Generator) -> None:
        """Fill its tensors in data.further, but for those that are only written. It may change A and B too."""
        for one in plan.arguments.tensors:
            if one.part == self.name and one.access != "write":
                put_source(data.further[one.name], rng, draw.distribution)

    def factors(self, call: Call, a: Values, b: Values) -> tuple[Values, Values]:
        """What is multiplied, (batch,m,k) and (batch,n,k), given the values in memory."""
        return a, b

    def sums(self, call: Call, a: Values, b: Values, usual: Callable[[Values, Values], Sums]) -> Sums:
        """The sums of products; `usual` makes those of a plain GEMM of any such matrices."""
        return usual(a, b)

    def results(self, call: Call, sums: Sums, c: Values) -> dict[str, Interval] | None:
        """D and other tensors that are written, by name, from the sums and C: (batch, rows, columns) each, c (1,1,1) if it is not
        read. None: D is alpha * sums + beta * C."""
        return None

    def check(self, task: Task, data: Operands) -> None:
        """Calls what the library has for the part besides the kernel, once for each kernel. Raises EmulationError for what it does
        wrong, and HostError."""

    def covered(self, call: Call) -> npt.NDArray[np.bool_] | None:
        """(batch, m, n): the elements of D that are written; the others must not be. None for all."""
        return None


@cache
def _part(name: str) -> Part:
    module, _, attribute = PARTS[name].partition(":")
    found: Part = getattr(import_module(module), attribute)
    return found


def parts_of(plan: ProductPlan) -> list[Part]:
    """Those of a plan, in the order of their arguments."""
    return [_part(name) for name in plan.parts]
