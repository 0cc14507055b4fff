"""Builds batches of operations together, runs them in parallel, and judges each operation separately."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import mmagen
from mmagen.build.build import build
from mmagen.build.job import BuildResult
from mmagen.core.progress import Progress
from mmagen.core.targets import capability
from mmagen.emulate import NEWEST
from mmagen.mma.forms import STEPS, Form, chosen_target, distributions, forms, native_targets
from mmagen.mma.operation import Operation
from mmagen.op_tests import code
from mmagen.op_tests.batch import Batch, batches, entry, project
from mmagen.op_tests.run import BatchRun, FormResult, run_batch
from mmagen.toolchain.find import Toolchain
from mmagen.verify.run import RECORD_FIELDS, Record
from mmagen.verify.verdict import EMULATED, Verdict

_AT_ONCE = 8  # processes that share the GPU


@dataclass(frozen=True)
class Options:
    """arch: compile for these only, () for each operation's own or Hopper. where: "gpu", "cpu" or "" for compiling alone.
    dist: only these inputs. seed, jobs, timeout_s: as in `mmagen verify`."""

    arch: tuple[str, ...] = ()
    where: str = "gpu"
    dist: str | None = None
    seed: int = 0
    jobs: int | None = None
    timeout_s: float = 600.0

    @property
    def compile_only(self) -> bool:
        return not self.where


@dataclass(frozen=True)
class Built:
    """A batch and what became of its build; faults: sentences on kernels without their instruction, by index."""

    batch: Batch
    result: BuildResult
    faults: dict[int, str]


def verify_atoms(operations: Sequence[Operation], toolchain: Toolchain, options: Options, progress: Progress) -> list[Verdict]:
    """Compile, run and judge `operations`: one verdict each, in their order."""
    usable = [o for o in operations if not o.broken and chosen_target(o, options.arch)]
    wanted = [form for operation in usable for form in forms(operation)]
    native = native_targets(toolchain.gpus[0].capability if toolchain.gpus and options.where == "gpu" else None)
    with tempfile.TemporaryDirectory(prefix="mmagen-atoms-") as folder:
        built = _build_all(batches(wanted, options.arch, native), toolchain, options, Path(folder), progress)
        results = _run_all(built, toolchain, options, progress)
    by_operation: dict[str, list[tuple[Form, Built, FormResult | None]]] = {}
    for one, runs in zip(built, results, strict=True):
        for index, form in enumerate(one.batch.forms):
            by_operation.setdefault(form.operation.name, []).append((form, _of_kernel(one, index), runs.get(index)))
    facts = _facts(toolchain, options)
    return [_verdict(operation, by_operation.get(operation.name, []), facts, options) for operation in operations]


# --- building ---------------------------------------------------------------------------------------------------------


def _build_all(todo: list[Batch], toolchain: Toolchain, options: Options, folder: Path, progress: Progress) -> list[Built]:
    """Build every batch; one that does not compile is halved until the faulty operation is alone."""
    done: list[Built] = []
    # Targets are the batches' own, whatever the GPU here is.
    blind = dataclasses.replace(toolchain, gpus=())
    while todo:
        places = []
        for batch in todo:
            places.append(folder / batch.name)
            _lay_out(folder / batch.name, project(batch))
        results = build(places, blind, jobs=options.jobs, programs=("verify",), progress=progress)
        following = []
        for batch, result in zip(todo, results, strict=True):
            if result.ok or not batch.halves():
                done.append(Built(batch, result, _faults(batch, result)))
            else:
                following += batch.halves()
        todo = following
    return done


def _lay_out(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _faults(batch: Batch, result: BuildResult) -> dict[int, str]:
    if not result.ok:
        return {}
    functions = {kernel.function for kernel in result.ptxas}
    return {**code.assembled(functions, batch), **code.missing(batch, result.programs["verify"])}


def _of_kernel(built: Built, index: int) -> Built:
    """The same with what ptxas said of one kernel, and its fault as a failed build."""
    result, fault = built.result, built.faults.get(index)
    kernels = tuple(kernel for kernel in result.ptxas if kernel.function == entry(index))
    seconds = result.seconds / len(built.batch.forms)
    result = dataclasses.replace(
        result, name=built.batch.forms[index].operation.name, ptxas=kernels, seconds=seconds, warnings=()
    )
    if fault:
        result = dataclasses.replace(result, ok=False, reason=fault, errors=(fault,))
    return dataclasses.replace(built, result=result)


# --- running ----------------------------------------------------------------------------------------------------------


def _run_all(built: Sequence[Built], toolchain: Toolchain, options: Options, progress: Progress) -> list[dict[int, FormResult]]:
    """What each kernel did, by index in its batch; {} for batches that cannot run here."""
    results: list[dict[int, FormResult]] = [{} for _ in built]
    work = {}
    for number, one in enumerate(built):
        indices = [
            i for i, form in enumerate(one.batch.forms) if i not in one.faults and _suits(form, one.batch, toolchain, options)
        ]
        if one.result.ok and indices:
            work[number] = BatchRun(
                one.batch,
                one.result.programs["verify"],
                tuple(indices),
                options.where == "cpu",
                options.dist,
                options.seed,
                options.timeout_s,
            )
    if not work:
        return results
    with ProcessPoolExecutor(min(_AT_ONCE, options.jobs or os.cpu_count() or 1)) as pool:
        waiting = {pool.submit(run_batch, run): number for number, run in work.items()}
        try:
            for done, future in enumerate(as_completed(waiting), 1):
                results[waiting[future]] = future.result()
                progress(done, len(work), f"ran {built[waiting[future]].batch.name}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def _suits(form: Form, batch: Batch, toolchain: Toolchain, options: Options) -> bool:
    """Can this machine run what was compiled for the batch's target?"""
    operation = form.operation
    if not form.runs:
        return False
    if options.where == "cpu":
        return capability(batch.arch) <= NEWEST
    if options.where != "gpu" or not toolchain.gpus:
        return False
    major, minor = toolchain.gpus[0].capability
    number = capability(batch.arch)
    if not batch.arch[-1].isdigit():
        return number == major * 10 + minor
    # A program carries PTX as well; an instruction that later GPUs lack has targets that name the GPU or not.
    return operation.runs_on(f"sm_{major}{minor}") and number <= major * 10 + minor


