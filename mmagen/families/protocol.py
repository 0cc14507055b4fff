"""The interface of a kernel family: everything specific to one kind of kernel, from its rules to its page of `inspect`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from mmagen.core.errors import Fault
from mmagen.mma.atoms import Atom
from mmagen.plan.devices import Device
from mmagen.plan.launch import Numbers
from mmagen.plan.maps import Map
from mmagen.plan.pages import Section
from mmagen.plan.pipeline import Pipeline
from mmagen.plan.project import ProjectPlan
from mmagen.plan.trials import Trials
from mmagen.spec.model import Problem, Spec

P = TypeVar("P", bound=ProjectPlan)


class Family(Protocol[P]):
    """One kind of kernel.

    A new family is a module with a `FAMILY` of this interface and a line in `mmagen.spec.registered`. All methods are pure:
    no disk, no clock, no subprocess.
    """

    def builds(self, atom: str) -> bool:
        """Does this family build kernels from the operation of that name? Raises SpecFaults for an unknown name."""

    def plan(self, spec: Spec, sha: str) -> P:
        """Plan a spec whose atom this family builds kernels from. Raises SpecFaults with all faults.

        sha: the digest of the spec's meaning, stored in the plan.
        """

    def problem_faults(self, plan: P, problems: Sequence[Problem]) -> Iterator[Fault]:
        """The faults of `problems` for a planned kernel; keys are ("problems", index)."""

    def parts(self, plan: P) -> tuple[str, ...]:
        """The folders of templates/project that make up the project; files of later folders replace those of earlier ones."""

    def context(self, plan: P, config: str) -> Mapping[str, Any]:
        """Template variables besides the plan. config: the selected kernel of a library, "" for a single kernel.

        Every family provides `units`, for each translation unit the names of its source files in src/, without .cu, and
        `decisions`, the contents of config.cuh. What else all projects need has defaults in generate/render.py.
        """

    def trials(self, plan: P) -> Trials:
        """The problems that verify emulates without a GPU, and how they are judged."""

    def page(self, plan: P) -> list[Section]:
        """The sections of `mmagen inspect`."""

    def numbers(self, plan: P, device: Device, ptxas: Mapping[str, int]) -> list[Numbers]:
        """Occupancy and launches of its problems on a device, for `inspect`. ptxas: registers per thread of the kernels that
        were built, by the name of their config ("" for a single kernel)."""

    def maps(self, plan: P) -> list[Map]:
        """Who owns the elements of A, B and C, for `inspect --ownership`; the last, of the CTA tile, for README.md of the project
        too. None of a kernel without such tiles."""


@runtime_checkable
class Starter(Protocol):
    """A family whose kernels `mmagen new` can begin with."""

    def first_keys(self, atom: Atom) -> Iterable[Mapping[str, Any]]:
        """Keys of specs besides the operation, as YAML has them; not all need be legal. Of a kernel for any size they are ranked by
        predicted time; of one tile the first that is legal is used."""


@runtime_checkable
class Pipelined(Protocol):
    """A family whose kernels load k tiles while they multiply others."""

    def pipeline(self, plan: Any) -> Pipeline:
        """Who loads and who multiplies in one kernel, for pictures."""


@runtime_checkable
class Tunable(Protocol):
    """A family with configurations to choose from: what `mmagen tune` measures.

    tile_rate: tile M x N x K x bytes of an element of A that an SM of an H200 multiplies in a microsecond; for guesses of times.
    cutlass: which CUTLASS has kernels of that kind, as nvidia-matmul-heuristics calls it: CUTLASS (2) or CUTLASS3.
    """

    tile_rate: float
    cutlass: str

    def alternatives(self, spec: Spec) -> Iterable[Mapping[str, Any]]:
        """Keys of configs that are worth measuring instead of the spec's own, as YAML has them; not all need be legal. Those with
        `clusters`, which have no costs, are kernels whose launches have `tile_n`."""
