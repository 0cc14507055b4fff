"""Verify a project's kernel on the CPU: emulate its PTX on small problems and judge what comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace

import numpy as np

import mmagen
from mmagen.build.ptx import Ptx
from mmagen.core.errors import ExitCode, UsageError
from mmagen.core.targets import capability
from mmagen.emulate import NEWEST, EmulationError, GlobalMemory, Report
from mmagen.families import family_of
from mmagen.families.instruction.model import InstructionPlan
from mmagen.families.library import choose
from mmagen.families.protocol import Plan
from mmagen.host_runtime.library import HostError
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.compare import compare
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import Operands, operands
from mmagen.verify.emulated.problems import small_problems
from mmagen.verify.emulated.task import Task
from mmagen.verify.run import RECORD_FIELDS, RunResult
from mmagen.verify.verdict import EMULATED


def tasks(
    plan: Plan, ptx: Ptx, problems: Sequence[Problem], seed: int, distribution: str | None, max_dim: int | None = None
) -> list[Task]:
    """Small integers for every problem, since there all is exact, and uniform inputs for the largest.

    max_dim: leaves out problems of its own with a larger extent. Raises UsageError for a problem that the kernel does not
    do, and when none is left.
    """
    if only_on_a_gpu(plan):
        return []
    if isinstance(plan, InstructionPlan):
        from mmagen.verify.emulated.instruction import distributions

        return [
            Task(plan, ptx, Problem(shape=plan.tile), one, seed)
            for one in ([distribution] if distribution else distributions(plan))
        ]
    if len(plan.by_config) > 1:
        return _library_tasks(plan, ptx, problems, seed, distribution, max_dim)
    for fault in family_of(plan).problem_faults(plan, problems):
        raise UsageError(f"{plan.name}: {fault.what}; {fault.remedy}")
    if plan.kernel == "ownership":
        return [Task(plan, ptx, Problem(shape=plan.tile), "stamps", seed)]
    chosen = tuple(problems) or tuple(p for p in small_problems(plan) if max(p.shape) <= (max_dim or max(p.shape)))
    if not chosen:
        raise UsageError(f"{plan.name}: --max-dim {max_dim} leaves no problem to run")
    if distribution:
        return [Task(plan, ptx, problem, distribution, seed) for problem in chosen]
    largest = max(chosen, key=_products)
    return [Task(plan, ptx, problem, "small_int", seed) for problem in chosen] + [Task(plan, ptx, largest, "uniform", seed)]


def only_on_a_gpu(plan: Plan) -> str:
    """Why nothing of it is emulated, or ""."""
    if plan.kernel == "peak":
        return "a peak can be measured on a GPU only"
    if isinstance(plan, InstructionPlan) and capability(plan.operation.arch) > NEWEST:
        return f"instructions newer than sm_{NEWEST}'s are not emulated; to run it needs {' or '.join(plan.arch)}"
    return ""


def _library_tasks(
    plan: Plan, ptx: Ptx, problems: Sequence[Problem], seed: int, distribution: str | None, max_dim: int | None
) -> list[Task]:
    """Each kernel on small problems of its own, whatever the rule of choice; problems that were asked for go by the rule."""
    work = []
    for config in plan.configs:
        own = [problem for problem in problems if choose(plan, problem) is config]
        if own or not problems:
            work += [
                replace(task, library=plan, config=config.name)
                for task in tasks(config.plan, ptx, own, seed, distribution, max_dim)
            ]
    return work


def _products(problem: Problem) -> int:
    return problem.m * problem.n * problem.k * problem.batch


def run_tasks(work: Sequence[Task], jobs: int, progress: Callable[[int, int, str], None]) -> list[RunResult]:
    """Emulate all tasks, `jobs` processes at a time; one RunResult for each, in order."""
    results: list[RunResult | None] = [None] * len(work)
    if jobs == 1 or len(work) == 1:
        for i, task in enumerate(work):
            progress(i, len(work), f"emulating {task.plan.name} {task.text}")
            results[i] = run_task(task)
        return [result for result in results if result]
    with ProcessPoolExecutor(jobs) as pool:
        # The longest first, so that none of them is left for the end.
        order = sorted(range(len(work)), key=lambda i: -_products(work[i].problem))
        waiting = {pool.submit(run_task, work[i]): i for i in order}
        try:
            for done, future in enumerate(as_completed(waiting), 1):
                results[waiting[future]] = future.result()
                task = work[waiting[future]]
                progress(done, len(work), f"emulated {task.plan.name} {task.text}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [result for result in results if result]


def run_task(task: Task) -> RunResult:
    """Emulate and judge one task. What the kernel does wrong, unsupported PTX included, is in the result."""
    start = time.monotonic()
    record = dict.fromkeys(RECORD_FIELDS) | _facts(task)
    try:
        outcome = _outcome(task)
    except (EmulationError, HostError) as error:
        outcome = {"disposition": "failed", "reason": str(error)}
    record |= outcome
    code = {"passed": ExitCode.OK, "incorrect": ExitCode.INCORRECT}.get(record["disposition"], ExitCode.RUN_FAILED)
    return RunResult(task.plan.name, "verify", (record,), int(code), seconds=time.monotonic() - start)


def _outcome(task: Task) -> dict:
    if isinstance(task.plan, InstructionPlan):
        return _instruction(task)
    return _ownership(task) if task.plan.kernel == "ownership" else _multiply(task)


def _facts(task: Task) -> dict:
    plan = task.plan
    layout = plan.spec.layout
    if isinstance(plan, InstructionPlan):
        majors, types = ("K", "K", "N"), f"{plan.operation.type_a} x {plan.operation.type_b} + {plan.operation.type_d}"
    else:
        majors = (plan.operand("A").major, plan.operand("B").major, plan.epilogue.major)
        types = f"{plan.operand('A').element.word} x {plan.operand('B').element.word} + {plan.atom.type_d.word} -> {plan.epilogue.out.word}"
    return {
        "name": plan.name,
        "problem": task.text,
        "input_dist": task.distribution,
        "layout": f"{layout.letters} (A: {majors[0]} contiguous, B: {majors[1]} contiguous, D: {majors[2]} contiguous)",
        "types": types,
        "smem_bytes": plan.smem_bytes,
        "device": EMULATED,
        "mmagen": mmagen.__version__,
        "cuda": task.ptx.cuda,
        "cutlass": task.ptx.cutlass,
        "spec_sha": plan.spec_sha,
        "seed": task.seed,
    }


def _multiply(task: Task) -> dict:
    data = operands(task.plan, task.problem, task.distribution, task.seed)
    written, report = multiply(task, data)
    return _judged(task, data, written, report)


def multiply(task: Task, data: Operands) -> tuple[np.ndarray, Report]:
    """Emulate a gemm or micro kernel on `data`, whose D it fills. Returns which bytes of D's memory were written, and what
    was seen on the way. Raises EmulationError and HostError."""
    contents = bytes(host.workspace_bytes(task)) if task.product.takes_workspace else b""
    memory, report = _called(task, data, contents)
    data.d.memory[:] = memory.read("d")
    written = memory.written("d")
    if contents and not report.findings and (left := memory.read("workspace")).any():
        memory, report = _called(task, data, left.tobytes())
        if not report.findings and (memory.read("d") != data.d.memory).any():
            raise EmulationError("a second call with the workspace as the first has left it gives another D")
    return written, report


def _called(task: Task, data: Operands, contents: bytes) -> tuple[GlobalMemory, Report]:
    """Device memory after one call, and what was seen. contents: of the workspace, b"" for none."""
    memory, addresses = _allocated(data)
    workspace = Workspace(memory.allocate("workspace", contents), len(contents)) if contents else Workspace()
    captured = host.multiply_launch(task, data, addresses, workspace)
    return memory, host.emulate(task.ptx, captured, memory)


def _allocated(data: Operands) -> tuple[GlobalMemory, dict[str, int]]:
    """Device memory with the operands, and where they begin there."""
    memory = GlobalMemory()
    addresses = {
        name: memory.allocate(name, matrix.memory, writable=False)
        for name, matrix in (("a", data.a), ("b", data.b), ("c", data.c))
        if matrix
    }
    return memory, addresses | {"d": memory.allocate("d", size=len(data.d.memory))}


def _judged(task: Task, data: Operands, written: np.ndarray, report: Report) -> dict:
    found = compare(task.plan, task.problem, data, written, exact=task.distribution == "small_int")
    outcome = {
        "max_abs_err": found.max_abs_err,
        "max_rel_err": found.max_rel_err,
        "bound": found.bound,
        "disposition": "passed",
        "reason": None,
    }
    return outcome | _with_findings(found.reason, report)


def _with_findings(wrong: str, report: Report) -> dict:
    """A wrong result is incorrect; a right one that a race or a stray access was on the way to has failed."""
    reasons = ([wrong] if wrong else []) + [str(finding) for finding in report.findings]
    extra = {"details": _details(report)}
    if not reasons:
        return extra
    return extra | {"disposition": "incorrect" if wrong else "failed", "reason": "; ".join(reasons)}


def _details(report: Report) -> dict:
    """What only an emulator can tell: findings, and traffic by line of the source."""
    return {
        "steps": report.steps,
        "ctas": report.ctas,
        "findings": [vars(finding) for finding in report.findings],
        "traffic": [vars(line) for line in report.by_line()],
    }


def _instruction(task: Task) -> dict:
    from mmagen.verify.emulated.instruction import emulate

    done = emulate(task)
    of = done.outcome
    outcome = {"disposition": "passed", "reason": None, "max_abs_err": of.worst_error, "bound": of.bound}
    return outcome | _with_findings(of.reason, done.report)


def _ownership(task: Task) -> dict:
    memory = GlobalMemory()
    addresses = {}
    for name, table in zip("abc", task.plan.ownership, strict=True):
        planes = np.zeros((len(table.elements), table.rows * table.columns), np.int32)
        addresses[name] = memory.allocate(name, planes)
    captured = host.launch_of(task, task.symbol("stamp"), [addresses[name] for name in "abc"])
    report = host.emulate(task.ptx, captured, memory)
    wrong = ""
    for name, table in zip("abc", task.plan.ownership, strict=True):
        expected = np.zeros((len(table.elements), table.rows * table.columns), np.int32)
        for thread, values in enumerate(table.elements):
            expected[thread, list(values)] = np.arange(1, len(values) + 1)
        stamped = memory.read(name, np.int32).reshape(expected.shape)
        if (stamped != expected).any():
            thread, element = map(int, np.argwhere(stamped != expected)[0])
            wrong = (
                f"{table.matrix}({element // table.columns},{element % table.columns}), thread {thread}: stamped "
                f"{stamped[thread, element]}, the layout algebra says {expected[thread, element]}"
            )
    outcome = {"disposition": "passed", "reason": None, "max_abs_err": 1.0 if wrong else 0.0, "bound": 0.0}
    return outcome | _with_findings(wrong, report)
