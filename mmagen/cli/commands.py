"""The verbs and their options.

Only click is imported up front; each verb imports what it needs, to keep `mmagen build` fast.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from mmagen import __version__
from mmagen.cli import diff as diff_verb
from mmagen.cli import new as new_verb
from mmagen.cli.options import ARCH, FILTERS, JOBS, REPORTS, SPECS, cached, target_names
from mmagen.core.errors import ExitCode, UsageError

# Of mmagen.plan.devices, which is not imported for other verbs; tests compare the two.
DEVICE_NAMES = ("v100", "t4", "a100", "h100", "h200")
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


commands.add_command(new_verb.command)
commands.add_command(diff_verb.command)


@commands.command()
@SPECS
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
@ARCH
@JOBS
@cached
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
        arch=target_names(arch),
        jobs=jobs,
    )


@commands.command()
@SPECS
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="The folder of the library; if it has one, it is updated.",
)
@click.option("--name", metavar="NAME", help="Of the library: a C identifier. Default: as in DIR, else DIR's own name.")
@click.option("--vendor-cutlass", is_flag=True, help="Copy the required CUTLASS headers too.")
@click.option("--force", is_flag=True, help="Overwrite hand-edited files; each is kept as <file>.orig.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if DIR differs from the specs.")
@cached
def vendor(specs: tuple[Path, ...], into: Path, name: str | None, vendor_cutlass: bool, force: bool, check: bool) -> int:
    """Generate one library with the kernels of all SPECs, to be kept in another project's sources."""
    if check and force:
        raise UsageError("--check writes nothing; leave out --force")
    from mmagen.cli import vendor as verb

    return verb.vendor(specs, into, name=name, cutlass=vendor_cutlass, force=force, check=check)


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
@ARCH
@REPORTS
@click.option("--junit", "junit_file", metavar="FILE", help="Write JUnit XML to FILE; - is stdout.")
@click.option("--bench", is_flag=True, help="Also run the benchmark of each gemm.")
@click.option(
    "--problem",
    "problems",
    multiple=True,
    metavar="M,N,K[,B][:KEY=X]",
    help="Run this problem instead of the spec's; KEY is ld_pad, offset, alpha, beta or batch_stride_a. Repeatable.",
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
@JOBS
@cached
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
    options = verify_verb.VerifyOptions(arch=target_names(arch), problems=problems, **rest)
    return verify_verb.verify_atoms(atoms, options, outputs) if atoms else verify_verb.verify(targets, options, outputs)


@commands.command()
@SPECS
@click.option(
    "--ownership", is_flag=True, help="Also print who owns each element of A, B and C, for the atom and the CTA tile."
)
@click.option(
    "--window",
    metavar="RANGES",
    help="What to print of these maps, e.g. m=0:32,n=8:16; all for everything. Implies --ownership.",
)
@click.option("--json", "json_", is_flag=True, help="Print a line of JSON for each spec.")
@click.option("--device", type=click.Choice(DEVICE_NAMES), help="Describe launches on this device.")
@click.option("--html", type=click.Path(path_type=Path), metavar="DIR", help="Write the page with pictures to DIR/<name>.html.")
@click.option("--svg", type=click.Path(path_type=Path), metavar="DIR", help="Write the pictures to DIR/<name>-*.svg.")
@click.option("--png", type=click.Path(path_type=Path), metavar="DIR", help="The same as PNG; needs the extra mmagen[png].")
def inspect(
    specs: tuple[Path, ...],
    ownership: bool,
    window: str | None,
    json_: bool,
    device: str | None,
    html: Path | None,
    svg: Path | None,
    png: Path | None,
) -> int:
    """Print everything derived from each SPEC (a file or a folder of *.yaml files): layouts, register and shared-memory
    budgets, bank conflicts, traffic, owners of elements."""
    from mmagen.cli.inspect import Folders
    from mmagen.cli.inspect import inspect as verb

    return verb(specs, ownership=ownership, window=window, json_=json_, device=device, folders=Folders(html, svg, png))


@commands.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--arch", metavar="ARCH", help="Only operations available on this architecture, e.g. sm_90a.")
@FILTERS
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
        target=target_names((arch,))[0] if arch else None,
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
@FILTERS
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
@REPORTS
@click.option("--svg", "svg_file", metavar="FILE", help="Write a bar chart to FILE; - is stdout.")
@JOBS
@cached
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
        target_names((arch,))[0] if arch else None,
        settings,
        Path(compile_only) if compile_only else None,
        Path(program) if program else None,
        jobs,
    )
    return verb.peak(names, filters, options, {"json": json_file, "csv": csv_file, "markdown": markdown_file, "svg": svg_file})


