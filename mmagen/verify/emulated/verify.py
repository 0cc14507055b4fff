"""Projects to verdicts without a GPU: compile each kernel to PTX, emulate small problems, judge."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from mmagen.build.job import BuildResult
from mmagen.build.ptx import Ptx, compile_ptx
from mmagen.core.cache import cache_is_off, cache_root
from mmagen.core.errors import SpecError, SpecFaults, UsageError
from mmagen.families import plan
from mmagen.plan.project import ProjectPlan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.spec.values import REFUSED
from mmagen.toolchain.find import Toolchain
from mmagen.toolchain.identity import open_cache
from mmagen.verify.emulated.session import left_out_by, only_on_a_gpu, run_tasks, tasks
from mmagen.verify.emulated.task import Task
from mmagen.verify.run import RunResult
from mmagen.verify.verdict import Verdict, judge

Progress = Callable[[int, int, str], None]
_LARGEST = 2**28  # products a problem may have: minutes of emulation lie beyond


def emulate_all(
    projects: Sequence[Path],
    toolchain: Toolchain,
    *,
    arch: str | None,
    problems: Sequence[str],
    seed: int | None,
    distribution: str | None,
    jobs: int | None,
    progress: Progress,
    max_dim: int | None = None,
    why: str = "--on cpu",
    timeout_s: float | None = None,
    judged: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """A verdict for each project folder, in order. problems: as on the command line, () for small ones of its own; those of the
    spec then become skipped records. why: why there is no GPU. timeout_s: of one problem. judged: called with each verdict once
    the project's last problem has ended, in any order.

    Raises UsageError for a folder that is no project or a problem that is not one, SpecError for its spec.yaml.
    """
    chosen = [parse_problem(text) for text in problems]
    plans = [_plan(project) for project in projects]
    at_once = jobs or len(os.sched_getaffinity(0))
    compiled = _compile(projects, plans, toolchain, arch, at_once, progress)
    work = [
        tasks(one, ptx, chosen, 1 if seed is None else seed, distribution, max_dim) if not ptx.error else []
        for one, ptx in zip(plans, compiled, strict=True)
    ]
    verdicts: list[Verdict | None] = [None] * len(plans)
    found: list[dict[int, RunResult]] = [{} for _ in plans]

    def judge_ended(number: int) -> None:
        one, ptx, group, runs = plans[number], compiled[number], work[number], found[number]
        if len(runs) < len(group):
            return
        skipped = [] if chosen else [*_skipped(one, group, max_dim, why), *_other_targets(one, ptx, arch)]
        build, in_order = _build_result(projects[number], ptx), [runs[index] for index in sorted(runs)]
        verdicts[number] = verdict = judge(build, *in_order, no_gpu=only_on_a_gpu(one), skipped=skipped)
        judged(verdict)

    def ended(index: int, result: RunResult) -> None:
        found[of[index]][index] = result
        judge_ended(of[index])

    of = [number for number, group in enumerate(work) for _ in group]  # task -> project
    for number, group in enumerate(work):
        if not group:
            judge_ended(number)
    code = None if cache_is_off() else cache_root() / "code"
    run_tasks(
        [replace(task, timeout_s=timeout_s, code_folder=code) for group in work for task in group], at_once, progress, ended
    )
    return [verdict for verdict in verdicts if verdict]


def _skipped(plan: ProjectPlan, work: Sequence[Task], max_dim: int | None, why: str) -> list[tuple[str, str]]:
    """The problems of the spec that are not emulated and those that max_dim leaves out, each with the reason."""
    done = {task.problem for task in work}
    replaced = only_on_a_gpu(plan) or f"replaced by small problems in emulation ({why})"
    rows = [(problem.text, replaced) for problem in plan.spec.problems or () if problem not in done]
    left_out = dict.fromkeys(problem for problem in left_out_by(plan, max_dim) if problem not in done)
    return [*rows, *((problem.text, f"larger than --max-dim {max_dim}") for problem in left_out)]


def _other_targets(plan: ProjectPlan, ptx: Ptx, asked: str | None) -> list[tuple[str, str]]:
    """The architectures of the spec whose PTX is not emulated."""
    others = [] if asked or only_on_a_gpu(plan) else [arch for arch in plan.arch if arch != ptx.arch]
    return [(f"for {arch}", f"the PTX for {ptx.arch} is emulated; --arch {arch} emulates this") for arch in others]


def _plan(project: Path) -> ProjectPlan:
    """The plan of a project, from the spec that it carries. Raises UsageError or SpecError."""
    path = project / "spec.yaml"
    try:
        loaded = load(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}; emulation needs the spec that the project was made from"
        ) from None
    try:
        return plan(loaded.spec)
    except SpecFaults as faults:
        raise SpecError(loaded.source.locate(faults.faults)) from None


def _compile(
    projects: Sequence[Path],
    plans: Sequence[ProjectPlan],
    toolchain: Toolchain,
    arch: str | None,
    at_once: int,
    progress: Progress,
) -> list[Ptx]:
    done = 0
    cache = open_cache(toolchain, os.environ) if toolchain.nvcc else None

    def one(project: Path, of: ProjectPlan) -> Ptx:
        nonlocal done
        ptx = compile_ptx(project, toolchain, arch, host=not only_on_a_gpu(of), cache=cache, pool=units)
        done += 1
        progress(done, len(projects), f"compiled {ptx.name} to PTX")
        return ptx

    with ThreadPoolExecutor(at_once) as units, ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, projects, plans))


def _build_result(project: Path, ptx: Ptx) -> BuildResult:
    lines = tuple(line for line in ptx.error.splitlines() if "error" in line) or tuple(ptx.error.splitlines()[:1])
    return BuildResult(
        ptx.name,
        project,
        not ptx.error,
        log=ptx.error,
        errors=lines,
        seconds=ptx.seconds,
        cached=ptx.cached,
        reason=f"it does not compile: {lines[0]}" if ptx.error else "",
        arch=(ptx.arch,),
        kernel=ptx.kernel,
        spec_sha=ptx.spec_sha,
        cuda=ptx.cuda,
        cutlass=ptx.cutlass,
    )


def _refusal(error: ValueError) -> str:
    """What a rule of the spec's problems says is wrong, or ""."""
    first = error.errors(include_url=False)[0] if isinstance(error, ValidationError) else None
    return first["msg"] if first and first["type"] == REFUSED else ""


