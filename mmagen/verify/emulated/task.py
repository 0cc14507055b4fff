"""One problem for one kernel to emulate, and which functions of the project's C interface do it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mmagen.build.ptx import Ptx
from mmagen.families.library import choose
from mmagen.plan.plans import GemmPlan, ProductPlan
from mmagen.plan.project import ProjectPlan
from mmagen.spec.model import Problem


@dataclass(frozen=True)
class Task:
    """One emulated call: a problem with one distribution of inputs. plan: of the kernel that is to do it. library: the plan
    of the library that the kernel belongs to, where it is called `config`; None for a project of one kernel. timeout_s: of
    one launch. workspace: whether the call gets the workspace that it can use. checks: whether what is asked once for each kernel
    is asked with this problem. relaunches: whether launches that leave flags in the workspace are executed a second time.
    code_folder: where the code that the emulator generates is kept, None for nowhere."""

    plan: ProjectPlan
    ptx: Ptx
    problem: Problem
    distribution: str
    seed: int
    library: GemmPlan | None = None
    config: str = ""
    timeout_s: float | None = None
    workspace: bool = True
    checks: bool = False
    relaunches: bool = True
    code_folder: Path | None = None

    @property
    def text(self) -> str:
        """The problem, and which kernel does it where there are several."""
        return self.problem.text + (f" by {self.config}" if self.config else "")

    @property
    def chosen(self) -> str:
        """The config that the library's rules mean the problem for; "" for a project of one kernel."""
        return choose(self.library, self.problem, self.workspace).name if self.library else ""

    @property
    def named(self) -> frozenset[str]:
        """The configs that NAME_config_name may name. Where another config runs than the library chooses, the call has the
        workspace of that config alone, which may be too small for copies of the operands."""
        if not self.library or self._is_chosen:
            return frozenset({self.chosen})
        return frozenset({self.chosen, choose(self.library, self.problem, self.workspace, room=False).name})

    @property
    def kernel_name(self) -> str:
        """The kernel among all projects of a run: the project's name, and the config's."""
        return f"{(self.library or self.plan).name} {self.config}"

    @property
    def product(self) -> ProductPlan:
        """The plan of a kernel that multiplies; the other kinds have no use for this."""
        return cast(ProductPlan, self.plan)

    def symbol(self, function: str) -> str:
        """Of a function of the C interface: "run" is NAME_run."""
        return f"{(self.library or self.plan).name}_{function}"

    @property
    def run_symbol(self) -> str:
        """NAME_run where the library's rules lead to the config, else the function behind it, NAME::config::run."""
        return self.symbol("run") if self._is_chosen else self._of_config("run", "P11CUstream_st")

    @property
    def workspace_symbol(self) -> str:
        """The same for NAME_workspace_bytes and NAME::config::workspace."""
        return self.symbol("workspace_bytes") if self._is_chosen else self._of_config("workspace", "Rl")

    @property
    def takes_workspace(self) -> bool:
        """Can the call use a workspace? Operands are copied by NAME_run, not by the function of a config."""
        return self.product.takes_workspace if self._is_chosen else self.product.kernels_take_workspace

    @property
    def _is_chosen(self) -> bool:
        return not self.library or self.chosen == self.config

    def _of_config(self, function: str, more: str) -> str:
        """The mangled name of NAME::config::function(NAME_args const&, more)."""
        assert self.library
        name = self.library.name
        scope = f"{len(name)}{name}{len(self.config)}{self.config}{len(function)}{function}"
        return f"_ZN{scope}ERK{len(name) + 5}{name}_args{more}"
