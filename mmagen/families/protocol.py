"""What a kernel family is: all that is particular to one kind of kernel, from its rules to its page of `inspect`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from mmagen.core.errors import Fault
from mmagen.plan.pages import Section
from mmagen.plan.plans import ProjectPlan
from mmagen.plan.trials import Trials
from mmagen.spec.model import Problem, Spec

P = TypeVar("P", bound=ProjectPlan)


class Family(Protocol[P]):
    """One kind of kernel.

    A module with a `FAMILY` of this shape and a line in `mmagen.families.REGISTERED` is all that a new kind needs. All
    methods are pure: no disk, no clock, no subprocess.
    """

    def builds(self, atom: str) -> bool:
        """Does this family build kernels from the operation of that name? Raises SpecFaults for a name that no operation has."""

    def plan(self, spec: Spec, sha: str) -> P:
        """All decisions for a spec whose atom this family builds kernels from. Raises SpecFaults with every fault found.

        sha: the identity of the spec's meaning, for the plan to carry.
        """

    def problem_faults(self, plan: P, problems: Sequence[Problem]) -> Iterator[Fault]:
        """What is wrong with problems for a kernel that is planned already; keys are ("problems", index)."""

    def parts(self, plan: P) -> tuple[str, ...]:
        """Folders of templates/project that make up the project; a file of a later one replaces an earlier one's."""

    def context(self, plan: P, config: str) -> Mapping[str, Any]:
        """What templates see besides the plan. config: the kernel of a library that is meant, "" where there is one kernel.

        Every family says `sources`, the names of the translation units in src/, and `decisions`, what config.cuh holds.
        """

    def trials(self, plan: P) -> Trials:
        """What verify runs of one kernel where no GPU is, and who judges it."""

    def page(self, plan: P) -> list[Section]:
        """The sections of `mmagen inspect`."""
