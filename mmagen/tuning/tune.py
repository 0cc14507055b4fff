"""The course of `mmagen tune`: candidates, one project of them all, measurements into the database, and the library spec.

Everything that was measured is in the database, and only what is missing there is measured: a run that is stopped goes on where it
was.
"""

from __future__ import annotations

import datetime
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mmagen.build.build import build
from mmagen.build.job import BuildResult
from mmagen.core.errors import BuildError, UsageError
from mmagen.core.progress import Progress
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.plan.cost import Call, KernelShape, element_bytes, terms, time_us
from mmagen.plan.plans import GemmPlan
from mmagen.plan.reach import Paths
from mmagen.spec.cost import Cost
from mmagen.spec.model import Problem, Spec
from mmagen.toolchain.model import Toolchain
from mmagen.tuning import database
from mmagen.tuning.candidates import Candidate, candidates, guess, library_of, offered, prune
from mmagen.tuning.database import Contents, Site, Writer
from mmagen.tuning.fit import Kernel, choice_ratio, cross_validated, fit, refine
from mmagen.tuning.measure import BASELINES, Machine, Record, Session, Settings
from mmagen.tuning.nvidia_heuristics import PACKAGE, Heuristics, compared
from mmagen.tuning.nvidia_heuristics import prune as suggested
from mmagen.tuning.page import geometric_mean
from mmagen.tuning.problems import as_argument, problems_of
from mmagen.tuning.select import select
from mmagen.tuning.write import library_text

# Measures kernels of a program on problems: program, kernels, problems, settings, a function for each record, and when to end.
Runner = Callable[[Path, Sequence[str], Sequence[str], Settings, Callable[[Record], None], float | None], Session]

MOST_CONFIGS = 12
_MULTIPROCESSORS = 132  # where the driver does not say
_LEAST_PROBLEMS = 8  # of a config, for its coefficients
_PRUNED_ON = 100  # problems
_FOLDS = 5
_FIT_S = 30.0  # left of a budget for what follows the measurements
_ONE_KERNEL = "TMA cannot address their operands, and all configurations compute such problems by the same kernel"
_SLOW_CLOCK = 0.75  # of the highest clock of a run


@dataclass(frozen=True)
class Options:
    """What to tune on and how long. problems: as `--problems` has it. budget_s: in all, None for no limit. configs: of the library,
    at most. tried: candidates to measure, at most. jobs: compile steps at a time. source: of the candidates to measure, guess or
    nvidia (nvidia-matmul-heuristics)."""

    problems: str = "random:1"
    budget_s: float | None = None
    configs: int = MOST_CONFIGS
    tried: int = 40
    jobs: int | None = None
    settings: Settings = field(default_factory=Settings)
    source: str = "guess"


@dataclass(frozen=True)
class Tuned:
    """The library spec as text, the configs in it, figures as (name, value), and what the user should know, in sentences.

    incorrect, lost: candidates that were wrong, and that failed.
    """

    text: str
    names: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    incorrect: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def tune(
    spec: Spec,
    options: Options,
    base: Path,
    toolchain: Toolchain,
    runner: Runner,
    progress: Progress,
    say: Callable[[str], None],
) -> Tuned:
    """Measure candidates and make a library of the best. base: the database. say: gets a line about each step.

    Raises UsageError for a spec without alternatives or faulty problems, BuildError if nothing compiles, and UsageError if too
    little was measured for a library.
    """
    began = time.monotonic()
    until = None if options.budget_s is None else began + max(options.budget_s - _FIT_S, options.budget_s / 2)
    site = _site(toolchain)
    known = database.read(base)
    machine = Machine(
        toolchain.gpus[0].multiprocessors or _MULTIPROCESSORS, {}
    )  # the same in every run, as the candidates then are
    found = candidates(spec)
    sizes = element_bytes(found[0].plan)
    named = [one for one in problems_of(options.problems, spec.problems or (), sizes) if one.alpha == 1 and one.beta == 0]
    problems = _distinguishing(found[0].plan, named, options.problems)
    random.Random(options.settings.seed).shuffle(problems)  # what a budget leaves out is then a random part
    heuristics = Heuristics(found[0].plan, site.device) if options.source == "nvidia" else None
    some = problems[:_PRUNED_ON]
    tried = suggested(heuristics, found, some, options.tried) if heuristics else prune(found, some, machine, options.tried)
    say(f"{len(found)} legal configurations, {len(tried)} of them to measure on {len(problems)} problems; {site.device}")
    digests = {one.name: database.digest(one.plan) for one in tried}
    session = _measure(tried, digests, problems, known, site, machine, options, base, toolchain, runner, until, progress, say)
    contents = database.read(base)
    notes = [*contents.notes, *session.notes]
    if len(problems) < len(named):
        notes.append(f"{len(named) - len(problems)} problems are left out, since {_ONE_KERNEL}")
    return _library(spec, tried, digests, problems, contents, site, options, notes, heuristics)


