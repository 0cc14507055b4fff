"""Verify a project's kernel on the CPU: emulate its PTX on small problems and judge what comes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from importlib import import_module
from multiprocessing import get_start_method
from types import ModuleType
from typing import Any, cast

import mmagen
from mmagen.build.ptx import Ptx
from mmagen.core.errors import ExitCode, MmagenError, UsageError
from mmagen.core.targets import capability
from mmagen.emulate import NEWEST, EmulationError, defect
from mmagen.families import family_of
from mmagen.families.library import choose
from mmagen.host_runtime.library import HostError, HostTimeoutError
from mmagen.plan.operations import as_applied
from mmagen.plan.plans import GemmPlan, ProductPlan
from mmagen.plan.project import ProjectPlan
from mmagen.plan.trials import as_written, few_rows_problems
from mmagen.spec.model import Problem
from mmagen.verify.emulated.findings import OutcomeError
from mmagen.verify.emulated.order import Order
from mmagen.verify.emulated.task import Task
from mmagen.verify.emulated.units import prepare_ahead
from mmagen.verify.run import RECORD_FIELDS, RunResult
from mmagen.verify.verdict import EMULATED


def tasks(
    plan: ProjectPlan,
    ptx: Ptx,
    problems: Sequence[Problem],
    seed: int,
    distribution: str | None,
    max_dim: int | None = None,
    library: GemmPlan | None = None,
) -> list[Task]:
    """The cases of `emulated_cases`, or with `problems` these on the distributions of its largest trial.

    library: that the plan is a kernel of. distribution: instead of those of the cases. max_dim: leaves out cases with a larger
    extent. Raises UsageError for a problem that the kernel does not do, and when none is left.
    """
    if only_on_a_gpu(plan):
        return []
    if "" not in plan.by_config:
        return _library_tasks(cast(GemmPlan, plan), ptx, problems, seed, distribution, max_dim)
    for fault in family_of(plan).problem_faults(plan, problems):
        raise UsageError(f"{plan.name}: {fault.what}; {fault.remedy}")
    trials = family_of(plan).trials(plan)
    cases = trials.with_problems(problems) if problems else emulated_cases(plan, library)
    cases = tuple(
        (problem, name) for problem, name in cases if problems or max(problem.shape) <= (max_dim or max(problem.shape))
    )
    if not cases:
        raise UsageError(f"{plan.name}: --max-dim {max_dim} leaves no problem to run")
    if distribution:
        cases = tuple((problem, distribution) for problem in dict.fromkeys(problem for problem, _ in cases))
    without = frozenset() if problems else trials.without_workspace
    checking = next((case for case in cases if case[1] == "uniform"), None)
    # Of the problems that are chosen here that with the longest sums is shared by most clusters.
    longest = max(cases, key=lambda case: case[0].k)
    return [
        Task(
            plan,
            ptx,
            *case,
            seed,
            workspace=case[0] not in without,
            checks=case is checking,
            relaunches=bool(problems) or case is longest,
        )
        for case in cases
    ]


def emulated_cases(plan: ProjectPlan, library: GemmPlan | None = None) -> tuple[tuple[Problem, str], ...]:
    """What of one kernel is emulated: the trials of its family, then the small problems of its spec, or of those of its library
    the ones that go to this kernel."""
    trials = family_of(plan).trials(plan)
    cases = trials.cases
    if trials.judge not in ("product", "pointers") or not cast(ProductPlan, plan).any_shape or not cases:
        return cases
    gemm = cast(GemmPlan, plan)
    own = (library or gemm).spec.problems or ()
    if library:
        own = tuple(problem for problem in own if choose(library, problem).plan is plan)
        if library.few_rows and plan is library.kernels[-1]:  # whose kernel is one for all configs
            few = as_applied(gemm.spec, few_rows_problems(gemm.operands[0].element.bytes))
            cases = (*cases, *((problem, "small_int") for problem in few), (max(few, key=lambda one: one.k), "uniform"))
    return (*cases, *((problem, cases[0][1]) for problem in as_written(gemm, own, cases)))


def left_out_by(plan: ProjectPlan, max_dim: int | None) -> list[Problem]:
    """The problems of the trials with an extent above max_dim."""
    plans = [plan] if "" in plan.by_config else [config.plan for config in cast(GemmPlan, plan).configs]
    if max_dim is None:
        return []
    return [problem for one in plans for problem, _ in family_of(one).trials(one).cases if max(problem.shape) > max_dim]


def only_on_a_gpu(plan: ProjectPlan) -> str:
    """Why it cannot be emulated, or ""."""
    trials = family_of(plan).trials(plan)
    if trials.refusal:
        return trials.refusal
    if capability(plan.requires) > NEWEST:
        return f"instructions newer than sm_{NEWEST}'s are not emulated; to run it needs {' or '.join(plan.arch)}"
    return ""


def _library_tasks(
    library: GemmPlan, ptx: Ptx, problems: Sequence[Problem], seed: int, distribution: str | None, max_dim: int | None
) -> list[Task]:
    """Each kernel on small problems of its own, whatever the rule of choice; problems that were asked for go by the rule."""
    work = []
    for config in library.configs:
        own = [problem for problem in problems if choose(library, problem) is config]
        if own or not problems:
            work += [
                replace(task, library=library, config=config.name)
                for task in tasks(config.plan, ptx, own, seed, distribution, max_dim, library)
            ]
    return work


def run_tasks(
    work: Sequence[Task],
    jobs: int,
    progress: Callable[[int, int, str], None],
    ended: Callable[[int, RunResult], None] = lambda index, result: None,
) -> list[RunResult]:
    """Emulate all tasks, `jobs` processes at a time; one RunResult for each, in order. Of a kernel that did not end on a
    problem, those that have not begun are not run. ended: called with the index and the result of each task when it ends."""
    results: list[RunResult | None] = [None] * len(work)
    endless: dict[str, str] = {}  # kernel -> the problem that it did not end on
    if jobs == 1 or len(work) == 1:
        for i, task in enumerate(work):
            progress(i, len(work), f"emulating {task.plan.name} {task.text}")
            results[i] = result = _run_unless(endless, task)
            ended(i, result)
        return [result for result in results if result]
    if len({task.kernel_name for task in work}) == 1 and get_start_method() == "fork":
        prepare_ahead(work[0])
        _judge_of(work[0].plan)
    order = Order(work)
    running: dict[Future[RunResult], int] = {}
    idle = [""] * jobs  # the kernel that each process without a task had last
    with ProcessPoolExecutor(jobs) as pool:
        try:
            while order or running:
                while order and idle:
                    i = order.take(idle[-1], [work[other].kernel_name for other in running.values()])
                    if work[i].kernel_name in endless:
                        results[i] = result = _not_run(work[i], endless)
                        ended(i, result)
                    else:
                        idle.pop()
                        running[pool.submit(run_task, work[i])] = i
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    i = running.pop(future)
                    idle.append(work[i].kernel_name)
                    results[i] = result = _noted(endless, work[i], future.result())
                    ended(i, result)
                    done = sum(result is not None for result in results)
                    progress(done, len(work), f"emulated {work[i].plan.name} {work[i].text}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [result for result in results if result]


def _run_unless(endless: dict[str, str], task: Task) -> RunResult:
    """run_task, unless the kernel did not end on an earlier problem."""
    return _not_run(task, endless) if task.kernel_name in endless else _noted(endless, task, run_task(task))


def _noted(endless: dict[str, str], task: Task, result: RunResult) -> RunResult:
    """The result; a kernel that did not end is put down in `endless`."""
    if (result.records[0]["details"] or {}).get("endless"):
        endless.setdefault(task.kernel_name, task.text)
    return result


def _not_run(task: Task, endless: dict[str, str]) -> RunResult:
    reason = f"not run, since the kernel did not end on {endless[task.kernel_name]}"
    return _result(task, {"disposition": "not_run", "reason": reason}, 0.0)


def run_task(task: Task) -> RunResult:
    """Emulate and judge one task. What the kernel does wrong, unsupported PTX included, is in the result."""
    start = time.monotonic()
    try:
        outcome = _judge(task)
    except OutcomeError as error:
        outcome = error.outcome
    except (EmulationError, HostError) as error:
        outcome = {"disposition": "failed", "reason": str(error)}
        if isinstance(error, HostTimeoutError):
            outcome["details"] = {"endless": True}
    except MmagenError:
        raise
    except MemoryError as error:
        outcome = {"disposition": "failed", "reason": f"there is not enough memory to emulate this problem: {error}"}
    except Exception as error:
        # A defect of the judge costs the verdict of one kernel, not the whole run.
        outcome = {"disposition": "failed", "reason": str(defect("in its verification", error))}
    return _result(task, outcome, time.monotonic() - start)


def _judge(task: Task) -> dict[str, Any]:
    outcome: dict[str, Any] = _judge_of(task.plan).judge(task)
    return outcome


def _judge_of(plan: ProjectPlan) -> ModuleType:
    return import_module(f"mmagen.verify.emulated.judges.{family_of(plan).trials(plan).judge}")


def _result(task: Task, outcome: dict[str, Any], seconds: float) -> RunResult:
    record = dict.fromkeys(RECORD_FIELDS) | _facts(task) | outcome | {"seconds": round(seconds, 6)}
    code = {"passed": ExitCode.OK, "incorrect": ExitCode.INCORRECT}.get(str(record["disposition"]), ExitCode.RUN_FAILED)
    return RunResult(task.plan.name, "verify", (record,), int(code), seconds=seconds, began=time.time() - seconds)


def _facts(task: Task) -> dict[str, Any]:
    plan, trials = task.plan, family_of(task.plan).trials(task.plan)
    a, b, d = trials.majors
    return {
        "name": plan.name,
        "problem": task.text,
        "input_dist": task.distribution,
        "layout": f"{plan.spec.layout.letters} (A: {a} contiguous, B: {b} contiguous, D: {d} contiguous)",
        "types": trials.types,
        "smem_bytes": trials.smem_bytes,
        "device": EMULATED,
        "mmagen": mmagen.__version__,
        "cuda": task.ptx.cuda,
        "cutlass": task.ptx.cutlass,
        "spec_sha": plan.spec_sha,
        "seed": task.seed,
    }