@commands.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "--problems",
    default="random:1",
    show_default=True,
    metavar="SOURCE",
    help="What to tune on: a file with M N K [BATCH] a line, spec (its problems), random:SEED[:COUNT], or models (projections of "
    "public language models).",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="The library spec; default: <name>_tuned.yaml.")
@click.option(
    "--database",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Measurements, appended to; default: beside --out, .jsonl.",
)
@click.option(
    "--budget", metavar="TIME", help="Stop measuring in time, e.g. 20m; the same command goes on later. Default: no limit."
)
@click.option(
    "--configs", type=click.IntRange(1, 64), default=12, show_default=True, help="Configurations of the library, at most."
)
@click.option(
    "--tried", type=click.IntRange(1, 1000), default=40, show_default=True, help="Configurations to measure, at most."
)
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the inputs and of the order of problems."
)
@click.option("--scheduler", default="", metavar="ADDRESS", help="A Dask scheduler with a worker process for each GPU.")
@JOBS
@cached
def tune(
    spec: Path,
    problems: str,
    out: Path | None,
    database: Path | None,
    budget: str | None,
    configs: int,
    tried: int,
    seed: int,
    scheduler: str,
    jobs: int | None,
) -> int:
    """Measure configurations of SPEC and write a library spec of the best, chosen by predicted time.

    Every configuration is verified on every problem before it is timed there. The database has everything that was measured;
    what is in it is not measured again.
    """
    from mmagen.cli import tune as verb
    from mmagen.tuning.measure import Settings
    from mmagen.tuning.tune import Options

    limit = verb.seconds(budget) if budget else None
    options = Options(problems, limit, configs, tried, jobs, Settings(seed=seed))
    return verb.run(spec, verb.Places(out or spec.with_name(f"{spec.stem}_tuned.yaml"), database, scheduler, options))


@commands.command()
@click.argument("old", type=click.Path(path_type=Path, dir_okay=False), metavar="OLD.json")
@click.argument("new", type=click.Path(path_type=Path, dir_okay=False), metavar="NEW.json")
@click.option(
    "--noise",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="A speed that changed by this fraction or less counts as equal.",
)
def compare(old: Path, new: Path, noise: float) -> int:
    """Compare two reports of verify --json: verdicts, ratios to cuBLASLt, times. Exit code 1 on a regression."""
    from mmagen.cli import compare as verb

    return verb.compare(old, new, noise)


@commands.group()
def cache() -> None:
    """The cache of compiled projects, PTX and templates."""


@cache.command("info")
def cache_info() -> int:
    """Say where the cache is, what is in it, and how much space that takes."""
    from mmagen.cli import cache as verbs

    return verbs.info()


@cache.command("prune")
@click.option(
    "--days", type=click.FloatRange(0), help="Remove what was not used for so many days; default 30 without --max-size."
)
@click.option("--max-size", metavar="SIZE", help="Remove the longest unused until SIZE is left, e.g. 500M or 2G.")
def cache_prune(days: float | None, max_size: str | None) -> int:
    """Remove what was not used for long."""
    from mmagen.cli import cache as verbs

    return verbs.prune(days, max_size)


@cache.command("clear")
def cache_clear() -> int:
    """Remove all of it."""
    from mmagen.cli import cache as verbs

    return verbs.clear()


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
