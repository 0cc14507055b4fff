"""Accepted specs through the path of `mmagen verify`: emulated on the CPU one by one, or on a GPU in batches."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mmagen.build.build import build
from mmagen.build.ptx import compile_ptx
from mmagen.core.targets import capability
from mmagen.families.plans import Plan
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.spec.model import BATCH_STRIDES, Problem
from mmagen.toolchain.find import Toolchain
from mmagen.verify.emulated.verify import emulate_all
from mmagen.verify.omitted import unsuitable
from mmagen.verify.run import run
from mmagen.verify.verdict import Verdict, judge
from tests.properties.draw import Drawn
from tests.properties.planned import Record, failure, record

_RUNS_AT_ONCE = 4  # programs on the GPU; nothing is timed
_PROGRAM_LIMIT_S = 60.0
_OUTCOMES = {"passed": "right", "not_run": "not_run", "not_supported": "not_run", "incorrect": "wrong", "failed": "wrong"}


@dataclass(frozen=True)
class Accepted:
    """A spec and its plan."""

    spec: Drawn
    plan: Plan


def on_cpu(work: Sequence[Accepted], toolchain: Toolchain) -> Iterator[Record]:
    """Emulate each on the problems that `verify` chooses, then on the spec's own."""
    for one in work:
        start, before = time.monotonic(), _cpu_seconds()
        with tempfile.TemporaryDirectory(prefix="mmagen-spec-") as scratch:
            found = _emulated(one, Path(scratch), toolchain)
        yield found | {"seconds": round(time.monotonic() - start, 2), "cpu_s": round(_cpu_seconds() - before, 2)}


def _emulated(one: Accepted, scratch: Path, toolchain: Toolchain) -> Record:
    name, stage = one.spec.name, "compile"
    folder = scratch / name
    try:
        write(render(one.plan), folder)
        if others := one.plan.arch[1:]:  # only the first is emulated
            arch = min(others, key=capability)
            if error := compile_ptx(folder, toolchain, arch, host=False).error:
                return record(name, "not_compiled", f"for {arch}: {_first_error(error)}", stage=stage)
        stage = "run"
        found = _of_verdict(one, _emulate(folder, toolchain, ()))
        own = [_option(problem) for problem in one.plan.spec.problems or ()]
        if found["outcome"] == "right" and own and one.plan.kernel == "gemm":
            found = _of_verdict(one, _emulate(folder, toolchain, own))
        return found
    except Exception as error:
        return failure(name, error, stage)


def _emulate(folder: Path, toolchain: Toolchain, problems: Sequence[str]) -> Verdict:
    (verdict,) = emulate_all(
        [folder],
        toolchain,
        arch=None,
        problems=problems,
        seed=None,
        distribution=None,
        jobs=1,
        progress=lambda done, total, what: None,
    )
    return verdict


def on_gpu(work: Sequence[Accepted], toolchain: Toolchain, jobs: int, max_dim: int) -> Iterator[Record]:
    """Build all in one superproject, then run each program."""
    with tempfile.TemporaryDirectory(prefix="mmagen-specs-") as scratch:
        folders = [Path(scratch, one.spec.name) for one in work]
        for one, folder in zip(work, folders, strict=True):
            write(render(one.plan), folder)
        results = build(folders, toolchain, jobs=jobs, programs=("verify",))
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


def _option(problem: Problem) -> str:
    """A problem as the command line takes it."""
    settings = [f"ld_pad={problem.ld_pad}", f"offset={problem.offset}", f"alpha={problem.alpha}", f"beta={problem.beta}"]
    settings += [f"{key}={stride}" for key, stride in zip(BATCH_STRIDES, problem.batch_strides, strict=True) if stride >= 0]
    groups = ("groups=" + "+".join(map(str, problem.groups.sizes)),) if problem.groups else ()
    return ":".join((",".join(map(str, (*problem.shape, problem.batch))), *settings, *groups))


def _cpu_seconds() -> float:
    usages: Iterable[resource.struct_rusage] = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
