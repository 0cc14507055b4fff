"""Groups with matrices of their own: one call for all of them, each judged as a problem of a plain GEMM.

Every matrix is an allocation of its own, with a leading dimension of its own, so that what belongs to another group or to a
larger extent is seen as an access out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.emulate import GlobalMemory, Report
from mmagen.host_runtime.arguments import argument_bytes
from mmagen.plan.arguments import Arguments
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.plan.operations import columns_of_element
from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.compare import compare, compare_tensor
from mmagen.verify.emulated.findings import with_findings
from mmagen.verify.emulated.formats import decode, storage
from mmagen.verify.emulated.groups import GROUPS
from mmagen.verify.emulated.host import WORKSPACE_ALIGNMENT, Workspace
from mmagen.verify.emulated.matrices import draw_of, further_matrices
from mmagen.verify.emulated.matrix import Draw, Matrix, Operands, empty, put, put_source, values
from mmagen.verify.emulated.parts import Interval, parts_of
from mmagen.verify.emulated.task import Task

_ALIGNED = 16  # elements: a multiple of 16 bytes for every type
_LETTERS = "abcd"
_WITH_K = ("a", "b", "scale_a", "scale_b")  # not read where K is 0


@dataclass(frozen=True)
class _Place:
    """Where C or D of a group lies: does it begin at a multiple of 16 bytes, and do its lines? TMA needs both."""

    begin: bool
    lines: bool

    def matrix(
        self, word: str, rows: int, columns: int, columns_contiguous: bool, *, more: int, pad: int = 0, offset: int = 0
    ) -> Matrix:
        """Memory for it. more: so many times 16 elements are added to aligned lines; pad: elements between lines that are not
        aligned, or one more; offset: elements before a matrix whose pointer is not aligned."""
        line = columns if columns_contiguous else rows
        vector = VECTOR_BYTES // storage(word).itemsize
        between = -line % _ALIGNED + more * _ALIGNED if self.lines else pad + ((line + pad) % vector == 0)
        return empty(word, rows, columns, 1, columns_contiguous, between, 0 if self.begin else offset)


_FOR_TMA, _ANYWHERE = _Place(begin=True, lines=True), _Place(begin=False, lines=False)
_LINES_ANYWHERE, _BEGINS_ANYWHERE = _Place(begin=True, lines=False), _Place(begin=False, lines=True)
# Those of C and D, by the group's number modulo 8. TMA loads C if C is aligned, and stores D if D is.
_PLACES = (
    (_FOR_TMA, _FOR_TMA),
    (_ANYWHERE, _ANYWHERE),
    (_BEGINS_ANYWHERE, _FOR_TMA),
    (_FOR_TMA, _BEGINS_ANYWHERE),
    (_FOR_TMA, _FOR_TMA),
    (_LINES_ANYWHERE, _BEGINS_ANYWHERE),
    (_FOR_TMA, _LINES_ANYWHERE),
    (_ANYWHERE, _FOR_TMA),
)


@dataclass(frozen=True)
class Group:
    """One group of a problem. problem: that of a plain GEMM, K at least 1; None where nothing is written. shared: further tensors
    that all groups have in common."""

    number: int
    shape: tuple[int, int, int]
    problem: Problem | None
    data: Operands | None
    shared: Mapping[str, Matrix] = field(default_factory=dict)

    def name(self, letter: str) -> str:
        """Of the allocation of a matrix."""
        return f"{letter} of group {self.number}"

    @property
    def matrices(self) -> dict[str, Matrix]:
        """Those that a call passes: of a K of 0 no A and B, and no scales."""
        given = self.data.matrices if self.data else {}
        return {name: one for name, one in given.items() if self.shape[2] or name not in _WITH_K}


def plan_of_group(plan: ProductPlan) -> ProductPlan:
    """The plan of the product of one group: its tensors are those of a single matrix."""
    tensors = (replace(one, of_groups=False) for one in plan.arguments.tensors if one.part != GROUPS.name)
    return replace(plan, arguments=Arguments(tuple(tensors)))


def shared_by_groups(plan: ProductPlan) -> Arguments:
    """Tensors of which there is one for all groups."""
    return Arguments(tuple(one for one in plan.arguments.tensors if one.part != GROUPS.name and not one.of_groups))


def groups_of(task: Task) -> list[Group]:
    """The groups of a task's problem, with inputs drawn for each."""
    plan, problem = task.product, task.problem
    assert problem.groups
    rng = np.random.default_rng(task.seed)
    shared = _further(replace(plan, arguments=shared_by_groups(plan)), problem, task.distribution, rng)
    found = []
    for number, shape in enumerate(problem.groups.shapes(problem.n, problem.k)):
        m, n, k = shape
        if not m or not n:
            found.append(Group(number, shape, None, None, shared))
            continue
        # The padding and the offset are those of further tensors.
        pad, offset = number % 3, number % 2
        own = Problem(shape=(m, n, max(k, 1)), alpha=problem.alpha, beta=problem.beta, ld_pad=pad, offset=offset)
        draw = draw_of(plan, own, task.distribution)
        data = _operands(plan, own, draw if k else replace(draw, distribution="zeros"), rng, number, problem.ld_pad)
        if data.c:
            put_source(data.c, rng, task.distribution)
        of_one = plan_of_group(replace(plan, arguments=Arguments(plan.arguments.of_groups)))
        data = replace(data, further=_further(of_one, own, task.distribution, rng) | shared)
        found.append(Group(number, shape, own, data, shared))
    return found