def _distinguishing(plan: GemmPlan, problems: Sequence[Problem], source: str) -> list[Problem]:
    """Those that configurations compute by kernels of their own. Raises UsageError if there is none."""
    if not plan.copies_operands:
        return list(problems)
    paths = Paths.of(plan, tma=True)
    found = [problem for problem in problems if paths.is_aligned(problem)]
    if problems and not found:
        raise UsageError(f"--problems {source}: {_ONE_KERNEL}; add problems whose rows are multiples of 16 bytes")
    return found


def check(spec: Spec, problems: str) -> None:
    """What can be refused before anything is looked for: raises UsageError for a spec without alternatives or faulty problems."""
    offered(spec)
    problems_of(problems, spec.problems or (), (1, 1, 1))


@dataclass
class _Measured:
    """What is said of the measurements."""

    notes: list[str] = field(default_factory=list)


def _site(toolchain: Toolchain) -> Site:
    """Of the first GPU."""
    gpu, nvcc = toolchain.gpus[0], toolchain.nvcc
    version = re.match(r"\d+\.\d+", nvcc.version) if nvcc else None
    return Site(gpu.name, gpu.driver, version[0] if version else "")


def _measure(
    tried: Sequence[Candidate],
    digests: Mapping[str, str],
    problems: Sequence[Problem],
    known: Contents,
    site: Site,
    machine: Machine,
    options: Options,
    base: Path,
    toolchain: Toolchain,
    runner: Runner,
    until: float | None,
    progress: Progress,
    say: Callable[[str], None],
) -> _Measured:
    """Measure what the database lacks."""
    done = {(line.kernel, line.problem) for line in known.lines if line.site == site}
    arguments = [as_argument(problem) for problem in problems]
    missing = {name for name in digests for text in arguments if (digests[name], text) not in done}
    left = [text for text in arguments if any((digests[name], text) not in done for name in digests)]
    measured = _Measured()
    if not left:
        say("the database has all measurements")
        return measured
    broken = {line.kernel for line in known.lines if line.site == site and line.disposition in ("failed", "incorrect")}
    names = [one.name for one in tried if one.name in missing and digests[one.name] not in broken]
    if not names:
        return measured
    if len(left) < len(arguments):
        say(f"{len(arguments) - len(left)} problems are in the database, {len(left)} are left")
    with tempfile.TemporaryDirectory(prefix="mmagen-tune-") as folder:
        alive = [one for one in tried if one.name in names]
        result, alive, refused = _compile(alive, machine, Path(folder), toolchain, options.jobs, progress)
        measured.notes += [f"{name} does not compile" for name in refused]
        slow = serialized("\n".join(result.warnings), sorted({one.kernel for one in alive}))
        measured.notes += [f"{name} is left out: ptxas serializes its wgmma" for name in slow]
        alive = [one for one in alive if one.kernel not in slow]
        if not alive:
            return measured
        writer = Writer(base, digests, {one.name: dict(one.keys) for one in tried})
        session = _follow(result, [one.name for one in alive], left, options, runner, writer, site, until, progress)
    measured.notes += _session_notes(session, left, until)
    return measured


def _follow(
    result: BuildResult,
    names: Sequence[str],
    left: Sequence[str],
    options: Options,
    runner: Runner,
    writer: Writer,
    site: Site,
    until: float | None,
    progress: Progress,
) -> Session:
    """Run the measurements, each record into the database, with an estimate of the time left."""
    began = time.monotonic()
    seen: dict[str, None] = {}

    def on_record(record: Record) -> None:
        told = Site(*(str(record.get(key) or "") for key in ("device", "driver", "cuda")))
        writer.add(record, told if told.device else site)  # a kernel that crashed could not say where
        seen[record["problem"]] = None
        rate = (time.monotonic() - began) / len(seen)
        progress(len(seen), len(left), f"{rate * (len(left) - len(seen)):.0f} s left; {record['problem']}")

    try:
        return runner(result.programs["tune"], names, left, options.settings, on_record, until)
    finally:
        writer.close()


