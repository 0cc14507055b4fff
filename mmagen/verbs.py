"""What `mmagen build` and `mmagen verify` do, between the command line and the modules that do the work."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mmagen.errors import BuildError, Diagnostic, ExitCode, RunError, SpecError, SpecFaults, UsageError
from mmagen.manifest import MANIFEST, with_vendored

if TYPE_CHECKING:
    from mmagen.build import BuildResult, Progress
    from mmagen.plan import Plan
    from mmagen.toolchain import Toolchain
    from mmagen.verify import Verdict

# Small, because a sanitizer is slow; no multiple of a usual tile, and its rows are aligned for every type.
_SANITIZED_PROBLEM = ("--problem", "224,160,96")
_QUIET_S = 5.0


@dataclass(frozen=True)
class Planned:
    """A spec file and its plan."""

    path: Path
    plan: Plan


@dataclass(frozen=True)
class VerifyOptions:
    """What `verify` was asked for; None and () mean the program's or spec's own choice. timeout_s: per program."""

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


def load_specs(arguments: Sequence[Path]) -> list[Planned]:
    """Load and plan every spec named by `arguments` (files, or folders of *.yaml), each file once.

    Raises SpecError with the faults of all of them, and UsageError for a path that cannot be used or two specs of one
    name, which would be one project.
    """
    from mmagen.load import load
    from mmagen.plan import plan

    planned: list[Planned] = []
    diagnostics: list[Diagnostic] = []
    for path in _spec_files(arguments):
        try:
            loaded = load(path.read_bytes(), str(path))
            try:
                planned.append(Planned(path, plan(loaded.spec)))
            except SpecFaults as error:
                diagnostics += loaded.source.locate(error.faults)
        except SpecError as error:
            diagnostics += error.diagnostics
    if diagnostics:
        raise SpecError(tuple(diagnostics))
    _refuse_twins([(p.plan.name, p.path) for p in planned])
    return planned


def _spec_files(arguments: Sequence[Path]) -> list[Path]:
    files: dict[Path, Path] = {}
    for argument in arguments:
        found = sorted(argument.glob("*.yaml")) if argument.is_dir() else [argument]
        if not found:
            raise UsageError(f"{argument} has no *.yaml files")
        for path in found:
            if not path.exists():
                raise UsageError(f"{path} does not exist")
            files.setdefault(path.resolve(), path)
    return list(files.values())


def _refuse_twins(named: Sequence[tuple[str, Path]]) -> None:
    places: dict[str, Path] = {}
    for name, path in named:
        if name in places:
            raise UsageError(f"{places[name]} and {path} are both named {name}; give one of them another name")
        places[name] = path


def build(specs: Sequence[Path], output: Path, *, force: bool = False, check: bool = False, vendor: bool = False,
          compile_: bool = False, arch: Sequence[str] = (), jobs: int | None = None) -> ExitCode:
    """Generate each spec's project under `output`, or with `check` only say what differs there; then compile.

    Raises MmagenError; when a project refuses to be overwritten the others are still written.
    """
    from mmagen.render import render

    planned = load_specs(specs)
    headers = _cutlass_headers(planned) if vendor else [{}] * len(planned)
    projects = [(output / p.plan.name, with_vendored(render(p.plan), theirs)) for p, theirs in zip(planned, headers, strict=True)]
    if check:
        return _check(projects)
    from mmagen.write import write

    refused = []
    for folder, files in projects:
        try:
            written = write(files, folder, force)
        except UsageError as error:
            refused.append(str(error))
            continue
        outcome = (("written", written.changed), ("removed", written.removed))
        changes = [f"{len(paths)} {word}" for word, paths in outcome if paths]
        click.echo(f"{folder}: {', '.join(changes) or 'up to date'}")
    if refused:
        raise UsageError("\n".join(refused))
    return _compile([folder for folder, _ in projects], arch, jobs) if compile_ else ExitCode.OK


def _check(projects: Sequence[tuple[Path, Mapping[str, bytes]]]) -> ExitCode:
    from mmagen.write import check

    drift = [folder / path for folder, files in projects for path in check(files, folder)]
    for path in drift:
        click.echo(f"{path} differs")
    if drift:
        click.echo("mmagen: what is committed differs from its spec; run mmagen build again", err=True)
    return ExitCode.INCORRECT if drift else ExitCode.OK


def _cutlass_headers(planned: Sequence[Planned]) -> list[dict[str, bytes]]:
    """What each project takes along of CUTLASS; read once for all that need the same."""
    from mmagen.toolchain import find_toolchain
    from mmagen.vendor import vendor_cutlass

    toolchain = find_toolchain(want=("cutlass",))
    toolchain.need("cutlass")
    assert toolchain.cutlass
    extended = [p.plan.extended for p in planned]
    headers = {kind: vendor_cutlass(toolchain.cutlass.path, kind) for kind in set(extended)}
    return [headers[kind] for kind in extended]


def _compile(folders: Sequence[Path], arch: Sequence[str], jobs: int | None) -> ExitCode:
    from mmagen.build import build as compile_projects
    from mmagen.toolchain import COMPILE, find_toolchain

    toolchain = find_toolchain(want=COMPILE if arch else (*COMPILE, "gpus"))
    with _progress() as progress:
        results = compile_projects(folders, toolchain, arch=arch or None, jobs=jobs, progress=progress)
    for result in results:
        if result.ok:
            how = "from the cache" if result.cached else f"{result.seconds:.1f} s"
            click.echo(f"{result.name}: compiled for {', '.join(result.arch)} ({how})")
            for path in result.programs.values():
                click.echo(f"  {path}")
        _warn(result)
    failed = [result for result in results if not result.ok]
    if failed:
        raise BuildError(_failures(failed))
    return ExitCode.OK


def _warn(result: BuildResult) -> None:
    for warning in result.warnings:
        click.echo(f"{result.name}: {warning}", err=True)


def _failures(failed: Sequence[BuildResult]) -> str:
    lines = [f"{len(failed)} project{'s' * (len(failed) > 1)} did not build"]
    for result in failed:
        lines += [f"  {result.name}: {line}" for line in result.errors or (result.reason,)]
    return "\n".join(lines)


def verify(targets: Sequence[Path], options: VerifyOptions, outputs: Mapping[str, str | None]) -> ExitCode:
    """Generate, compile, run and judge `targets` and write the reports: `outputs` maps json, csv, junit, markdown to a file.

    Raises MmagenError for what stops everything; what happens to one project is in its verdict.
    """
    from mmagen.build import build as compile_projects
    from mmagen.verify import exit_code

    _refuse_bad_outputs(outputs)
    with _projects(targets) as projects:
        toolchain = _toolchain(options)
        if _emulates(options, toolchain):
            return _on_cpu(projects, toolchain, options, outputs)
        programs = ("verify", "bench") if options.bench else ("verify",)
        with _progress() as progress:
            results = compile_projects(projects, toolchain, arch=options.arch or None, jobs=options.jobs,
                                       programs=programs, progress=progress)
    verdicts = _run_all(results, toolchain, options)
    _report(verdicts, outputs)
    return exit_code(verdicts)


def verify_atoms(which: Sequence[str], options: VerifyOptions, outputs: Mapping[str, str | None]) -> ExitCode:
    """Verify MMA operations one by one. Raises MmagenError."""
    from mmagen.micro.verbs import verify as verify_operations

    refused = [name for name in ("bench", "problems", "sustained_s", "max_dim", "sanitize") if getattr(options, name)]
    if refused:
        raise UsageError(f"--{refused[0].removesuffix('_s').rstrip('s').replace('_', '-')} is not for --atoms")
    _refuse_bad_outputs(outputs)
    with _progress() as progress:
        return verify_operations(which, outputs, progress, where=options.where, compile_only=options.compile_only,
                                 arch=options.arch, dist=options.dist, seed=options.seed, jobs=options.jobs,
                                 timeout_s=options.timeout_s)


def _emulates(options: VerifyOptions, toolchain: Toolchain) -> bool:
    """On the CPU when asked to, or when nobody asked for anything that only a GPU can do and there is none."""
    needs_gpu = options.bench or options.sanitize
    if options.where == "cpu" and needs_gpu:
        raise UsageError("--bench and --sanitize need a GPU: leave --on cpu out")
    if options.compile_only or options.where == "gpu":
        return False
    return options.where == "cpu" or not (toolchain.gpus or needs_gpu)


def _on_cpu(projects: Sequence[Path], toolchain: Toolchain, options: VerifyOptions,
            outputs: Mapping[str, str | None]) -> ExitCode:
    """Emulate every project's kernel on small problems: no GPU has a part in it, and the reports say so."""
    from mmagen.cpu.verbs import emulate_all
    from mmagen.verify import exit_code

    if len(options.arch) > 1:
        raise UsageError(f"--arch {','.join(options.arch)}: the CPU executes the PTX of one architecture at a time")
    with _progress() as progress:
        verdicts = emulate_all(projects, toolchain, arch=options.arch[0] if options.arch else None,
                               problems=options.problems, seed=options.seed, distribution=options.dist,
                               jobs=options.jobs, progress=progress, max_dim=options.max_dim)
    _report(verdicts, outputs)
    return exit_code(verdicts)


