"""The command line: verbs and options, and the message and exit code of every outcome.

Only click is imported up front; each verb imports what it needs, to keep `mmagen build` fast.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click

from mmagen import __version__
from mmagen.core.errors import ExitCode, MmagenError, SpecError, UsageError

# Besides ExitCode: a bug in mmagen (sysexits' EX_SOFTWARE), a closed pipe, SIGTERM.
INTERNAL_ERROR = 70
BROKEN_PIPE = 128 + signal.SIGPIPE
TERMINATED = 128 + signal.SIGTERM

_PROBLEM = re.compile(r"^\d+,\d+,\d+(,\d+)?(:\w+=[\w.+-]+)*$")
_EPILOG = """\b
Exit codes: 0 success; 1 a result is incorrect (build --check: a project differs); 2 bad spec or usage;
3 build failed; 4 run failed, or only part of the request was done; 77 nothing was verified because no
suitable GPU is present; 130 interrupted; 70 a bug in mmagen. If several apply: 1, then 2, 3, 4, 77.
A refused spec does not stop the other specs."""


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="mmagen", message="%(prog)s %(version)s")
def commands() -> None:
    """Generate and verify CuTe/CUDA projects from YAML specs of tensor-core matrix multiplies."""


_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_SPECS = click.argument("specs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SPEC...")
_JOBS = click.option("-j", "--jobs", type=click.IntRange(1), help="Number of parallel compile steps; default: ninja's choice.")
_ARCH = click.option(
    "--arch",
    multiple=True,
    metavar="ARCH[,ARCH]",
    help="Target architectures, e.g. sm_80,sm_90a; default: the local GPU's, else those of the spec.",
)


def _all_of(*options: _Decorator) -> _Decorator:
    """Combine several options into one decorator, in order."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed(options), command)


_FILTERS = _all_of(
    click.option(
        "--type",
        "type_",
        metavar="TYPE[,TYPE]",
        help="Only operations with A or B of this type; of a list, all must occur in A, B, D or scales: bf16 or e4m3,f32.",
    ),
    click.option("--shape", metavar="MxNxK", help="Only this shape; * matches any extent: 16x8x16 or 64x*x16."),
    click.option("--kind", type=click.Choice(["fma", "mma.sync", "wgmma", "tcgen05"]), help="Only this kind of instruction."),
    click.option("--family", metavar="SM", help="Only operations with this prefix in CuTe: SM80, SM90, SM120, ..."),
    click.option("--sparse/--dense", default=None, help="Only operations with a sparse A, or only those with a dense A."),
)
_REPORTS = _all_of(
    *(
        click.option(f"--{name}", f"{name}_file", metavar="FILE", help=f"Write {what} to FILE; - is stdout.")
        for name, what in (("json", "JSON lines"), ("csv", "CSV"), ("markdown", "a Markdown page"))
    )
)


@commands.command()
@_SPECS
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("generated"),
    show_default=True,
    metavar="DIR",
    help="Write projects to DIR/<name>.",
)
@click.option("--force", is_flag=True, help="Overwrite hand-edited files; each is kept as <file>.orig.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a project in DIR differs from its spec.")
@click.option("--vendor-cutlass", is_flag=True, help="Copy the required CUTLASS headers into the project.")
@click.option(
    "--tests/--no-tests",
    default=None,
    help="Include tests/, the programs that verify and time the project, or not. Default: as in DIR, else include.",
)
@click.option("--compile", "compile_", is_flag=True, help="Also compile with CMake and nvcc.")
@_ARCH
@_JOBS
def build(
    specs: tuple[Path, ...],
    output: Path,
    force: bool,
    check: bool,
    vendor_cutlass: bool,
    tests: bool | None,
    compile_: bool,
    arch: tuple[str, ...],
    jobs: int | None,
) -> int:
    """Generate a project from each SPEC, a file or a folder of *.yaml files."""
    if check and (force or compile_):
        raise UsageError("--check writes and compiles nothing; leave out --force and --compile")
    from mmagen.cli import build as verbs

    return verbs.build(
        specs,
        output,
        force=force,
        check=check,
        vendor=vendor_cutlass,
        tests=tests,
        compile_=compile_,
        arch=_archs(arch),
        jobs=jobs,
    )