def _compile(
    alive: Sequence[Candidate], machine: Machine, folder: Path, toolchain: Toolchain, jobs: int | None, progress: Progress
) -> tuple[BuildResult, list[Candidate], list[str]]:
    """One project of all candidates; those that do not compile are left out. Raises BuildError if none does."""
    refused: list[str] = []
    while alive:
        library = library_of(alive, {one.name: guess(one.plan, machine) for one in alive})
        project = folder / f"try{len(refused)}" / library.name
        write(render(library, with_figures=False), project)
        [result] = build([project], toolchain, jobs=jobs, programs=("tune",), progress=progress)
        if result.ok:
            return result, list(alive), refused
        text = f"{result.log}\n{' '.join(result.errors)}"
        sources = {config.name: config.kernel for config in library.configs}  # of what is left of a kernel's clusters
        culprits = [
            name for name, source in sources.items() if re.search(rf"FAILED[^\n]*/{source}\.cu|\b{source}\.cu[(:]", text)
        ]
        if not culprits:
            raise BuildError(f"the candidates do not compile: {result.reason}")
        refused += culprits
        alive = [one for one in alive if one.name not in culprits]
    raise BuildError(f"none of the {len(refused)} candidates compiles; mmagen build --compile SPEC says why")


def serialized(text: str, kernels: Iterable[str]) -> list[str]:
    """Those kernels of a library for which ptxas says that it waits for each wgmma. They are much slower than others of their tile,
    and what is predicted for them holds for no other kernel. text: what the compiler printed."""
    lines = [line for line in text.splitlines() if "wgmma.mma_async instructions are serialized" in line]
    return [name for name in kernels if any(f"{len(name)}{name}6Config" in line for line in lines)]


def _session_notes(session: Session, left: Sequence[str], until: float | None) -> list[str]:
    notes = [f"{problem} is left out: {reason}" for problem, reason in session.skipped.items()]
    notes += [f"{name} is left out: {reason}" for name, reason in session.lost.items()]
    notes += [f"the measurements ended early: {session.message}"] if session.message else []
    seen = {record["problem"] for record in session.records} | set(session.skipped)
    if until is not None and len(seen) < len(left):
        notes.append(
            f"the budget was spent after {len(seen)} of {len(left)} problems; the same command goes on with the others"
        )
    clocks = [record["sm_clock_mhz"] for record in session.records if record.get("sm_clock_mhz")]
    if clocks and min(clocks) < _SLOW_CLOCK * max(clocks):
        slow = sum(clock < _SLOW_CLOCK * max(clocks) for clock in clocks)
        notes.append(
            f"the SM clock was between {min(clocks):.0f} and {max(clocks):.0f} MHz, below {_SLOW_CLOCK:.0%} of the highest in "
            f"{slow} of {len(clocks)} measurements: power limit, heat or other programs; times of different problems are not "
            "comparable then"
        )
    return notes


# --- The library ---------------------------------------------------------------------------------------------------


