"""Groups with matrices of their own: one call for all of them, each judged as a problem of a plain GEMM.

Every matrix is an allocation of its own, with a leading dimension of its own, so that what belongs to another group or to a
larger extent is seen as an access out of bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.emulate import GlobalMemory, Report
from mmagen.host_runtime.arguments import argument_bytes
from mmagen.plan.arguments import NO_ARGUMENTS
from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.compare import compare
from mmagen.verify.emulated.findings import with_findings
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import draw_of
from mmagen.verify.emulated.matrix import Draw, Matrix, Operands, empty, put, put_source
from mmagen.verify.emulated.task import Task

_ALIGNED = 16  # elements: a multiple of 16 bytes for every type
_LETTERS = "abcd"


@dataclass(frozen=True)
class Group:
    """One group of a problem. problem: that of a plain GEMM, K at least 1; None where nothing is written. k: of the call."""

    number: int
    shape: tuple[int, int, int]
    problem: Problem | None
    data: Operands | None

    def name(self, letter: str) -> str:
        """Of the allocation of a matrix."""
        return f"{letter} of group {self.number}"

    @property
    def matrices(self) -> dict[str, Matrix]:
        """Those that a call passes: of a K of 0 no A and B."""
        given = self.data.matrices if self.data else {}
        return {letter: one for letter, one in given.items() if self.shape[2] or letter not in "ab"}


def groups_of(task: Task) -> list[Group]:
    """The groups of a task's problem, with inputs drawn for each."""
    plan, problem = task.product, task.problem
    assert problem.groups
    rng = np.random.default_rng(task.seed)
    found = []
    for number, shape in enumerate(problem.groups.shapes(problem.n, problem.k)):
        m, n, k = shape
        if not m or not n:
            found.append(Group(number, shape, None, None))
            continue
        own = Problem(shape=(m, n, max(k, 1)), alpha=problem.alpha, beta=problem.beta)
        draw = draw_of(plan, own, task.distribution)
        data = _operands(plan, own, draw if k else replace(draw, distribution="zeros"), rng, number, problem.ld_pad)
        if data.c:
            put_source(data.c, rng, task.distribution)
        found.append(Group(number, shape, own, data))
    return found


