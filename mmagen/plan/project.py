"""What the plans of all projects have: the spec, the sentences of the files, the arguments of a call, and what a library says of
itself.

A plan names its family; everything specific to a kind of kernel is a method of the family (mmagen.families).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mmagen.core.targets import capability
from mmagen.plan.arguments import NO_ARGUMENTS, Arguments
from mmagen.plan.facts import Facts, needs
from mmagen.spec.model import Problem, Spec


@dataclass(frozen=True)
class Text:
    """Sentences in the files of a project.

    title: one line. formula: what a call computes. storage: a note on how a type is stored, or "". shape: the error message of
    a fixed-shape kernel for any other shape; shape_note: when it is returned. peak_operands: where the peak-rate loop of bench
    keeps its operands. reading: the headers to read, in order, each with its purpose.
    """

    title: str
    formula: str = ""
    storage: str = ""
    shape: str = ""
    shape_note: str = ""
    peak_operands: str = ""
    reading: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Prepared:
    """How test programs change A or B once they are filled, of kernels that read them in a form of their own; of others nothing.

    folder: of templates/project, whose tests/_subject.cuh.j2 has prepare_a() or prepare_b(), and tests/_arguments.cuh.j2 passes
    what they made. header: that both need. a, b: tags of element types, "" for those that are multiplied.
    """

    folder: str = ""
    header: str = ""
    a: str = ""
    b: str = ""


@dataclass(frozen=True, kw_only=True)
class ProjectPlan:
    """Common fields of all plans. family: the registered module of its family; arch: target architectures of the project.

    arguments: those of a call beyond A, B, C, D, alpha and beta.
    """

    family: str
    spec: Spec
    spec_sha: str
    arch: tuple[str, ...]
    text: Text
    problems: tuple[Problem, ...] = ()
    arguments: Arguments = NO_ARGUMENTS

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def kernel(self) -> str:
        return self.spec.kernel

    @property
    def requires(self) -> str:
        """The oldest architecture with the kernel's instructions, or the only one: "sm_80", "sm_90a"."""
        return min(self.arch, key=capability)

    @property
    def note(self) -> str:
        """A note that `build` prints for the user, or ""."""
        return ""

    @property
    def extended(self) -> bool:
        """Does it need CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED, for operations that it does not define itself?"""
        return False

    @property
    def chosen(self) -> dict[str, str]:
        """What was decided for keys that a spec may leave out, by key."""
        return {"arch": ", ".join(self.arch)}

    @property
    def ignores_scalars(self) -> bool:
        """Does the epilogue leave out alpha, or C? A call must then pass 1, or 0."""
        return False

    @property
    def derived(self) -> tuple[str, ...]:
        """What follows from the keys of the spec, beside what a page lists by itself."""
        return ()

    @property
    def maps_are_verified(self) -> bool:
        """Is the map of owners what `verify` compares?"""
        return False

    @property
    def any_shape(self) -> bool:
        """Does it compute any m, n, k, batch, alpha and beta, and not only one tile?"""
        return False

    @property
    def by_config(self) -> dict[str, ProjectPlan]:
        """The plan of each kernel by the name of its config; {"": self} for a single kernel."""
        return {"": self}

    @property
    def by_kernel(self) -> dict[str, ProjectPlan]:
        """The plans by compiled kernel: of one with several choices that of the first."""
        return self.by_config

    @property
    def selects_width(self) -> bool:
        """Does each call select how many columns of a tile are computed, by the CTAs that run at once?"""
        return False

    @property
    def takes_workspace(self) -> bool:
        """Can a call use a workspace in device memory?"""
        return False

    @property
    def needs_workspace(self) -> str:
        """What a call cannot do without a workspace for, or "" where it can."""
        return ""

    @property
    def few_rows(self) -> bool:
        """Is there a kernel of its own for few rows, or columns, of operands that TMA cannot address?"""
        return False

    @property
    def sums_in_workspace(self) -> bool:
        """Is it for partial sums of tiles, so that its size depends on how many CTAs run at once?"""
        return False

    @property
    def kernels_take_workspace(self) -> bool:
        """Can it be for more than copies of operands, which a library makes before it runs a kernel?"""
        return bool(self.needs_workspace) or self.sums_in_workspace

    @property
    def loads_by_tma_alone(self) -> bool:
        """Is a call refused whose A or B TMA cannot address?"""
        return False

    @property
    def facts(self) -> Facts:
        """What the library says of itself at run time."""
        about: dict[str, Any] = {"name": self.name, "kernel": self.kernel, "arch": [*self.arch], "spec_sha": self.spec_sha}
        if self.arguments:
            about["arguments"] = self.arguments.description
        return Facts(needs=needs(self.arch), description=about)