def _further(plan: ProductPlan, problem: Problem, distribution: str, rng: np.random.Generator) -> dict[str, Matrix]:
    """The further tensors of a plan, filled."""
    made = further_matrices(plan, problem, {})
    nothing = empty("f32", 1, 1, 1, True, 0, 0)
    for part in parts_of(plan):
        part.fill(plan, problem, draw_of(plan, problem, distribution), Operands(nothing, nothing, None, nothing, made), rng)
    return made


def aligned(word: str, rows: int, columns: int, columns_contiguous: bool, more: int = 0) -> Matrix:
    """Memory for a matrix whose lines begin at multiples of 16 elements. more: by so many times 16 elements they are longer."""
    return _FOR_TMA.matrix(word, rows, columns, columns_contiguous, more=more)


def _operands(plan: ProductPlan, problem: Problem, draw: Draw, rng: np.random.Generator, group: int, pad: int) -> Operands:
    """A and B as TMA needs them, C and D as _PLACES says."""
    m, n, k = problem.shape
    out, row_major = plan.epilogue.out.word, plan.epilogue.row_major
    columns = n // columns_of_element(plan.epilogue.operations)

    a, b = plan.operand("A"), plan.operand("B")
    found_a = aligned(a.element.word, m, k, a.contiguous_k, group % 3)
    found_b = aligned(b.element.word, n, k, b.contiguous_k, 1 + group % 2)
    of_c, of_d = _PLACES[group % len(_PLACES)]
    c = of_c.matrix(out, m, n, row_major, more=2 + group % 3, pad=pad + 5 + group % 3, offset=3) if problem.beta else None
    d = of_d.matrix(out, m, columns, row_major, more=group % 4, pad=pad + group % 4, offset=1)
    put(found_a, rng, draw, draw.reach[0], draw.group)
    put(found_b, rng, draw, draw.reach[1], 1)
    return Operands(found_a, found_b, c, d)


def judge(task: Task) -> dict[str, Any]:
    """Emulates the call and judges every group: the outcome for the record. Raises EmulationError and HostError."""
    groups = groups_of(task)
    return judged(task, groups, multiply(task, groups), [0] * len(groups))


def judged(task: Task, groups: Sequence[Group], written: Written, statuses: Sequence[int]) -> dict[str, Any]:
    """The outcome for the record. statuses: that the groups must have; nothing may be written of those that are not 0."""
    plan, shared = plan_of_group(task.product), shared_by_groups(task.product).tensors
    may: dict[str, Interval] = {}
    outcome: dict[str, Any] = {"max_abs_err": 0.0, "max_rel_err": 0.0, "bound": 0.0, "disposition": "passed", "reason": None}
    wrong = ""
    for one, status in zip(groups, statuses, strict=True):
        if not one.problem or not one.data:
            continue
        if status:
            if not wrong and written.bytes_of_d[one.number].any():
                wrong = f"D of group {one.number}, which is to be skipped with status {status}, was written"
            continue
        names = [tensor.name for tensor in shared]
        found = compare(plan, one.problem, one.data, written.bytes_of_d[one.number], task.distribution, names)
        may |= {name: _largest(may.get(name, own), own) for name, own in found.shared.items()}
        if found.max_abs_err >= outcome["max_abs_err"] and (not wrong or found.reason):
            outcome |= {"max_abs_err": found.max_abs_err, "max_rel_err": found.max_rel_err, "bound": found.bound}
        if found.reason and not wrong:
            wrong = f"group {one.number}, {'x'.join(map(str, one.shape))}: {found.reason}"
    for tensor in shared:
        before, got = values(groups[0].shared[tensor.name]), written.shared[tensor.name]
        other = compare_tensor(tensor.name, may.get(tensor.name, Interval(before, before, before)), tensor.element.word, got)
        wrong = wrong or other.reason
    if not wrong and written.statuses != tuple(statuses):
        wrong = f"group_status is {list(written.statuses)}, not {list(statuses)}"
    return outcome | with_findings(wrong, written.reports)


def _largest(one: Interval, other: Interval) -> Interval:
    """Of a tensor that all groups raise, each from what it held before the call."""
    return Interval(*(np.maximum(getattr(one, end), getattr(other, end)) for end in ("low", "expected", "high")))


