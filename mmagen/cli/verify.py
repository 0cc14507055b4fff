"""Implements `mmagen verify`; the work is done in other packages."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mmagen.cli.build import Specs, fit_for, load_specs
from mmagen.cli.outputs import begin, deliver, line_width, made_by, refuse_bad, show
from mmagen.cli.progress import shown
from mmagen.core.errors import ExitCode, RunError, UsageError, most_serious
from mmagen.core.files import content
from mmagen.generate.manifest import MANIFEST, has_tests

if TYPE_CHECKING:
    from mmagen.build.job import BuildResult
    from mmagen.plan.project import ProjectPlan
    from mmagen.spec.model import Problem
    from mmagen.toolchain.find import Toolchain
    from mmagen.verify.verdict import Verdict

# Small, because sanitizers are slow; not a multiple of usual tiles, and with aligned rows for every type.
_SANITIZED_PROBLEM = "224,160,96"
_SANITIZED_GROUPS = ":groups=70+0+1+129+17"  # of a grouped kernel: its problem has groups
_JUDGED = ("passed", "incorrect")  # dispositions of kernels that ran


@dataclass(frozen=True)
class VerifyOptions:
    """Options of `verify`; None and () leave the choice to the program or spec. timeout_s: per program on a
    GPU, per problem emulated."""

    compile_only: bool = False
    where: str = "auto"
    arch: tuple[str, ...] = ()
    bench: bool = False
    problems: tuple[str, ...] = ()
    seed: int | None = None
    dist: str | None = None
    sustained_s: float | None = None
    max_dim: int | None = None
    no_timing: bool = False
    sanitize: tuple[str, ...] = ()
    timeout_s: float = 600.0
    jobs: int | None = None
    verbose: bool = False


def verify(targets: Sequence[Path], options: VerifyOptions, outputs: Mapping[str, str | None]) -> ExitCode:
    """Generate, compile, run and judge `targets` and write the reports. outputs: json, csv, junit, markdown -> file. The JSON
    lines of a project are written when it ends, all others at the end.

    A refused spec does not stop the others; the most serious exit code is returned. Raises MmagenError for errors that affect
    all projects; errors of one project are in its verdict.
    """
    refuse_bad(outputs)
    loaded, folders = _targets(targets)
    loaded.report_refused()
    loaded = fit_for(options.arch, loaded, alone=not folders)
    return most_serious(_verify(loaded, folders, options, outputs), loaded.exit_code)


def _verify(loaded: Specs, folders: Sequence[Path], options: VerifyOptions, outputs: Mapping[str, str | None]) -> ExitCode:
    options = _with_arguments(options, loaded, folders)
    with _projects(loaded, folders) as projects:
        toolchain = _toolchain(options)
        emulates = _emulates(options, toolchain)
        judged = _as_they_end(outputs["json"])
        if emulates:
            return _on_cpu(projects, loaded, folders, toolchain, options, outputs, judged)
        from mmagen.build.build import build as compile_projects
        from mmagen.verify.verdict import exit_code

        asked = [*map(_problems, folders), *(one.plan.problems for one in loaded.planned)]
        programs = ("verify", "bench") if options.bench else ("verify",)
        with shown() as progress:
            results = compile_projects(
                projects, toolchain, arch=options.arch or None, jobs=options.jobs, programs=programs, progress=progress
            )
    verdicts = _run_all(results, [() if options.problems else problems for problems in asked], toolchain, options, judged)
    _report(verdicts, loaded, folders, outputs)
    return exit_code(verdicts)


def _with_arguments(options: VerifyOptions, loaded: Specs, folders: Sequence[Path]) -> VerifyOptions:
    """The options with problems as the programs take them. Raises UsageError for a text that is none."""
    if not options.problems:
        return options
    from mmagen.verify.problem_text import as_argument

    plans = [one.plan for one in loaded.planned] + [plan for plan in map(_plan, folders) if plan]
    return replace(options, problems=tuple(as_argument(problem, plans) for problem in options.problems))


def _as_they_end(file: str | None) -> Callable[[Verdict], None]:
    """What is done with each verdict at once: its JSON lines are written to the file."""
    append = begin(file)

    def judged(verdict: Verdict) -> None:
        from mmagen.report.formats import to_json

        append(to_json([verdict]))

    return judged


def verify_atoms(which: Sequence[str], options: VerifyOptions, outputs: Mapping[str, str | None]) -> ExitCode:
    """Verify MMA operations one by one. Raises MmagenError."""
    from mmagen.cli.verify_atoms import verify as verify_operations

    projects_only = {
        "--bench": options.bench,
        "--problem": options.problems,
        "--max-dim": options.max_dim,
        "--sanitize": options.sanitize,
    }  # --sustained requires --bench
    for option, given in projects_only.items():
        if given:
            raise UsageError(f"{option} cannot be combined with --atoms")
    refuse_bad(outputs)
    with shown() as progress:
        return verify_operations(
            which,
            outputs,
            progress,
            where=options.where,
            compile_only=options.compile_only,
            arch=options.arch,
            dist=options.dist,
            seed=options.seed,
            jobs=options.jobs,
            timeout_s=options.timeout_s,
        )


def _emulates(options: VerifyOptions, toolchain: Toolchain) -> bool:
    """True with --on cpu, and with --on auto if there is no GPU and no option requires one."""
    needs_gpu = options.bench or options.sanitize
    if options.where == "cpu" and needs_gpu:
        raise UsageError("--bench and --sanitize need a GPU; omit --on cpu")
    if options.compile_only or options.where == "gpu":
        return False
    return options.where == "cpu" or not (toolchain.gpus or needs_gpu)


def _on_cpu(
    projects: Sequence[Path],
    loaded: Specs,
    folders: Sequence[Path],
    toolchain: Toolchain,
    options: VerifyOptions,
    outputs: Mapping[str, str | None],
    judged: Callable[[Verdict], None],
) -> ExitCode:
    """Emulate every project's kernel on small problems; the reports state that no GPU was involved."""
    from mmagen.verify.emulated.verify import emulate_all
    from mmagen.verify.verdict import exit_code

    if len(options.arch) > 1:
        raise UsageError(
            f"--arch {','.join(options.arch)}: the emulator executes the PTX of one architecture at a time; give one"
        )
    with shown() as progress:
        verdicts = emulate_all(
            projects,
            toolchain,
            arch=options.arch[0] if options.arch else None,
            problems=options.problems,
            seed=options.seed,
            distribution=options.dist,
            jobs=options.jobs,
            progress=progress,
            max_dim=options.max_dim,
            why="--on cpu" if options.where == "cpu" else toolchain.remedies["gpus"],
            timeout_s=options.timeout_s,
            judged=judged,
        )
    _report(verdicts, loaded, folders, outputs, options.verbose)
    return exit_code(verdicts)