@commands.command()
@click.argument("targets", nargs=-1, type=click.Path(path_type=Path), metavar="[SPEC-or-PROJECT...]")
@click.option(
    "--atoms",
    multiple=True,
    metavar="WHICH",
    help="Instead of projects: test MMA operations in isolation, many per "
    "program. WHICH: all, a name, a pattern such as 'SM90_64x*', or keywords such as wgmma,sparse,bf16. Repeatable.",
)
@click.option("--compile-only", is_flag=True, help="Stop after compiling; needs no GPU.")
@click.option(
    "--on",
    "where",
    type=click.Choice(["auto", "gpu", "cpu"]),
    default="auto",
    show_default=True,
    help="cpu emulates the kernel's PTX on small problems; auto does so if there is no GPU; gpu requires a GPU.",
)
@_ARCH
@_REPORTS
@click.option("--junit", "junit_file", metavar="FILE", help="Write JUnit XML to FILE; - is stdout.")
@click.option("--bench", is_flag=True, help="Also run the benchmark of each gemm.")
@click.option(
    "--problem",
    "problems",
    multiple=True,
    metavar="M,N,K[,B][:KEY=X]",
    help="Run this problem instead of the spec's; KEY is ld_pad, offset, alpha or beta. Repeatable.",
)
@click.option("--seed", type=click.IntRange(0), help="Seed of the random inputs.")
@click.option(
    "--dist", type=click.Choice(["uniform", "small_int", "overflow", "zeros"]), help="Use only this distribution of inputs."
)
@click.option(
    "--sustained",
    "sustained_s",
    type=click.FloatRange(0),
    metavar="S",
    help="With --bench: also run each candidate for S seconds.",
)
@click.option("--max-dim", type=click.IntRange(1), help="Skip problems with a larger extent.")
@click.option("--no-timing", is_flag=True, help="Do not measure times.")
@click.option(
    "--sanitize",
    multiple=True,
    type=click.Choice(["memcheck", "racecheck", "initcheck", "synccheck"]),
    help="Also run small problems under this tool of compute-sanitizer. Repeatable.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="S",
    help="Time limit of one program on a GPU, or of one emulated problem, in seconds.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also print which branches and loops the emulated problems reached.")
@_JOBS
def verify(
    targets: tuple[Path, ...],
    atoms: tuple[str, ...],
    json_file: str | None,
    csv_file: str | None,
    junit_file: str | None,
    markdown_file: str | None,
    problems: tuple[str, ...],
    arch: tuple[str, ...],
    **rest: Any,
) -> int:
    """Generate, compile, run and judge each SPEC (a file or a folder of *.yaml files) or generated PROJECT."""
    if bool(targets) == bool(atoms):
        raise UsageError("give either specs or projects to verify, or --atoms WHICH")
    if rest["dist"] == "overflow" and not atoms:
        raise UsageError("--dist overflow requires --atoms WHICH")
    for problem in problems:
        if not _PROBLEM.match(problem):
            raise UsageError(f"--problem {problem}: write it as M,N,K or M,N,K,BATCH, e.g. 4096,4096,1024:ld_pad=8")
    if rest["sustained_s"] and not rest["bench"]:
        raise UsageError("--sustained times the benchmark; add --bench")
    from mmagen.cli import verify as verify_verb

    outputs = {"json": json_file, "csv": csv_file, "junit": junit_file, "markdown": markdown_file}
    options = verify_verb.VerifyOptions(arch=_archs(arch), problems=problems, **rest)
    return verify_verb.verify_atoms(atoms, options, outputs) if atoms else verify_verb.verify(targets, options, outputs)


@commands.command()
@click.argument("spec", type=click.Path(path_type=Path))
def inspect(spec: Path) -> int:
    """Print everything derived from SPEC: layouts, register and shared-memory budgets, bank conflicts, traffic."""
    from mmagen.cli import build as verbs
    from mmagen.inspect.page import inspect as describe

    loaded = verbs.load_specs([spec])
    loaded.report_refused()
    click.echo("\n".join(describe(one.plan) for one in loaded.planned))
    return loaded.exit_code


@commands.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--arch", metavar="ARCH", help="Only operations available on this architecture, e.g. sm_90a.")
@_FILTERS
@click.option(
    "--block-scaled/--not-block-scaled", default=None, help="Only operations with scale factors, or only those without."
)
@click.option("--json", "json_", is_flag=True, help="Print JSON lines with all fields instead of a table or page.")
@click.option("--full", is_flag=True, help="On a page, show all threads, values and variants.")
def atoms(
    names: tuple[str, ...],
    arch: str | None,
    type_: str | None,
    shape: str | None,
    kind: str | None,
    family: str | None,
    sparse: bool | None,
    block_scaled: bool | None,
    json_: bool,
    full: bool,
) -> int:
    """List the MMA operations of CUTLASS, or describe those called NAME: PTX, layouts, thread-value ownership.

    The column "from" states where A and B reside: R registers, S shared memory, T tensor memory.
    """
    from mmagen.cli import atoms as verb

    return verb.atoms(
        names,
        target=_archs((arch,))[0] if arch else None,
        type=type_,
        shape=shape,
        kind=kind,
        family=family,
        sparse=sparse,
        block_scaled=block_scaled,
        json=json_,
        full=full,
    )