def parse_problem(text: str) -> Problem:
    """`M,N,K[,BATCH][:ld_pad=P][:offset=O][:alpha=X][:beta=Y][:batch_stride_a=S][:groups=R+R...]...`, as the projects' programs
    take it. groups: the rows of each group, or MxNxK of each.

    Raises UsageError for anything else, and for problems that emulation would take very long for.
    """
    extents, *settings = text.split(":")
    values: dict[str, str] = {}
    groups: list[int] | list[list[int]] = []
    for setting in settings:
        if match := re.fullmatch(r"groups=(\d+(?:\+\d+)*)", setting):
            groups = [int(rows) for rows in match[1].split("+")]
            continue
        if match := re.fullmatch(r"groups=(\d+x\d+x\d+(?:\+\d+x\d+x\d+)*)", setting):
            groups = [[int(extent) for extent in one.split("x")] for one in match[1].split("+")]
            continue
        match = re.fullmatch(r"(ld_pad|offset|batch_stride_[abcd])=(\d+)|(alpha|beta)=([-+.0-9eE]+)", setting)
        if not match:
            raise UsageError(
                f"--problem {text}: {setting!r} is none of ld_pad=P, offset=O, alpha=X, beta=Y, batch_stride_a=S (or b, c, d), "
                "groups=70+0+129"
            )
        values |= {match[1]: match[2]} if match[1] else {match[3]: match[4]}
    try:
        numbers = [int(part) for part in extents.split(",")]
        typed = {key: float(value) if key in ("alpha", "beta") else int(value) for key, value in values.items()}
        batch = numbers[3] if len(numbers) > 3 else len(groups) or 1
        of_groups = {"groups": groups} if groups else {}
        problem = Problem.model_validate({"shape": numbers[:3], "batch": batch, **typed, **of_groups})
    except ValueError as error:  # pydantic's own is one
        if refused := _refusal(error):
            raise UsageError(f"--problem {text}: {refused}") from None
        raise UsageError(
            f"--problem {text}: extents and batch are 1 to 2147483647, ld_pad and offset within their limits, "
            "alpha and beta finite numbers"
        ) from None
    each = problem.groups.shapes(problem.n, problem.k) if problem.groups else [(*problem.shape, problem.batch)]
    if sum(map(math.prod, each)) > _LARGEST:
        raise UsageError(f"--problem {text}: too large to emulate; use one below 640 in each extent, or --on gpu")
    return problem