# A program, its arguments, and the sanitizer to run it under, () for none.
_Command = tuple[str, list[str], tuple[str, ...]]


def _targets(targets: Sequence[Path]) -> tuple[Specs, list[Path]]:
    """The specs and the generated projects among the targets, each once."""
    folders = list(dict.fromkeys(target for target in targets if (target / MANIFEST).is_file()))
    for folder in folders:
        if not has_tests(content(folder / MANIFEST)):
            raise UsageError(
                f"{folder} was built with --no-tests and cannot be verified; verify {folder}/spec.yaml, "
                f"or rebuild it with --tests"
            )
    specs = [target for target in targets if target not in folders]
    for target in specs:
        if target.is_dir() and not any(target.glob("*.yaml")):
            raise UsageError(f"{target} is neither a generated project (no mmagen.json) nor a folder of *.yaml specs")
    return (load_specs(specs) if specs else Specs(())), folders


@contextlib.contextmanager
def _projects(loaded: Specs, folders: Sequence[Path]) -> Iterator[list[Path]]:
    """`folders`, and a temporary project for each spec."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="mmagen-") as scratch:
        projects = [*folders]
        if loaded.planned:
            from mmagen.generate.render import render
            from mmagen.generate.write import write

            for one in loaded.planned:
                write(render(one.plan, with_figures=False), Path(scratch) / one.plan.name)
                projects.append(Path(scratch) / one.plan.name)
        yield projects


def _toolchain(options: VerifyOptions) -> Toolchain:
    from mmagen.toolchain.find import COMPILE, EMULATE, find_toolchain

    if options.where == "cpu" and not options.compile_only:
        return find_toolchain(want=EMULATE)  # each further tool costs a process that says its version
    want = [*COMPILE]
    want += [] if options.compile_only and options.arch else ["gpus"]
    want += ["sanitizer"] if options.sanitize and not options.compile_only else []
    toolchain = find_toolchain(want=want)
    # Checked before compiling, which takes minutes. Without a GPU, that is reported instead of the missing tool.
    if toolchain.gpus and toolchain.missing(("sanitizer",)):
        raise RunError(f"compute-sanitizer: not found; {toolchain.remedies['sanitizer']}")
    return toolchain


def _plan(project: Path) -> ProjectPlan | None:
    """The plan of a project's spec; None where it cannot be read."""
    from mmagen.families.reading import read

    path = project / "spec.yaml"
    return read(content(path), str(path))[0] if path.is_file() else None


def _problems(project: Path) -> tuple[Problem, ...]:
    """The problems that a project's program runs by default; () where its spec cannot be read."""
    plan = _plan(project)
    return plan.problems if plan else ()


def _run_all(
    results: Sequence[BuildResult],
    asked: Sequence[Sequence[Problem]],
    toolchain: Toolchain,
    options: VerifyOptions,
    judged: Callable[[Verdict], None],
) -> list[Verdict]:
    """Run the programs one after another: concurrent programs would distort each other's timings. judged: called with each
    verdict."""
    from mmagen.verify.omitted import unsuitable
    from mmagen.verify.problem_text import problem_argument
    from mmagen.verify.verdict import judge

    verdicts = []
    with shown() as progress:
        for number, (result, problems) in enumerate(zip(results, asked, strict=True)):
            if options.compile_only or not result.ok:
                verdicts.append(judge(result, compile_only=options.compile_only))
            elif why := unsuitable(result, toolchain.gpus[0]) if toolchain.gpus else toolchain.remedies["gpus"]:
                verdicts.append(judge(result, no_gpu=why, skipped=[(problem_argument(problem), why) for problem in problems]))
            else:
                progress(number, len(results), f"running {result.name}")
                verdicts.append(_run(result, problems, toolchain, options))
            judged(verdicts[-1])
    return verdicts