@commands.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--arch", metavar="ARCH", help="Target architecture; default: the local GPU's, else sm_90a.")
@_FILTERS
@click.option(
    "--inputs",
    default="random",
    show_default=True,
    metavar="X[,X]",
    help="Values of the operands: random, zeros, ones or an integer from 0 to 7.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.001, 3600),
    default=1.0,
    show_default=True,
    help="Length of each measurement; a warm-up of a quarter of it precedes.",
)
@click.option(
    "--sample-ms",
    type=click.FloatRange(0.01, 10000),
    default=2.0,
    show_default=True,
    help="Length of one sample in the search for the best number of warps and accumulators.",
)
@click.option("--compile-only", metavar="PROGRAM", help="Stop after compiling and write PROGRAM; needs no GPU.")
@click.option("--program", metavar="PROGRAM", help="Compile nothing; run PROGRAM, made with --compile-only.")
@_REPORTS
@click.option("--svg", "svg_file", metavar="FILE", help="Write a bar chart to FILE; - is stdout.")
@_JOBS
def peak(
    names: tuple[str, ...],
    arch: str | None,
    type_: str | None,
    shape: str | None,
    kind: str | None,
    family: str | None,
    sparse: bool | None,
    inputs: str,
    seconds: float,
    sample_ms: float,
    compile_only: str | None,
    program: str | None,
    json_file: str | None,
    csv_file: str | None,
    markdown_file: str | None,
    svg_file: str | None,
    jobs: int | None,
) -> int:
    """Measure the peak rate of MMA operations, without memory traffic: those called NAME, or all that match the filters.

    NAME may contain the wildcards * and ?. The accumulators are compared with predicted values.
    """
    from mmagen.cli import peak as verb

    filters = {"type": type_, "shape": shape, "kind": kind, "family": family, "sparse": sparse}
    settings = verb.settings(inputs, seconds, sample_ms)
    options = verb.Options(
        _archs((arch,))[0] if arch else None,
        settings,
        Path(compile_only) if compile_only else None,
        Path(program) if program else None,
        jobs,
    )
    return verb.peak(names, filters, options, {"json": json_file, "csv": csv_file, "markdown": markdown_file, "svg": svg_file})


@commands.command()
def schema() -> int:
    """Print the JSON Schema of a spec."""
    import json

    from mmagen.spec.model import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
    return ExitCode.OK


@commands.command()
def doctor() -> int:
    """Report which compilers, headers and GPUs are found, and how to install what is missing.

    Exit code 3 if projects cannot be compiled here; a missing GPU is only a note.
    """
    from tabulate import tabulate

    from mmagen.cli.doctor import HEADERS, diagnose
    from mmagen.toolchain.find import find_toolchain

    rows, can_compile = diagnose(find_toolchain())
    click.echo(tabulate(rows, HEADERS, tablefmt="simple", disable_numparse=True))
    return ExitCode.OK if can_compile else ExitCode.BUILD_FAILED


def _archs(texts: Sequence[str]) -> tuple[str, ...]:
    """The distinct sm_ names of `--arch a,b --arch c`. Raises UsageError."""
    if not texts:
        return ()
    from mmagen.build.build import arch_name

    return tuple(dict.fromkeys(arch_name(part.strip()) for text in texts for part in text.split(",")))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line (`arguments`, default sys.argv) and exit the process with its exit code."""
    with _terminable(), _few_collections(process_ends=arguments is None):
        code = _run(sys.argv[1:] if arguments is None else list(arguments))
    sys.exit(int(code))


def _run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; every expected failure prints a message on stderr."""
    try:
        # Not commands.main(): it would turn a closed pipe into exit code 1, which means "incorrect".
        with commands.make_context("mmagen", arguments) as context:
            code = commands.invoke(context)
        sys.stdout.flush()
        return code or ExitCode.OK
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except SpecError as error:
        _say(str(error))
        return error.exit_code
    except MmagenError as error:
        _say(f"mmagen: {error}")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _say("mmagen: interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Nobody reads the rest of the buffer; Python must not try to flush it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.filename is None:
            return _internal(error)
        _say(f"mmagen: {error.filename}: {error.strerror}")
        return ExitCode.USAGE
    except Exception as error:
        return _internal(error)


def _internal(error: Exception) -> int:
    if os.environ.get("MMAGEN_DEBUG"):
        import traceback

        _say("".join(traceback.format_exception(error)).rstrip())
    text = " ".join(str(error).split())
    _say(f"mmagen: internal error, please report it: {type(error).__name__}: {text} (MMAGEN_DEBUG=1 shows where)")
    return INTERNAL_ERROR


def _say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        click.echo(text, err=True)


@contextlib.contextmanager
def _few_collections(process_ends: bool) -> Iterator[None]:
    """Collect garbage less often: a build makes long-lived objects, and collecting takes a tenth of its time.

    process_ends: afterwards nothing more is collected, not even what the restored threshold would collect at once.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        if process_ends:
            gc.freeze()
        gc.set_threshold(*before)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into an orderly exit, so that a cancelled CI job leaves no compiler or kernel running."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: the caller handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