# --- judging ----------------------------------------------------------------------------------------------------------


def _facts(toolchain: Toolchain, options: Options) -> Record:
    gpu = toolchain.gpus[0] if toolchain.gpus and options.where == "gpu" else None
    return {
        "device": EMULATED if options.where == "cpu" else gpu.name if gpu else None,
        "driver": gpu.driver if gpu else None,
        "cuda": toolchain.nvcc.version if toolchain.nvcc else None,
        "cutlass": toolchain.cutlass.version if toolchain.cutlass else None,
        "mmagen": mmagen.__version__,
        "seed": options.seed,
    }


def _verdict(
    operation: Operation, parts: Sequence[tuple[Form, Built, FormResult | None]], facts: Record, options: Options
) -> Verdict:
    """One operation's, from all its forms; the worst of them counts."""
    if not parts:
        return _unsupported(operation, facts, options)
    broken = next((built.result for _, built, _ in parts if not built.result.ok), None)
    if broken:
        record = _record(operation, facts) | {"disposition": "failed", "reason": broken.reason}
        return Verdict(operation.name, "failed", (record,), broken.reason, broken.seconds, broken, options.compile_only)
    result = parts[0][1].result
    seconds = sum(built.result.seconds for _, built, _ in parts)
    if all(outcome is None for _, _, outcome in parts):
        return _only_compiled(operation, parts, facts, options, seconds)
    records = [record for form, built, outcome in parts if outcome for record in _records(form, built, outcome, facts)]
    order = ("incorrect", "failed", "not_supported", "passed")
    worst = min((record["disposition"] for record in records), key=order.index)
    reason = next(record["reason"] or "" for record in records if record["disposition"] == worst)
    return Verdict(operation.name, worst, tuple(records), reason, seconds, result, unsuitable=worst == "not_supported")


def _unsupported(operation: Operation, facts: Record, options: Options) -> Verdict:
    """For an operation that nothing was compiled for."""
    reason = operation.broken or (f"needs {needed(operation)}; not one of {', '.join(options.arch)}")
    record = _record(operation, facts) | {"disposition": "not_supported", "reason": reason}
    nothing = BuildResult(operation.name, Path(), True)
    return Verdict(operation.name, "not_supported", (record,), reason, 0.0, nothing, unsuitable=True)


def _only_compiled(
    operation: Operation,
    parts: Sequence[tuple[Form, Built, FormResult | None]],
    facts: Record,
    options: Options,
    seconds: float,
) -> Verdict:
    """For an operation whose instruction is in the code, and that was not to be run or cannot be run here."""
    form, built, _ = parts[0]
    found = f"compiled for {built.batch.arch}, {operation.opcode} is in the code"
    record = _record(operation, facts) | _of_build(built)
    if options.compile_only:
        record |= {"disposition": "not_run", "reason": f"{found}; not run, as asked"}
        return Verdict(operation.name, "not_run", (record,), "", seconds, built.result, True)
    if options.dist and options.dist not in distributions(operation):
        reason = f"{found}; it has no inputs called {options.dist}, only {', '.join(distributions(operation))}"
    else:
        why = "" if form.runs else "; and tensor memory is not filled by a lone instruction"
        here = f", not {facts['device']}" if facts["driver"] and form.runs else ""
        reason = f"{found}; to run it needs {needed(operation)}{here}{why}"
    record |= {"disposition": "not_supported", "reason": reason}
    return Verdict(operation.name, "not_supported", (record,), reason, seconds, built.result, unsuitable=True)


def needed(operation: Operation) -> str:
    """The architectures that an operation runs on, in words."""
    return " or ".join(operation.targets) if operation.targets else f"{operation.arch} or later"


def _records(form: Form, built: Built, outcome: FormResult, facts: Record) -> Iterator[Record]:
    for case in outcome.cases:
        yield (
            _record(form.operation, facts)
            | _of_build(built)
            | {
                "layout": form.text + (f", lines of {case.lines} bytes" if case.lines else ""),
                "input_dist": case.distribution,
                "disposition": case.disposition,
                "max_abs_err": case.error,
                "bound": case.bound,
                "reason": case.reason or None,
                "details": {
                    "launches": case.launches,
                    "elements": case.elements,
                    "incorrect": case.incorrect,
                    "opcode": form.operation.opcode,
                    "arch": built.batch.arch,
                },
            }
        )


def _record(operation: Operation, facts: Record) -> Record:
    types = f"{operation.type_a} x {operation.type_b} + {operation.type_c} -> {operation.type_d}"
    scaled = f", scaled by {operation.type_sf} of {operation.vector}" if operation.block_scaled else ""
    sparse = f", A sparse {operation.sparsity}" if operation.sparse else ""
    known = {
        "name": operation.name,
        "problem": [operation.m, operation.n, STEPS * operation.k],
        "types": types + sparse + scaled,
    }
    return dict.fromkeys(RECORD_FIELDS) | facts | known


def _of_build(built: Built) -> Record:
    kernel = next(iter(built.result.ptxas), None)
    if not kernel:
        return {}
    return {"registers": kernel.registers, "spill_bytes": kernel.spill_stores + kernel.spill_loads}