@contextlib.contextmanager
def _projects(targets: Sequence[Path]) -> Iterator[list[Path]]:
    """The project folder of each target: itself, or one generated for now."""
    import tempfile

    def is_project(target: Path) -> bool:
        return (target / MANIFEST).is_file()

    specs = [target for target in targets if not is_project(target)]
    for target in specs:
        if target.is_dir() and not any(target.glob("*.yaml")):
            raise UsageError(f"{target} is neither a generated project (no mmagen.json) nor a folder of *.yaml specs")
    planned = load_specs(specs) if specs else []
    with tempfile.TemporaryDirectory(prefix="mmagen-") as folder:
        projects = list(dict.fromkeys(target for target in targets if is_project(target)))
        if planned:
            from mmagen.render import render
            from mmagen.write import write

            for one in planned:
                write(render(one.plan), Path(folder) / one.plan.name)
                projects.append(Path(folder) / one.plan.name)
        yield projects


def _toolchain(options: VerifyOptions) -> Toolchain:
    from mmagen.toolchain import COMPILE, find_toolchain

    want = [*COMPILE]
    want += [] if options.compile_only and options.arch else ["gpus"]
    want += ["sanitizer"] if options.sanitize and not options.compile_only else []
    toolchain = find_toolchain(want=want)
    # Asked before anything is compiled: minutes later is too late to hear that a tool is not there. Without a GPU
    # nothing would run under it either, and that is the better thing to be told.
    if toolchain.gpus and toolchain.missing(("sanitizer",)):
        raise RunError(f"compute-sanitizer: not found; {toolchain.remedies['sanitizer']}")
    return toolchain


