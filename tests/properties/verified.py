"""Accepted specs through the path of `mmagen verify`: emulated on the CPU one by one, or on a GPU in batches."""

from __future__ import annotations

import contextlib
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from mmagen.build.build import build, choose_arch
from mmagen.build.job import BuildResult
from mmagen.core.targets import capability
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.plan.plans import GemmPlan
from mmagen.plan.project import ProjectPlan
from mmagen.spec.model import Problem
from mmagen.toolchain.find import Toolchain
from mmagen.verify.emulated.session import emulated_cases, only_on_a_gpu
from mmagen.verify.omitted import unsuitable
from mmagen.verify.run import run
from mmagen.verify.verdict import Verdict, judge
from tests.properties.draw import Drawn
from tests.properties.planned import Record, failure, record
from tests.properties.programs import build_programs
from tests.properties.together import Compiled, DoesNotCompile, compile_together, emulate, macros_of

_RUNS_AT_ONCE = 4  # programs on the GPU; nothing is timed
_PROGRAM_LIMIT_S = 60.0
_OUTCOMES = {"passed": "right", "not_run": "not_run", "not_supported": "not_run", "incorrect": "wrong", "failed": "wrong"}


@dataclass(frozen=True)
class Accepted:
    """A spec and its plan."""

    spec: Drawn
    plan: ProjectPlan

    @property
    def together(self) -> tuple[object, ...]:
        """What specs that nvcc compiles in one call have in common."""
        return (self.plan.arch[0], only_on_a_gpu(self.plan) != "", macros_of(self.plan))


def on_cpu(work: Sequence[Accepted], toolchain: Toolchain) -> Iterator[Record]:
    """Emulate each on the problems that `verify` chooses, then on the spec's own. nvcc compiles all in one call, and where that
    fails one by one."""
    with tempfile.TemporaryDirectory(prefix="mmagen-spec-") as scratch:
        start, before = time.monotonic(), _cpu_seconds()
        try:
            compiled, reason = _compiled_for_all(work, Path(scratch), toolchain), ""
        except DoesNotCompile as error:
            compiled, reason = None, str(error)
        shared = {
            "seconds": (time.monotonic() - start) / len(work),
            "cpu_s": (_cpu_seconds() - before) / len(work),
        }
        if not compiled and len(work) == 1:
            yield record(work[0].spec.name, "not_compiled", _first_error(reason), stage="compile")
            return
        for one in work:
            if not compiled:
                yield from on_cpu([one], toolchain)
                continue
            start, before = time.monotonic(), _cpu_seconds()
            found = _emulated(one, compiled, Path(scratch), toolchain)
            spent = {"seconds": time.monotonic() - start, "cpu_s": _cpu_seconds() - before}
            compile_s = {"compile_s": round(shared["seconds"], 2), "together": len(work)}
            yield found | compile_s | {key: round(spent[key] + shared[key], 2) for key in spent}


def _compiled_for_all(work: Sequence[Accepted], scratch: Path, toolchain: Toolchain) -> Compiled:
    """For the first architecture of all, which is emulated; of each other one the PTX too. Raises DoesNotCompile."""
    plans = [one.plan for one in work]
    emulated = not only_on_a_gpu(plans[0])
    compiled = compile_together(plans, scratch / "emulated", toolchain, plans[0].arch[0], host=emulated)
    others: dict[str, list[ProjectPlan]] = {}
    for plan in plans:
        if rest := plan.arch[1:]:
            others.setdefault(min(rest, key=capability), []).append(plan)
    for arch, those in others.items():
        compile_together(those, scratch / arch, toolchain, arch, host=False)
    return compiled