def _run(result: BuildResult, problems: Sequence[Problem], toolchain: Toolchain, options: VerifyOptions) -> Verdict:
    """Run the programs of one project."""
    from mmagen.verify.omitted import not_reached
    from mmagen.verify.run import run
    from mmagen.verify.verdict import judge

    runs = [
        run(result, program=program, args=args, timeout_s=options.timeout_s, sanitizer=sanitizer)
        for program, args, sanitizer in _commands(result, problems, toolchain, options)
    ]
    skipped = [*not_reached(problems, runs[0], options.max_dim)]
    if options.bench and "bench" not in result.offered:
        skipped.append(("benchmark", f"kernel: {result.kernel} has no benchmark"))
    return judge(result, *runs, skipped=skipped)


def _commands(
    result: BuildResult, asked: Sequence[Problem], toolchain: Toolchain, options: VerifyOptions
) -> Iterator[_Command]:
    """(program, arguments, sanitizer) for each run of one project. asked: the project's own problems."""
    problems = [part for problem in options.problems for part in ("--problem", problem)]
    seed = ["--seed", str(options.seed)] if options.seed is not None else []
    dist = ["--dist", options.dist] if options.dist else []
    limit = ["--max-dim", str(options.max_dim)] if options.max_dim is not None else []
    yield "verify", [*problems, *seed, *dist, *limit, *(["--no-timing"] if options.no_timing else [])], ()
    if "bench" in result.programs:
        sustained = ["--sustained", f"{options.sustained_s:g}"] if options.sustained_s else []
        yield "bench", [*problems, *seed, *dist, *limit, *sustained], ()
    # Kernels without a benchmark compute one small shape in any case.
    small = problems or (_sanitized(asked) if "bench" in result.offered else [])
    for tool in options.sanitize:
        assert toolchain.sanitizer
        yield "verify", [*small, *seed, *dist, "--no-timing"], (str(toolchain.sanitizer.path), tool)


def _sanitized(asked: Sequence[Problem]) -> list[str]:
    """The small problem for sanitizers, of a gemm with these problems of its own."""
    return ["--problem", _SANITIZED_PROBLEM + (_SANITIZED_GROUPS if any(problem.groups for problem in asked) else "")]


def _maps(verified: Sequence[Verdict], loaded: Specs, folders: Sequence[Path]) -> Iterator[str]:
    """The map of owners of a kernel that was verified alone; of several, the maps from which a device's marks differ."""
    from mmagen.cli.inspect import maps_text

    plans = [*map(_plan, folders), *(one.plan for one in loaded.planned)]
    for plan, verdict in zip(plans, verified, strict=True):
        passed = verdict.disposition == "passed"
        asked = len(verified) == 1 or not passed
        if asked and plan is not None and plan.maps_are_verified and verdict.disposition in _JUDGED:
            says = (
                "every element is marked as this map says"
                if passed
                else "the map of the layout algebra, from which marks differ"
            )
            yield f"{plan.name}: {says}\n\n{maps_text(plan, {})}".rstrip()


def _report(
    verified: Sequence[Verdict],
    loaded: Specs,
    folders: Sequence[Path],
    outputs: Mapping[str, str | None],
    verbose: bool = False,
) -> None:
    """Print and write the reports; refused specs are in them as well."""
    from mmagen.report.coverage import coverage
    from mmagen.report.formats import build_failures, table, to_csv, to_json
    from mmagen.report.junit import to_junit
    from mmagen.report.results import to_markdown
    from mmagen.verify.verdict import refused

    reasons: dict[str, list[str]] = {}
    for diagnostic in loaded.diagnostics:
        reasons.setdefault(diagnostic.file, []).append(str(diagnostic))
    verdicts = [*verified, *(refused(file, "; ".join(lines)) for file, lines in reasons.items())]
    if failures := build_failures(verdicts):
        show(failures, err=True)
    maps = [*_maps(verified, loaded, folders)]
    targets = {one.plan.name: str(one.path) for one in loaded.planned}
    targets |= {json.loads(content(folder / MANIFEST))["name"]: str(folder) for folder in folders}
    covered = [f"{verdict.name}: {paragraph}" for verdict in verdicts for paragraph in coverage(verdict)] if verbose else []
    deliver(
        "\n\n".join([table(verdicts, line_width("-" in outputs.values())), *maps, *covered]),
        outputs,
        {
            "json": lambda: to_json(verdicts),
            "csv": lambda: to_csv(verdicts),
            "junit": lambda: to_junit(verdicts, [str(outputs["json"])] if outputs["json"] not in (None, "-") else (), targets),
            "markdown": lambda: to_markdown(verdicts, **made_by()),
        },
    )
