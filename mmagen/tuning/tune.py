"""The course of `mmagen tune`: candidates, one project of them all, measurements into the database, and the library spec.

Everything that was measured is in the database, and only what is missing there is measured: a run that is stopped goes on where it
was.
"""

from __future__ import annotations

import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mmagen.build.build import build
from mmagen.build.job import BuildResult
from mmagen.core.errors import BuildError, UsageError
from mmagen.core.progress import Progress
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.plan.cost import Call, element_bytes
from mmagen.spec.model import Problem, Spec
from mmagen.toolchain.model import Toolchain
from mmagen.tuning import database, outcome
from mmagen.tuning.calls import ONE_KERNEL, Calls
from mmagen.tuning.candidates import Candidate, candidates, compiled_together, guess, library_of, offered, prune
from mmagen.tuning.database import Contents, Site, Writer
from mmagen.tuning.measure import BASELINES, Machine, Record, Session, Settings
from mmagen.tuning.nvidia_heuristics import PACKAGE, Heuristics, compared
from mmagen.tuning.nvidia_heuristics import prune as suggested
from mmagen.tuning.objective import Ratios
from mmagen.tuning.problems import as_argument, is_random, problems_of, random_problems
from mmagen.tuning.weights import Weights, as_random

# Measures kernels of a program on problems: program, kernels, problems, settings, a function for each record, and when to end.
Runner = Callable[[Path, Sequence[str], Sequence[str], Settings, Callable[[Record], None], float | None], Session]

MOST_CONFIGS = 12
_MULTIPROCESSORS = 132  # where the driver does not say
MOST_TRIED = 100
_PRUNED_ON = 100  # problems
_DRAWN_SEED, _DRAWN = 1000, 4000  # random problems, whose kinds decide how much a measured one counts
# What is left of a budget for what follows the measurements, in seconds, and for each candidate.
_FIT_S, _FIT_EACH_S = 10.0, 0.4
# Of the measurements, in seconds: compiling a candidate on one processor, and a candidate on a problem on one GPU (docs/tuning.md).
_COMPILE_S = 47 * 16 / 40
_MEASURE_S = (200 - 35 * _COMPILE_S / 16) / 35 / 247
_LEAST_TRIED = 8
_SLOW_CLOCK = 0.75  # of the highest clock of a run


@dataclass(frozen=True)
class Options:
    """What to tune on and how long. problems: as `--problems` has it. budget_s: in all, None for no limit. configs: of the library,
    at most. tried: candidates to measure, at most; fewer where the budget suffices for fewer. jobs: compile steps at a time.
    source: of the candidates to measure, guess or nvidia (nvidia-matmul-heuristics). judged_by: how much problems count, "random":
    as among random ones, or "measured": each the same; "" for random if the problems are. measure: else the library is made of what
    the database has."""

    problems: str = "random:1"
    budget_s: float | None = None
    configs: int = MOST_CONFIGS
    tried: int = MOST_TRIED
    jobs: int | None = None
    settings: Settings = field(default_factory=Settings)
    source: str = "guess"
    judged_by: str = ""
    measure: bool = True


@dataclass(frozen=True)
class Tuned:
    """The library spec as text, the configs in it, figures as (name, value), and what the user should know, in sentences.

    incorrect, lost: candidates that were wrong, and that failed. recommended: is it better than the spec's own library?
    """

    text: str
    names: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    incorrect: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    recommended: bool = True


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
    known = database.read(base)
    site = _site(toolchain) if options.measure else database.site_of(known, base)
    found = list(candidates(spec))
    multiprocessors = toolchain.gpus[0].multiprocessors if toolchain.gpus else None
    machine = Machine(multiprocessors or _MULTIPROCESSORS, {})  # the same in every run, as the candidates then are
    sizes, calls = element_bytes(found[0].plan), calls_of(found, machine)
    named = [one for one in problems_of(options.problems, spec.problems or (), sizes) if one.alpha == 1 and one.beta == 0]
    distinguishing = calls.distinguishing(named, options.problems)
    problems = calls.distinct(distinguishing)
    random.Random(options.settings.seed).shuffle(problems)  # what a budget leaves out is then a random part
    heuristics = Heuristics(found[0].plan, site.device) if options.source == "nvidia" else None
    gpus = max(1, len(toolchain.gpus))
    tried = compiled_together(_tried(found, problems, calls, machine, gpus, options, known, site, heuristics))
    say(f"{len(found)} legal configurations, {len(tried)} of them to measure on {len(problems)} problems; {site.device}")
    digests = {one.name: database.digest(one.plan) for one in tried}
    left_out = (
        (len(named) - len(distinguishing), f"since {ONE_KERNEL}"),
        (len(distinguishing) - len(problems), "since the library cannot tell them from others of the list"),
    )
    notes = [f"{count} problems are left out, {why}" for count, why in left_out if count]
    if options.measure:
        left = _FIT_S + _FIT_EACH_S * len(tried)
        until = None if options.budget_s is None else began + max(options.budget_s - left, options.budget_s / 2)
        session = _measure(
            tried, digests, problems, known, site, machine, options, base, toolchain, runner, until, progress, say
        )
        known, notes = database.read(base), [*session.notes, *notes]
    tried = [*tried, *_of_earlier_runs(found, tried, known, site)]
    digests |= {one.name: database.digest(one.plan) for one in tried if one.name not in digests}
    return _library(spec, tried, digests, problems, calls, known, site, options, [*known.notes, *notes], heuristics)