def _emulated(one: Accepted, compiled: Compiled, scratch: Path, toolchain: Toolchain) -> Record:
    try:
        found = _of_verdict(one, emulate(one.plan, compiled, scratch, toolchain))
        done = {problem for problem, _ in _cases(one.plan)}
        own = [problem for problem in one.plan.spec.problems or () if problem not in done]
        if found["outcome"] == "right" and own and one.plan.kernel == "gemm":
            found = _of_verdict(one, emulate(one.plan, compiled, scratch, toolchain, own))
        return found
    except Exception as error:
        return failure(one.spec.name, error, "run")


def _cases(plan: ProjectPlan) -> Iterator[tuple[Problem, str]]:
    """What of a project's kernels is emulated."""
    if "" in plan.by_config:
        yield from emulated_cases(plan)
    else:
        for config in cast("GemmPlan", plan).configs:
            yield from emulated_cases(config.plan, cast("GemmPlan", plan))


def target_on(toolchain: Toolchain, one: Accepted) -> tuple[object, ...]:
    """What specs that are built together for the GPU have in common."""
    return (choose_arch(one.plan.arch, toolchain), one.plan.kernel == "peak", macros_of(one.plan))


def on_gpu(work: Sequence[Accepted], toolchain: Toolchain, jobs: int, max_dim: int) -> Iterator[Record]:
    """Build all by one call of nvcc, or where that fails in one superproject, then run each program."""
    with tempfile.TemporaryDirectory(prefix="mmagen-specs-") as scratch:
        results = _built(work, Path(scratch), toolchain, jobs)
        args = ["--no-timing", "--max-dim", str(max_dim)]

        def verdict(number: int) -> Record:
            result = results[number]
            if not result.ok:
                return _of_verdict(work[number], judge(result))
            if why := unsuitable(result, toolchain.gpus[0]):
                return _of_verdict(work[number], judge(result, no_gpu=why))
            return _of_verdict(work[number], judge(result, run(result, args=args, timeout_s=_PROGRAM_LIMIT_S)))

        with ThreadPoolExecutor(_RUNS_AT_ONCE) as pool:
            yield from pool.map(verdict, range(len(work)))


def _built(work: Sequence[Accepted], scratch: Path, toolchain: Toolchain, jobs: int) -> list[BuildResult]:
    """A result for each. A program of peak rates is a project alone."""
    start = time.monotonic()
    arch = choose_arch(work[0].plan.arch, toolchain)
    if len(arch) == 1 and work[0].plan.kernel != "peak":
        with contextlib.suppress(DoesNotCompile):
            results = build_programs([one.plan for one in work], scratch / "together", toolchain, arch[0])
            each = (time.monotonic() - start) / len(work)
            return [replace(result, seconds=each) for result in results]
    folders = [scratch / one.spec.name for one in work]
    for one, folder in zip(work, folders, strict=True):
        write(render(one.plan), folder)
    return build(folders, toolchain, jobs=jobs, programs=("verify",))


def _of_verdict(one: Accepted, verdict: Verdict) -> Record:
    facts = {
        "stage": "run" if verdict.build.ok else "compile",
        "family": one.plan.family.removeprefix("mmagen.families."),
        "runs": len(verdict.records),
        "compile_s": round(verdict.build.seconds, 1),
    }
    if not verdict.build.ok:
        return record(one.spec.name, "not_compiled", verdict.reason or _first_error(verdict.build.log), **facts)
    endless = any((one["details"] or {}).get("endless") for one in verdict.records)
    if endless or "did not end within" in verdict.reason:
        return record(one.spec.name, "hang", verdict.reason, **facts)
    bad = next((r for r in verdict.records if r["disposition"] == verdict.disposition), None)
    about = f"{bad['problem']} {bad['input_dist']}: " if bad and bad["problem"] and verdict.disposition != "passed" else ""
    return record(one.spec.name, _OUTCOMES[verdict.disposition], about + verdict.reason, **facts)


def _first_error(text: str) -> str:
    lines = text.splitlines()
    return next((line for line in lines if "error" in line), lines[0] if lines else "")


def _cpu_seconds() -> float:
    usages: Iterable[resource.struct_rusage] = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