@dataclass(frozen=True)
class Written:
    """What a call wrote: D of each group that has one, with which of its bytes were stored, and a status for each group. shared:
    what tensors hold then that all groups share."""

    bytes_of_d: dict[int, npt.NDArray[Any]]
    statuses: tuple[int, ...]
    reports: list[Report]
    shared: dict[str, npt.NDArray[Any]]


def multiply(
    task: Task,
    groups: Sequence[Group],
    change: Callable[[GlobalMemory, dict[str, int | float]], None] = lambda memory, values: None,
) -> Written:
    """Emulates one call, which fills the D of each group. change: called before it, with device memory and the
    call's members, which it may change. Raises EmulationError and HostError."""
    memory, values = allocated(task, groups)
    change(memory, values)
    reports = run(task, memory, values)
    stored = {}
    for group in groups:
        if group.data:
            lines, stored[group.number] = memory.read_rows(group.name("d"))
            d = group.data.d
            d.lines[...] = lines.view(d.view.dtype).reshape(d.lines.shape)
            for one in task.product.arguments.of_groups:
                if one.written:
                    matrix, (found, bytes_of_it) = group.data.further[one.name], memory.read_rows(group.name(one.name))
                    group.data.results[one.name] = found.view(matrix.view.dtype).reshape(matrix.lines.shape), bytes_of_it
    after = {}
    for name, matrix in groups[0].shared.items():
        found, _ = memory.read_rows(name)
        after[name] = decode(found.view(matrix.view.dtype).reshape(matrix.lines.shape))
    return Written(stored, tuple(memory.read("group_status", np.int32).tolist()), reports, after)


def run(task: Task, memory: GlobalMemory, values: Mapping[str, int | float]) -> list[Report]:
    """What was seen in the launches of the call with these members, given a workspace, up to the first that does not end."""
    arguments = argument_bytes(values, task.product.arguments.members)
    size = host.bytes_of_workspace(task, arguments)
    workspace = Workspace(memory.allocate("workspace", b"\xff" * size, misalign=WORKSPACE_ALIGNMENT), size)
    given = {**values, "workspace": workspace.address, "workspace_bytes": workspace.size}
    arguments = argument_bytes(given, task.product.arguments.members)
    reports: list[Report] = []
    for one in host.launches_of_call(task, arguments):
        reports.append(host.emulate(task, one, memory, host.multiply_steps(task, one)))
        if not reports[-1].completed:
            break
    return reports


def allocated(task: Task, groups: Sequence[Group]) -> tuple[GlobalMemory, dict[str, int | float]]:
    """Device memory with the matrices and arrays of all groups, and the members of the call's struct. Of a group without rows
    or columns the pointers point nowhere."""
    problem, memory = task.problem, GlobalMemory()
    of_groups = {one.name: one for one in task.product.arguments.of_groups}
    names = (*_LETTERS, *of_groups)
    pointers = {name: np.full(len(groups), 0x10, np.uint64) for name in names}
    pitches = {name: np.full(len(groups), -1, np.int32) for name in names}
    for group in groups:
        for name in names if group.data and not group.shape[2] else ():
            pointers[name][group.number] = 0 if name in _WITH_K else 0x10
        for name, matrix in group.matrices.items():
            if name not in names:
                continue
            rows, of_group = matrix.rows_of_memory, group.name(name)
            if name == "d":
                address = memory.allocate(of_group, size=len(matrix.memory), rows=rows)
            else:
                updated = name in of_groups and of_groups[name].written
                address = memory.allocate(of_group, matrix.memory, writable=updated, rows=rows)
            pointers[name][group.number] = address + matrix.offset * matrix.view.itemsize
            pitches[name][group.number] = matrix.ld
    m, n, k = problem.shape
    members: dict[str, int | float] = {"m": m, "n": n, "k": k, "batch": len(groups)}
    read: dict[str, npt.NDArray[Any]] = {letter: pointers[letter] for letter in _LETTERS if letter != "c" or problem.beta}
    read |= {f"group_ld{letter}": pitches[letter] for letter in tuple(read)}
    read |= {name: pointers[name] for name in of_groups}
    read |= {f"group_ld_{name}": pitches[name] for name, one in of_groups.items() if one.pitched}
    read |= {f"group_{mode}": np.array([one.shape[i] for one in groups], np.int32) for i, mode in enumerate("mnk")}
    members |= {name: memory.allocate(name, array, writable=False) for name, array in read.items()}
    for name, matrix in groups[0].shared.items():
        address = memory.allocate(name, matrix.memory, rows=matrix.rows_of_memory)
        members[name] = address + matrix.offset * matrix.view.itemsize
    members["group_status"] = memory.allocate("group_status", size=4 * len(groups))
    scalars = host.scalars_in_memory(task, memory)
    for name in ("alpha", "beta"):
        device = scalars.get(f"{name}_device", 0)
        members |= {name: float("nan") if device else float(getattr(problem, name)), f"{name}_device": device}
    return memory, members