def _library(
    spec: Spec,
    tried: Sequence[Candidate],
    digests: Mapping[str, str],
    problems: Sequence[Problem],
    contents: Contents,
    site: Site,
    options: Options,
    notes: Sequence[str],
    heuristics: Heuristics | None,
) -> Tuned:
    measured = database.times(contents.lines, site)
    calls = {as_argument(problem): Call.of(tried[0].plan, problem) for problem in problems}
    machine = (contents.machines or {}).get(site.device) or Machine(_MULTIPROCESSORS, {})
    times: dict[str, dict[Call, float]] = {}
    for one in tried:
        by_problem = measured.get(digests[one.name], {})
        own = {calls[text]: seconds for text, seconds in by_problem.items() if text in calls}
        if len(own) >= _LEAST_PROBLEMS:
            times[one.name] = own
    if not times:
        raise UsageError(f"too little was measured for a library: no configuration on {_LEAST_PROBLEMS} problems or more")
    baselines = {name: {calls[p]: s for p, s in measured.get(name, {}).items() if p in calls} for name in BASELINES}
    by_name = {one.name: one for one in tried}
    every = {name: _kernel(by_name[name].plan, machine) for name in times}
    of_kernel = {name: by_name[name].kernel for name in times}
    of_tile = {name: f"{by_name[name].kernel} {by_name[name].plan.tile_of_d}" for name in times}  # one compute rate
    chosen = select(times, options.configs, baselines[BASELINES[-1]], _predicted(every, times, of_tile), of_kernel)
    kernels = {name: every[name] for name in chosen}
    of_chosen = {name: times[name] for name in chosen}
    costs = refine(kernels, fit(kernels, of_chosen, of_tile), of_chosen)
    figures = _figures(kernels, costs, of_chosen, baselines, of_tile)
    if heuristics:
        ratios = compared(heuristics, tried, times, {calls[as_argument(problem)]: problem for problem in problems})
        figures += [(f"first suggestion of {PACKAGE} over fastest candidate", _spread(ratios))] if ratios else []
    comment = _comment(spec, site, figures, len({call for own in times.values() for call in own}), len(times))
    text = library_text(spec, [(name, by_name[name].keys) for name in chosen], of_kernel, costs, comment)
    bad = {
        line.kernel: line.disposition
        for line in contents.lines
        if line.site == site and line.disposition in ("failed", "incorrect")
    }
    wrong = tuple(name for name in digests if bad.get(digests[name]) == "incorrect")
    lost = tuple(name for name in digests if bad.get(digests[name]) == "failed")
    return Tuned(text, tuple(chosen), tuple(figures), tuple(notes), wrong, lost)


def _predicted(
    kernels: Mapping[str, Kernel], times: Mapping[str, Mapping[Call, float]], compiled: Mapping[str, str]
) -> dict[str, dict[Call, float]]:
    """The times by which a library of these kernels would choose."""
    costs = fit(kernels, times, compiled)
    return {
        name: {call: time_us(costs[name], terms(kernel.shape, kernel.ctas, call)) for call in times[name]}
        for name, kernel in kernels.items()
    }


def _kernel(plan: GemmPlan, machine: Machine) -> Kernel:
    shape = KernelShape.of(plan)
    return Kernel(shape, machine.ctas(shape.group, plan.ctas_per_sm))


def _figures(
    kernels: Mapping[str, Kernel],
    costs: Mapping[str, Cost],
    times: Mapping[str, Mapping[Call, float]],
    baselines: Mapping[str, Mapping[Call, float]],
    compiled: Mapping[str, str],
) -> list[tuple[str, str]]:
    """How good the choice is, on the problems of the fit and on others, and how it compares with cuBLASLt."""
    names = list(kernels)
    calls = [call for call in times[names[0]] if all(call in times[name] for name in names)]
    of_best = [choice_ratio(kernels, costs, times, call) for call in calls]
    figures = [("choice over fastest kernel, same problems", _spread(of_best))]
    if len(calls) >= 2 * _FOLDS and len(names) > 1:
        held = cross_validated(kernels, times, _FOLDS, 0, lambda part: refine(kernels, fit(kernels, part, compiled), part))
        figures.append((f"the same, problems held out ({_FOLDS} folds)", _spread(held.tolist())))
    for name in BASELINES:
        known = [call for call in calls if call in baselines[name]]
        if known:
            best = [baselines[name][call] / min(times[one][call] for one in names) for call in known]
            chosen = [ratio * choice_ratio(kernels, costs, times, call) for ratio, call in zip(best, known, strict=True)]
            figures.append((f"choice over {name}", _spread(chosen)))
    return figures


def _spread(values: Sequence[float]) -> str:
    low = np.percentile(values, 5)
    return f"{geometric_mean(values):.3f} (5th percentile {low:.3f}, lowest {min(values):.3f}, {len(values)} problems)"


def _comment(spec: Spec, site: Site, figures: Sequence[tuple[str, str]], problems: int, tried: int) -> str:
    day = datetime.date.today().isoformat()
    lines = [f"{spec.name}: each problem goes to the kernel with the least predicted time (cost), unless a rule (when) holds."]
    lines.append(
        f"Tuned on {site.device}, driver {site.driver}, CUDA {site.cuda}, {day}: {tried} configurations, {problems} problems."
    )
    return "\n".join([*lines, *(f"{name}: {value}." for name, value in figures)])
