"""A kernel on numpy arrays, without a GPU: its own host code and PTX in the emulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mmagen.binding.errors import ArgumentError
from mmagen.binding.further import check_names
from mmagen.binding.groups import check_extents, listed
from mmagen.binding.rows import TMA_ELEMENTS, count_and_batch, sizes_of
from mmagen.binding.scalars import number
from mmagen.binding.sparse import Compressed
from mmagen.binding.tile import check_tile
from mmagen.binding.written import check_written
from mmagen.build.ptx import Ptx, compile_ptx
from mmagen.core.errors import BuildError, RunError
from mmagen.emulate import EmulationError, Report
from mmagen.families.library import choose
from mmagen.host_runtime.library import HostError
from mmagen.plan.arguments import Arguments
from mmagen.plan.plans import GemmPlan, ProductPlan
from mmagen.spec.model import Problem
from mmagen.toolchain.find import EMULATE, find_toolchain
from mmagen.verify.emulated.formats import storage
from mmagen.verify.emulated.matrices import further_matrices
from mmagen.verify.emulated.matrix import Matrix, Operands, empty
from mmagen.verify.emulated.pointers import Group, Written, aligned, shared_by_groups
from mmagen.verify.emulated.pointers import multiply as multiply_groups
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.task import Task

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Emulated:
    """plan: of the project in the folder that `project` returns: it writes the project again if the cache was cleared."""

    plan: ProductPlan
    project: Callable[[], Path]

    @cached_property
    def _ptx(self) -> Ptx:
        ptx = compile_ptx(self.project(), find_toolchain(want=EMULATE))
        if ptx.error:
            raise BuildError(f"{self.plan.name} does not compile: {ptx.error}")
        return ptx

    def __call__(
        self, a: Any, b: Any, c: Any, alpha: float, beta: float, timeout_s: float | None, further: Mapping[str, Any]
    ) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        """See Kernel.emulate."""
        plan = self.plan
        if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
            raise ArgumentError("timeout_s", f"it is {timeout_s!r}; pass seconds, more than 0, or None")
        alpha, beta = (self._scalar(name, value) for name, value in (("alpha", alpha), ("beta", beta)))
        if plan.spec.grouped == "pointers":
            return self._of_groups(a, b, c, alpha, beta, timeout_s, further)
        compressed = a if isinstance(a, Compressed) else None
        left = _array("a", compressed.values if compressed else a, plan.operand("A").element.word)
        right = _array("b", b, plan.operand("B").element.word)
        m, columns_of_a = (compressed or left).shape[-2:]
        k = columns_of_a * plan.facts.packed_a
        if -(-k // plan.facts.packed_b) != right.shape[-2]:
            packed = f", {plan.facts.packed_b} to an element of b" if plan.facts.packed_b > 1 else ""
            raise ArgumentError("b", f"shape {right.shape}: {right.shape[-2]} rows, but a has {k} columns{packed}")
        source = None
        if beta != 0:
            if c is None:
                raise ArgumentError("c", "it is None, but beta is not 0; pass an array, or beta=0")
            source = _array("c", c, plan.epilogue.out.word)
        n = right.shape[-1]
        columns = plan.facts.columns_of_element
        if n % columns:
            raise ArgumentError("b", f"{n} columns: each element of D is made of two; pass an even number")
        if source is not None and source.shape[-2:] != (m, n):
            raise ArgumentError("c", f"shape {source.shape}: a @ b is ({m},{n})")
        operands = {"a": left, "b": right} | ({} if source is None else {"c": source})
        counts = [(name, one.shape[0] if one.ndim == 3 else None) for name, one in operands.items()]
        count, batch = count_and_batch(
            sizes_of(plan.arguments), plan.arguments, further, counts, lambda _, value: np.shape(value)
        )
        check_tile(plan.facts.description, {"m": m, "n": n, "k": k, "batch": count}, alpha, beta)
        if 0 in (m, n, count):
            return np.zeros((*(() if batch is None else (batch,)), m, n // columns), storage(plan.epilogue.out.word))
        if k == 0:
            raise ArgumentError("a", f"shape {left.shape}: a K of 0 is not emulated; on a GPU such a call writes beta * c")
        problem = Problem(shape=(m, n, k), batch=count, alpha=alpha, beta=beta)
        data = replace(self._operands(left, right, source, problem), **self._further(problem, further))
        arrays = [*operands.items(), *((one.name, further[one.name]) for one in plan.arguments.tensors if one.name in further)]
        arrays = [(name, array) for name, array in arrays if array is not None]
        check_written(arrays, [one.name for one in plan.arguments.tensors if one.written])
        task = Task(plan, self._ptx, problem, "given", 1, *self._config(problem), timeout_s=timeout_s)
        found = self._multiply(task, data)
        for name, (lines, _) in data.results.items():
            matrix = data.further[name]
            further[name][...] = (lines if matrix.columns_contiguous else lines.swapaxes(1, 2)).reshape(further[name].shape)
        return found[0] if batch is None else found

    def _scalar(self, name: str, value: Any) -> float:
        """alpha or beta. Raises ArgumentError."""
        found = number(name, value)
        if found is None:
            array = np.asarray(value)
            if array.size != 1 or array.dtype.kind not in "iuf":
                raise ArgumentError(name, f"it is {repr(value)[:60]}; pass a number, or an array of one")
            found = float(array.reshape(()))
        if self.plan.epilogue.scalar.word == "s32" and not found.is_integer():
            raise ArgumentError(name, f"it is {found:g}; this kernel takes an integer")
        if not math.isfinite(found):
            raise ArgumentError(name, f"it is {found:g}; finite numbers are emulated")
        return found

    def _of_groups(
        self, a: Any, b: Any, c: Any, alpha: float, beta: float, timeout_s: float | None, further: Mapping[str, Any]
    ) -> list[npt.NDArray[Any]]:
        """Of lists of matrices, one for each group."""
        plan, epilogue = self.plan, self.plan.epilogue
        shared = shared_by_groups(plan)
        check_names(Arguments((*plan.arguments.of_groups, *shared.all)), further)
        words = {"a": plan.operand("A").element.word, "b": plan.operand("B").element.word, "c": epilogue.out.word}
        given = {"a": listed("a", a), "b": listed("b", b)} | ({"c": listed("c", c)} if beta != 0 else {})
        given |= {one.name: listed(one.name, further[one.name]) for one in plan.arguments.of_groups}
        common = self._filled(shared, Problem(shape=(1, 1, 1)), {one.name: further[one.name] for one in shared.all})
        for name, arrays in given.items():
            if len(arrays) != len(given["a"]):
                raise ArgumentError(name, f"{len(arrays)} arrays, but a has {len(given['a'])}; pass one for each group")
        arrays = [(f"{name}[{i}]", array) for name, listing in given.items() for i, array in enumerate(listing)]
        arrays += [(one.name, further[one.name]) for one in shared.all if further.get(one.name) is not None]
        written = {one.name for one in (*plan.arguments.of_groups, *shared.tensors) if one.written}
        check_written(arrays, [name for name, _ in arrays if name.partition("[")[0] in written])
        groups = []
        for i in range(len(given["a"])):
            one = {name: _array(f"{name}[{i}]", given[name][i], word) for name, word in words.items() if name in given}
            check_extents(i, one["a"].shape, one["b"].shape, one["c"].shape if "c" in one else None)
            tensors = {tensor.name: given[tensor.name][i] for tensor in plan.arguments.of_groups}
            groups.append(self._group(i, one, tensors, common))
        if not groups:
            return []
        shapes = [group.shape for group in groups]
        most = [max(1, *(shape[mode] for shape in shapes)) for mode in range(3)]
        problem = Problem.model_validate({"shape": most, "groups": [list(one) for one in shapes], "alpha": alpha, "beta": beta})
        task = Task(plan, self._ptx, problem, "given", 1, timeout_s=timeout_s)
        done: list[Written] = []

        def emulate() -> list[Report]:
            done.append(multiply_groups(task, groups))
            return done[0].reports

        self._without_findings(emulate)
        for name, found in done[0].shared.items():
            further[name][...] = found.reshape(further[name].shape)
        for group in groups:
            for name, (lines, _) in (group.data.results if group.data else {}).items():
                further[name][group.number][...] = lines.reshape(further[name][group.number].shape)
        kind, pair = storage(epilogue.out.word), plan.facts.columns_of_element
        empty_d = [np.zeros((one.shape[0], one.shape[1] // pair), kind) for one in groups]
        return [np.ascontiguousarray(one.data.d.view[0]) if one.data else d for one, d in zip(groups, empty_d, strict=True)]

    def _group(
        self, number: int, given: Mapping[str, npt.NDArray[Any]], tensors: Mapping[str, Any], shared: Mapping[str, Matrix]
    ) -> Group:
        (m, k), n = given["a"].shape, given["b"].shape[1]
        if n % self.plan.facts.columns_of_element:
            raise ArgumentError(f"b[{number}]", f"{n} columns: each element of D is made of two; pass an even number")
        if not m or not n:
            return Group(number, (m, n, k), None, None, shared)
        a, b, d = self.plan.operand("A"), self.plan.operand("B"), self.plan.epilogue
        found = [
            aligned(a.element.word, m, max(k, 1), a.contiguous_k),
            aligned(b.element.word, n, max(k, 1), b.contiguous_k),
        ]
        for matrix, values in zip(found, (given["a"], given["b"].T), strict=True):
            matrix.view[0, :, :k] = values
        source = _laid_out(given["c"], d.out.word, m, n, d.major == "N", 1) if "c" in given else None
        own, columns = Problem(shape=(m, n, max(k, 1))), n // self.plan.facts.columns_of_element
        read = {name: value for name, value in tensors.items() if k or not name.startswith("scale_")}
        further = self._filled(Arguments(self.plan.arguments.of_groups), own, read, f"[{number}]")
        data = Operands(
            found[0], found[1], source, empty(d.out.word, m, columns, 1, d.major == "N", 0, 0), {**further, **shared}
        )
        return Group(number, (m, n, k), own, data, shared)

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
        sizes = sizes_of(self.plan.arguments)
        batch = 1 if sizes and sizes.stacked else problem.batch  # of rows: one matrix has those of all groups
        tma = TMA_ELEMENTS if sizes else 1
        return Operands(
            _laid_out(left, a.element.word, problem.m, left.shape[-1], a.contiguous_k, batch, tma),
            _laid_out(right.swapaxes(-1, -2), b.element.word, problem.n, -(-k // b.group), b.contiguous_k, problem.batch, tma),
            None if source is None else _laid_out(source, d.out.word, problem.m, problem.n, d.major == "N", batch),
            empty(d.out.word, problem.m, problem.n // columns, batch, d.major == "N", 0, 0),
        )

    def _further(self, problem: Problem, given: Mapping[str, Any]) -> dict[str, Any]:
        """The further arguments in memory, as fields of Operands."""
        wanted = self.plan.arguments
        check_names(wanted, given)
        numbers = {one.name: given.get(one.name, one.default) for one in wanted.numbers}
        return {"further": self._filled(wanted, problem, given, numbers=numbers), "numbers": numbers}

    def _filled(
        self, wanted: Arguments, problem: Problem, given: Mapping[str, Any], index: str = "", numbers: Mapping[str, Any] = _NONE
    ) -> dict[str, Matrix]:
        """The tensors in memory, with what is given. index: behind names in errors."""
        made = further_matrices(replace(self.plan, arguments=wanted), problem, numbers, packed=True)
        for one in wanted.tensors:
            if given.get(one.name) is None:
                del made[one.name]
                continue
            name, value, matrix = f"{one.name}{index}", np.asarray(given[one.name]), made[one.name]
            if value.dtype != matrix.view.dtype:
                raise ArgumentError(name, f"its elements are {value.dtype}; this kernel takes {matrix.view.dtype}")
            shape = matrix.view.shape[1:]
            if value.ndim and shape[0] == 1 and value.shape[-2:] != shape:
                value = value[..., None, :]
            if value.ndim == 3 and value.shape[1:] == shape and value.shape[0] not in (1, matrix.batch):
                raise ArgumentError(
                    name, f"it has {value.shape[0]} matrices, the call {matrix.batch}; pass as many, or one for all"
                )
            if value.shape[-2:] != shape or value.ndim > 3 or (value.ndim == 3 and value.shape[0] not in (1, matrix.batch)):
                raise ArgumentError(name, f"shape {np.shape(given[one.name])}; it is {one.shape_text}, here {shape}")
            matrix.view[...] = value
        return made

    def _multiply(self, task: Task, data: Operands) -> npt.NDArray[Any]:
        if task.library:
            task = _of_config(task)
        done: list[npt.NDArray[Any]] = []

        def emulate() -> list[Report]:
            written, reports = multiply(task, data)
            done.append(written)
            return reports

        self._without_findings(emulate)
        if sizes_of(task.product.arguments):  # rows of no group
            data.d.lines[...] = np.where(_elements(done[0], data.d), data.d.lines, data.d.lines.dtype.type(0))
        return np.ascontiguousarray(data.d.view)

    def _without_findings(self, emulate: Callable[[], Sequence[Report]]) -> None:
        """Emulates, and raises RunError for whatever is found."""
        try:
            reports = emulate()
        except (EmulationError, HostError) as error:
            raise RunError(f"{self.plan.name}: {error}") from None
        if findings := [str(finding) for report in reports for finding in report.findings]:
            raise RunError(f"{self.plan.name}: {'; '.join(findings)}")


def _of_config(task: Task) -> Task:
    """The task with the plan of its config, which says how many steps a thread takes."""
    assert task.library
    return replace(task, plan=next(one.plan for one in task.library.configs if one.name == task.config))


def _array(argument: str, value: Any, word: str) -> npt.NDArray[Any]:
    """A matrix or a batch of them, of the kernel's type."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(argument, "it has a mask, which a kernel cannot apply; pass an array without one")
    if value is None:
        raise ArgumentError(argument, "it is None; pass an array")
    found = np.asarray(value)
    kind = storage(word)
    if found.dtype != kind:
        raise ArgumentError(argument, f"its elements are {found.dtype}; this kernel takes {kind}")
    if found.ndim not in (2, 3):
        raise ArgumentError(argument, f"shape {found.shape}: a matrix or a batch of matrices has 2 or 3 dimensions")
    return found


def _laid_out(
    values: npt.NDArray[Any], word: str, rows: int, columns: int, columns_contiguous: bool, batch: int, multiple: int = 1
) -> Matrix:
    """The values in memory as the kernel has them. multiple: of elements, from the begin of one line to that of the next."""
    pad = -(columns if columns_contiguous else rows) % multiple
    matrix = empty(word, rows, columns, batch, columns_contiguous, pad, 0)
    matrix.view[...] = values
    return matrix


def _elements(written: npt.NDArray[Any], matrix: Matrix) -> npt.NDArray[np.bool_]:
    """Which elements were written, in the order of `lines`. written: which of their bytes."""
    bytes_of_each = written.reshape(*matrix.lines.shape, -1)
    return np.asarray(bytes_of_each.all(axis=-1))