def aligned(word: str, rows: int, columns: int, columns_contiguous: bool, more: int = 0) -> Matrix:
    """Memory for a matrix whose lines begin at multiples of 16 elements. more: by so many times 16 elements they are longer."""
    line = columns if columns_contiguous else rows
    whole = -(-line // _ALIGNED) * _ALIGNED + more * _ALIGNED
    return empty(word, rows, columns, 1, columns_contiguous, whole - line, 0)


def _operands(plan: ProductPlan, problem: Problem, draw: Draw, rng: np.random.Generator, group: int, pad: int) -> Operands:
    """A and B as TMA needs them. Of every other group C and D begin and have lines anywhere."""
    m, n, k = problem.shape
    out, row_major = plan.epilogue.out.word, plan.epilogue.row_major
    odd = group % 2

    a, b = plan.operand("A"), plan.operand("B")
    found_a = aligned(a.element.word, m, k, a.contiguous_k, group % 3)
    found_b = aligned(b.element.word, n, k, b.contiguous_k, 1 + group % 2)
    if odd:
        c = empty(out, m, n, 1, row_major, pad + 5 + group % 3, 3) if problem.beta else None
        d = empty(out, m, n, 1, row_major, pad + group % 4, 1)
    else:
        c = aligned(out, m, n, row_major, 2 + group % 3) if problem.beta else None
        d = aligned(out, m, n, row_major, group % 4)
    put(found_a, rng, draw, draw.reach[0], draw.group)
    put(found_b, rng, draw, draw.reach[1], 1)
    return Operands(found_a, found_b, c, d)


def judge(task: Task) -> dict[str, Any]:
    """Emulates the call and judges every group: the outcome for the record. Raises EmulationError and HostError."""
    groups = groups_of(task)
    written = multiply(task, groups)
    plan = replace(task.product, arguments=NO_ARGUMENTS)
    outcome: dict[str, Any] = {"max_abs_err": 0.0, "max_rel_err": 0.0, "bound": 0.0, "disposition": "passed", "reason": None}
    wrong = ""
    for one in groups:
        if not one.problem or not one.data:
            continue
        found = compare(plan, one.problem, one.data, written.bytes_of_d[one.number], task.distribution)
        if found.max_abs_err >= outcome["max_abs_err"] and (not wrong or found.reason):
            outcome |= {"max_abs_err": found.max_abs_err, "max_rel_err": found.max_rel_err, "bound": found.bound}
        if found.reason and not wrong:
            wrong = f"group {one.number}, {'x'.join(map(str, one.shape))}: {found.reason}"
    if not wrong and any(written.statuses):
        wrong = f"group_status is {list(written.statuses)}, not 0 for each group"
    return outcome | with_findings(wrong, written.reports)


@dataclass(frozen=True)
class Written:
    """What a call wrote: D of each group that has one, with which of its bytes were stored, and a status for each group."""

    bytes_of_d: dict[int, npt.NDArray[Any]]
    statuses: tuple[int, ...]
    reports: list[Report]


def multiply(task: Task, groups: Sequence[Group]) -> Written:
    """Emulates one call, which fills the D of each group. Raises EmulationError and HostError."""
    memory, values = allocated(task, groups)
    reports = run(task, memory, values)
    stored = {}
    for group in groups:
        if group.data:
            lines, stored[group.number] = memory.read_rows(group.name("d"))
            d = group.data.d
            d.lines[...] = lines.view(d.view.dtype).reshape(d.lines.shape)
    return Written(stored, tuple(memory.read("group_status", np.int32).tolist()), reports)


def run(task: Task, memory: GlobalMemory, values: Mapping[str, int | float]) -> list[Report]:
    """What was seen in the launches of the call with these members, given a workspace, up to the first that does not end."""
    arguments = argument_bytes(values, task.product.arguments.members)
    size = host.bytes_of_workspace(task, arguments)
    workspace = Workspace(memory.allocate("workspace", b"\xff" * size), size)
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
    pointers = {letter: np.full(len(groups), 0x10, np.uint64) for letter in _LETTERS}
    pitches = {letter: np.full(len(groups), -1, np.int32) for letter in _LETTERS}
    for group in groups:
        for letter in "ab" if group.data and not group.shape[2] else "":
            pointers[letter][group.number] = 0
        for letter, matrix in group.matrices.items():
            rows, name = matrix.rows_of_memory, group.name(letter)
            if letter == "d":
                address = memory.allocate(name, size=len(matrix.memory), rows=rows)
            else:
                address = memory.allocate(name, matrix.memory, writable=False, rows=rows)
            pointers[letter][group.number] = address + matrix.offset * matrix.view.itemsize
            pitches[letter][group.number] = matrix.ld
    m, n, k = problem.shape
    values: dict[str, int | float] = {"m": m, "n": n, "k": k, "batch": len(groups)}
    read: dict[str, npt.NDArray[Any]] = {letter: pointers[letter] for letter in _LETTERS if letter != "c" or problem.beta}
    read |= {f"group_ld{letter}": pitches[letter] for letter in tuple(read)}
    read |= {f"group_{mode}": np.array([one.shape[i] for one in groups], np.int32) for i, mode in enumerate("mnk")}
    values |= {name: memory.allocate(name, array, writable=False) for name, array in read.items()}
    values["group_status"] = memory.allocate("group_status", size=4 * len(groups))
    scalars = host.scalars_in_memory(task, memory)
    for name in ("alpha", "beta"):
        device = scalars.get(f"{name}_device", 0)
        values |= {name: float("nan") if device else float(getattr(problem, name)), f"{name}_device": device}
    return memory, values