def _run_all(results: Sequence[BuildResult], toolchain: Toolchain, options: VerifyOptions) -> list[Verdict]:
    """Run one program after the other: two at once on one GPU would spoil each other's times."""
    from mmagen.run import run
    from mmagen.verify import judge

    verdicts = []
    with _progress() as progress:
        for number, result in enumerate(results):
            if options.compile_only or not result.ok:
                verdicts.append(judge(result, compile_only=options.compile_only))
            elif not toolchain.gpus:
                verdicts.append(judge(result, no_gpu=toolchain.remedies["gpus"]))
            else:
                progress(number, len(results), f"running {result.name}")
                runs = [run(result, program=program, args=args, timeout_s=options.timeout_s, sanitizer=sanitizer)
                        for program, args, sanitizer in _commands(result, toolchain, options)]
                verdicts.append(judge(result, *runs))
    return verdicts


def _commands(result: BuildResult, toolchain: Toolchain, options: VerifyOptions):
    """(program, arguments, sanitizer) for each run of one project."""
    problems = [part for problem in options.problems for part in ("--problem", problem)]
    seed = ["--seed", str(options.seed)] if options.seed is not None else []
    dist = ["--dist", options.dist] if options.dist else []
    limit = ["--max-dim", str(options.max_dim)] if options.max_dim is not None else []
    yield "verify", [*problems, *seed, *dist, *limit, *(["--no-timing"] if options.no_timing else [])], ()
    if "bench" in result.programs:
        sustained = ["--sustained", f"{options.sustained_s:g}"] if options.sustained_s else []
        yield "bench", [*problems, *seed, *dist, *limit, *sustained], ()
    # Kernels other than gemm do one small shape anyway.
    small = problems or (_SANITIZED_PROBLEM if result.kernel == "gemm" else ())
    for tool in options.sanitize:
        assert toolchain.sanitizer
        yield "verify", [*small, *seed, *dist, "--no-timing"], (str(toolchain.sanitizer.path), tool)


def _refuse_bad_outputs(outputs: Mapping[str, str | None]) -> None:
    if sum(file == "-" for file in outputs.values()) > 1:
        raise UsageError("only one of --json, --csv, --junit and --markdown can go to the standard output")
    for kind, file in outputs.items():
        if file and file != "-" and (Path(file).is_dir() or not Path(file).absolute().parent.is_dir()):
            raise UsageError(f"--{kind} {file}: not a file in an existing folder")


def _report(verdicts: Sequence[Verdict], outputs: Mapping[str, str | None]) -> None:
    from mmagen.report import build_failures, table, to_csv, to_json, to_junit

    if failures := build_failures(verdicts):
        click.echo(failures, err=True)
    # Whoever pipes a format wants nothing else in the pipe; the table then goes to the other stream.
    click.echo(table(verdicts), err="-" in outputs.values())
    for kind, spell in (("json", to_json), ("csv", to_csv), ("junit", to_junit), ("markdown", _page)):
        file = outputs.get(kind)
        if file == "-":
            click.echo(spell(verdicts), nl=False)
        elif file:
            Path(file).write_text(spell(verdicts), "utf-8")


def _page(verdicts: Sequence[Verdict]) -> str:
    import datetime

    from mmagen.results import to_markdown

    return to_markdown(verdicts, command=" ".join(["mmagen", *sys.argv[1:]]), date=datetime.date.today().isoformat())


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on a terminal; else a short line now and then, so that a log shows that something happens."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def tell(done: int, total: int, what: str) -> None:
            nonlocal last
            if time.monotonic() - last >= _QUIET_S:
                last = time.monotonic()
                click.echo(f"[{done}/{total}] {what}", err=True)

        yield tell
        return
    from tqdm import tqdm

    bars: list[tqdm] = []

    def show(done: int, total: int, what: str) -> None:
        if not bars:
            bars.append(tqdm(total=total, leave=False, bar_format="{n}/{total} {bar} {elapsed} {desc}"))
        bar = bars[0]
        bar.total = total
        bar.n = done
        bar.set_description_str(what[:60], refresh=True)

    try:
        yield show
    finally:
        for bar in bars:
            bar.close()