def _tried(
    found: Sequence[Candidate],
    problems: Sequence[Problem],
    calls: Calls,
    machine: Machine,
    gpus: int,
    options: Options,
    known: Contents,
    site: Site,
    heuristics: Heuristics | None,
) -> list[Candidate]:
    """The candidates to measure on `gpus` GPUs; without `options.measure`, those that the database has. Raises UsageError if it has
    none."""
    if not options.measure:
        names = {line.name for line in known.lines if line.site == site}
        if not (measured := [one for one in found if one.name in names]):
            raise UsageError("--measured-only: the database has no measurements of candidates of this spec")
        return measured
    some, most = problems[:_PRUNED_ON], affordable(options, len(problems), gpus)
    if heuristics:
        return suggested(heuristics, found, some, most)
    weights = _weights(element_bytes(found[0].plan), some, calls, options)
    return prune(found, [calls.of(problem) for problem in some], machine, most, weights.of)


def _of_earlier_runs(found: Sequence[Candidate], tried: Sequence[Candidate], known: Contents, site: Site) -> list[Candidate]:
    """Candidates of other kernels than those tried, which the database has and none of which was wrong or failed: a smaller budget
    leaves them out of the measurements, but not out of the library."""
    lines = [line for line in known.lines if line.site == site]
    names = {line.name for line in lines} - {line.name for line in lines if line.disposition in ("failed", "incorrect")}
    kernels = {one.kernel for one in tried}
    return compiled_together([one for one in found if one.name in names and one.kernel not in kernels])


def affordable(options: Options, problems: int, gpus: int = 1) -> int:
    """How many candidates can be compiled, and measured on `problems` problems with `gpus` GPUs, within the budget."""
    if options.budget_s is None:
        return options.tried
    jobs = options.jobs or os.cpu_count() or 1
    each = _COMPILE_S / jobs + _MEASURE_S * problems / gpus + _FIT_EACH_S
    return min(options.tried, max(_LEAST_TRIED, int((options.budget_s - _FIT_S) / each)))


def calls_of(found: Sequence[Candidate], machine: Machine) -> Calls:
    """Of the library of the spec's own configs, or of its kernel alone."""
    own = [one for one in found if one.own] or found[:1]
    return Calls(library_of(own, {one.name: guess(one.plan, machine) for one in own}))


def check(spec: Spec, problems: str) -> None:
    """What can be refused before anything is looked for: raises UsageError for a grouped spec, one without alternatives, or faulty
    problems."""
    if spec.grouped:
        raise UsageError(
            f"{spec.name}: grouped kernels are not tuned, because their times depend on the sizes of the groups; compare specs "
            "with mmagen verify --bench"
        )
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
    calls: Calls,
    contents: Contents,
    site: Site,
    options: Options,
    notes: Sequence[str],
    heuristics: Heuristics | None,
) -> Tuned:
    by_kernel = database.times(contents.lines, site)
    of_text = {as_argument(problem): calls.of(problem) for problem in problems}

    def seconds(kernel: str) -> dict[Call, float]:
        return {of_text[text]: one for text, one in by_kernel.get(kernel, {}).items() if text in of_text}

    first, best = (seconds(name) for name in BASELINES)
    # In older databases, the fastest of the first eight was found by few samples of each, and may be slower than the first.
    best = {call: min(one, first.get(call, one)) for call, one in best.items()}
    weights = _weights(element_bytes(tried[0].plan), problems, calls, options)
    measured = outcome.Measured.of(
        tried,
        {one.name: seconds(digests[one.name]) for one in tried},
        dict(zip(BASELINES, (first, best), strict=True)),
        weights.of,
        {calls.of(problem): problem for problem in problems},
        calls.copied(problems),
        (contents.machines or {}).get(site.device) or Machine(_MULTIPROCESSORS, {}),
        site,
    )
    made = outcome.made_of(measured, measured.times, options.configs)
    verdict = outcome.compared(
        measured, outcome.held_out(measured, options.configs), outcome.present(spec, measured), spec.name
    )
    figures = [*outcome.figures_of(made, measured), *verdict.figures]
    if heuristics and (ratios := compared(heuristics, tried, measured.times, measured.problems)):
        figures.append((f"first suggestion of {PACKAGE} over fastest candidate", Ratios(ratios, [1.0] * len(ratios)).text))
    said = [*notes, *weights.missing, *([verdict.worse] if verdict.worse else [])]
    bad = {
        line.kernel: line.disposition
        for line in contents.lines
        if line.site == site and line.disposition in ("failed", "incorrect")
    }
    wrong = tuple(name for name in digests if bad.get(digests[name]) == "incorrect")
    lost = tuple(name for name in digests if bad.get(digests[name]) == "failed")
    text = outcome.text_of(spec, made, measured, figures, verdict.worse)
    return Tuned(text, tuple(made.kernels), tuple(figures), tuple(said), wrong, lost, not verdict.worse)


def _weights(sizes: tuple[int, int, int], problems: Sequence[Problem], calls: Calls, options: Options) -> Weights:
    """How much the call of each problem counts. sizes: bytes of an element of A, B and D."""
    measured = [calls.of(problem) for problem in problems]
    if not (options.judged_by == "random" or (not options.judged_by and is_random(options.problems))):
        return Weights(dict.fromkeys(measured, 1.0))
    drawn = calls.distinguishing(random_problems(_DRAWN_SEED, _DRAWN, sizes), "random")
    return as_random(measured, [calls.of(problem) for problem in drawn], sizes, calls.copied((*problems, *drawn)))
