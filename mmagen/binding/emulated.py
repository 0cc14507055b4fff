"""A kernel on numpy arrays, without a GPU: its own host code and PTX in the emulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mmagen.binding.errors import ArgumentError
from mmagen.binding.further import check_names
from mmagen.build.ptx import Ptx, compile_ptx
from mmagen.core.errors import BuildError, RunError
from mmagen.emulate import EmulationError
from mmagen.families.library import choose
from mmagen.families.plans import Plan
from mmagen.host_runtime.library import HostError
from mmagen.plan.plans import GemmPlan, ProductPlan
from mmagen.spec.model import Problem
from mmagen.toolchain.find import EMULATE, find_toolchain
from mmagen.verify.emulated.formats import storage
from mmagen.verify.emulated.matrices import further_matrices
from mmagen.verify.emulated.matrix import Matrix, Operands, empty
from mmagen.verify.emulated.session import multiply
from mmagen.verify.emulated.task import Task


@dataclass(frozen=True)
class Emulated:
    """plan: of the project in `folder`."""

    plan: ProductPlan
    folder: Path

    @cached_property
    def _ptx(self) -> Ptx:
        ptx = compile_ptx(self.folder, find_toolchain(want=EMULATE))
        if ptx.error:
            raise BuildError(f"{self.plan.name} does not compile: {ptx.error}")
        return ptx

    def __call__(
        self, a: Any, b: Any, c: Any, alpha: float, beta: float, timeout_s: float | None, further: Mapping[str, Any]
    ) -> npt.NDArray[Any]:
        """See Kernel.emulate."""
        plan = self.plan
        left, right = _array("a", a, plan.operand("A").element.word), _array("b", b, plan.operand("B").element.word)
        if left.shape[-1] != right.shape[-2]:
            raise ArgumentError("b", f"shape {right.shape}: {right.shape[-2]} rows, but a has {left.shape[-1]} columns")
        if plan.epilogue.scalar.word == "s32":
            for name, value in (("alpha", alpha), ("beta", beta)):
                if value != int(value):
                    raise ArgumentError(name, f"it is {value}; this kernel takes an integer")
        source = None
        if beta != 0:
            if c is None:
                raise ArgumentError("c", "it is None, but beta is not 0; pass an array, or beta=0")
            source = _array("c", c, plan.epilogue.out.word)
        m, n, k = left.shape[-2], right.shape[-1], left.shape[-1]
        columns = plan.facts.columns_of_element
        if n % columns:
            raise ArgumentError("b", f"{n} columns: each element of D is made of two; pass an even number")
        if source is not None and source.shape[-2:] != (m, n):
            raise ArgumentError("c", f"shape {source.shape}: a @ b is ({m},{n})")
        counts = {one.shape[0] for one in (left, right, source) if one is not None and one.ndim == 3}
        if len(counts - {1}) > 1:
            raise ArgumentError(
                "b", f"batches of {', '.join(map(str, sorted(counts)))} matrices; pass equally many, or one for all"
            )
        batch = max(counts, default=1)
        if 0 in (m, n, batch):
            return np.zeros((*((batch,) if counts else ()), m, n // columns), storage(plan.epilogue.out.word))
        problem = Problem(shape=(m, n, k), batch=batch, alpha=float(alpha), beta=float(beta))
        data = replace(self._operands(left, right, source, problem), **self._further(problem, further))
        task = Task(cast(Plan, plan), self._ptx, problem, "given", 1, *self._config(problem), timeout_s=timeout_s)
        found = self._multiply(task, data)
        for name, (lines, _) in data.results.items():
            matrix = data.further[name]
            further[name][...] = (lines if matrix.columns_contiguous else lines.swapaxes(1, 2)).reshape(further[name].shape)
        return found if counts else found[0]

    def _config(self, problem: Problem) -> tuple[GemmPlan | None, str]:
        """The library and the config that it chooses."""
        if not self.plan.any_shape or not cast(GemmPlan, self.plan).configs:
            return None, ""
        library = cast(GemmPlan, self.plan)
        return library, choose(library, problem).name

    def _operands(
        self, left: npt.NDArray[Any], right: npt.NDArray[Any], source: npt.NDArray[Any] | None, problem: Problem
    ) -> Operands:
        a, b, d = self.plan.operand("A"), self.plan.operand("B"), self.plan.epilogue
        k, columns = problem.k, self.plan.facts.columns_of_element
        return Operands(
            _laid_out(left, a.element.word, problem.m, k, a.contiguous_k, problem.batch),
            _laid_out(right.swapaxes(-1, -2), b.element.word, problem.n, -(-k // b.group), b.contiguous_k, problem.batch),
            None if source is None else _laid_out(source, d.out.word, problem.m, problem.n, d.major == "N", problem.batch),
            empty(d.out.word, problem.m, problem.n // columns, problem.batch, d.major == "N", 0, 0),
        )

    def _further(self, problem: Problem, given: Mapping[str, Any]) -> dict[str, Any]:
        """The further arguments in memory, as fields of Operands."""
        wanted = self.plan.arguments
        check_names(wanted, given)
        numbers = {one.name: given.get(one.name, one.default) for one in wanted.numbers}
        made = further_matrices(self.plan, problem, numbers, packed=True)
        for one in wanted.tensors:
            if given.get(one.name) is None:
                del made[one.name]
                continue
            value, matrix = np.asarray(given[one.name]), made[one.name]
            if value.dtype != matrix.view.dtype:
                raise ArgumentError(one.name, f"its elements are {value.dtype}; this kernel takes {matrix.view.dtype}")
            shape = matrix.view.shape[1:]
            if value.ndim and shape[0] == 1 and value.shape[-2:] != shape:
                value = value[..., None, :]
            if value.shape[-2:] != shape or value.ndim > 3 or (value.ndim == 3 and value.shape[0] not in (1, matrix.batch)):
                raise ArgumentError(one.name, f"shape {np.shape(given[one.name])}; it is {one.shape_text}, here {shape}")
            matrix.view[...] = value
        return {"further": made, "numbers": numbers}

    def _multiply(self, task: Task, data: Operands) -> npt.NDArray[Any]:
        if task.library:
            task = _of_config(task)
        try:
            _, reports = multiply(task, data)
        except (EmulationError, HostError) as error:
            raise RunError(f"{self.plan.name}: {error}") from None
        if findings := [str(finding) for report in reports for finding in report.findings]:
            raise RunError(f"{self.plan.name}: {'; '.join(findings)}")
        return np.ascontiguousarray(data.d.view)


def _of_config(task: Task) -> Task:
    """The task with the plan of its config, which says how many steps a thread takes."""
    assert task.library
    return replace(task, plan=next(one.plan for one in task.library.configs if one.name == task.config))


def _array(argument: str, value: Any, word: str) -> npt.NDArray[Any]:
    """A matrix or a batch of them, of the kernel's type."""
    found = np.asarray(value)
    kind = storage(word)
    if found.dtype != kind:
        raise ArgumentError(argument, f"its elements are {found.dtype}; this kernel takes {kind}")
    if found.ndim not in (2, 3):
        raise ArgumentError(argument, f"shape {found.shape}: a matrix or a batch of matrices has 2 or 3 dimensions")
    return found


def _laid_out(values: npt.NDArray[Any], word: str, rows: int, columns: int, columns_contiguous: bool, batch: int) -> Matrix:
    """The values in memory as the kernel has them."""
    matrix = empty(word, rows, columns, batch, columns_contiguous, 0, 0)
    matrix.view[...] = values
    return matrix
