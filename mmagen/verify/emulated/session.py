"""Verify a project's kernel on the CPU: emulate its PTX on small problems and judge what comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

import mmagen
from mmagen.build.ptx import Ptx
from mmagen.core.errors import ExitCode, UsageError
from mmagen.core.targets import capability
from mmagen.emulate import NEWEST, EmulationError, GlobalMemory, Module, Report, launch, parse
from mmagen.families import family_of
from mmagen.families.instruction.model import InstructionPlan
from mmagen.families.library import choose
from mmagen.families.protocol import Plan
from mmagen.spec.model import Problem
from mmagen.verify.emulated import arguments
from mmagen.verify.emulated.compare import compare
from mmagen.verify.emulated.hopper_arguments import workspace
from mmagen.verify.emulated.launches import Launch
from mmagen.verify.emulated.matrices import Operands, operands
from mmagen.verify.emulated.problems import small_problems
from mmagen.verify.run import RECORD_FIELDS, RunResult
from mmagen.verify.verdict import EMULATED


@dataclass(frozen=True)
class Task:
    """One emulated launch: a problem with one distribution of inputs. Of a library, config is the kernel that is launched,
    and unaligned the plan of the one that does what TMA cannot address."""

    plan: Plan
    ptx: Ptx
    problem: Problem
    distribution: str
    seed: int
    config: str = ""
    unaligned: Plan | None = None

    @property
    def text(self) -> str:
        """The problem, and which kernel does it where there are several."""
        return self.problem.text + (f" by {self.config}" if self.config else "")


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
                replace(task, config=config.name, unaligned=plan.configs[-1].plan)
                for task in tasks(config.plan, ptx.of(config.name), own, seed, distribution, max_dim)
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
    except EmulationError as error:
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


@lru_cache(maxsize=2)
def _module(text: str, file: str) -> Module:
    return parse(text, file)


def _launch(task: Task, chosen: Launch, memory: GlobalMemory) -> Report:
    name = f"{task.plan.name}{'_unaligned' if chosen.unaligned else ''}.ptx"
    module = _module(task.ptx.unaligned if chosen.unaligned else task.ptx.text, name)
    entry = next((name for name in module.entries if chosen.entry.search(name)), None)
    if entry is None:
        raise EmulationError(f"{name}: no kernel matches {chosen.entry.pattern}")
    smem = 0 if task.plan.kernel == "ownership" else task.plan.smem_bytes
    return launch(
        module,
        entry,
        grid=(chosen.grid, 1, 1),
        block=(chosen.threads or task.plan.threads, 1, 1),
        dynamic_smem=smem,
        params=chosen.params,
        memory=memory,
        cluster=chosen.cluster,
    )


def _multiply(task: Task) -> dict:
    data = operands(task.plan, task.problem, task.distribution, task.seed)
    written, report = multiply(task, data)
    return _judged(task, data, written, report)


def multiply(task: Task, data: Operands) -> tuple[np.ndarray, Report]:
    """Emulate a gemm or micro kernel on `data`, whose D it fills. Returns which bytes of D's memory were written, and what
    was seen on the way. Raises EmulationError."""
    memory = GlobalMemory()
    addresses = {}
    for name, matrix in (("a", data.a), ("b", data.b), ("c", data.c)):
        if matrix:
            addresses[name] = memory.allocate(name, matrix.memory, writable=False)
    addresses["d"] = memory.allocate("d", size=len(data.d.memory))
    addresses.setdefault("c", addresses["d"])
    flags, partials = workspace(task.plan)
    if flags:
        addresses |= {"flags": memory.allocate("flags", bytes(flags)), "partials": memory.allocate("partials", size=partials)}
    chosen = arguments.of(task.plan, task.problem, data, addresses)
    if chosen.unaligned and task.unaligned:
        task = replace(task, plan=task.unaligned)
        chosen = arguments.of(task.plan, task.problem, data, addresses)
    report = _launch(task, chosen, memory)
    data.d.memory[:] = memory.read("d")
    if flags and memory.read("flags").any():
        raise EmulationError("the kernel leaves flags in its workspace that the next launch would take for its own")
    return memory.written("d"), report


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

    done = emulate(task.plan, _module(task.ptx.text, f"{task.plan.name}.ptx"), task.distribution, task.seed)
    of = done.outcome
    outcome = {"disposition": "passed", "reason": None, "max_abs_err": of.worst_error, "bound": of.bound}
    return outcome | _with_findings(of.reason, done.report)


def _ownership(task: Task) -> dict:
    memory = GlobalMemory()
    addresses = {}
    for name, table in zip("abc", task.plan.ownership, strict=True):
        planes = np.zeros((len(table.elements), table.rows * table.columns), np.int32)
        addresses[name] = memory.allocate(name, planes)
    report = _launch(task, arguments.ownership(addresses), memory)
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
