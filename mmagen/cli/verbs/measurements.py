"""Verbs that measure on a GPU: peak, tune."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mmagen.cli.inputs import Finite, Place
from mmagen.cli.options import FILTERS, JOBS, REPORTS, architecture_names, cached, operation_names, target_names


@click.command(short_help="Measure the peak rates of operations.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=operation_names)
@click.option(
    "--arch",
    metavar="ARCH",
    shell_complete=architecture_names,
    help="Target architecture; default: the local GPU's, else sm_90a.",
)
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
    type=Finite(0.001, 3600),
    default=1.0,
    show_default=True,
    help="Length of each measurement; a warm-up of a quarter of it precedes.",
)
@click.option(
    "--sample-ms",
    type=Finite(0.01, 10000),
    default=2.0,
    show_default=True,
    help="Length of one sample in the search for the best number of warps and accumulators.",
)
@click.option("--compile-only", metavar="PROGRAM", help="Stop after compiling and write PROGRAM; needs no GPU.")
@click.option("--program", metavar="PROGRAM", help="Compile nothing; run PROGRAM, made with --compile-only.")
@click.option(
    "--list", "lists", is_flag=True, help="Print which operations can be measured on which architectures; measure nothing."
)
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
    lists: bool,
    json_file: str | None,
    csv_file: str | None,
    markdown_file: str | None,
    svg_file: str | None,
    jobs: int | None,
) -> int:
    """Measure the peak rate of MMA operations, without memory traffic: those called NAME, or all that match the filters.

    NAME may contain the wildcards * and ?, or be a PTX instruction or the beginning of one. The accumulators
    are compared with predicted values.
    """
    from mmagen.cli import peak as verb

    filters = {"type": type_, "shape": shape, "kind": kind, "family": family, "sparse": sparse}
    target = target_names((arch,))[0] if arch else None
    if lists:
        return verb.list_operations(names, filters, target)
    settings = verb.settings(inputs, seconds, sample_ms)
    options = verb.Options(
        target,
        settings,
        Path(compile_only) if compile_only else None,
        Path(program) if program else None,
        jobs,
    )
    return verb.peak(names, filters, options, {"json": json_file, "csv": csv_file, "markdown": markdown_file, "svg": svg_file})


@click.command(short_help="Measure configurations, write a library of the best.")
@click.argument("spec", type=Place(path_type=Path))
@click.option(
    "--problems",
    default="random:1",
    show_default=True,
    metavar="SOURCE",
    help="What to tune on: a file with one problem per line, M N K [BATCH], spec (its problems), random:SEED[:COUNT], or models "
    "(projections of public language models).",
)
@click.option("--out", type=Place(path_type=Path), metavar="FILE", help="The library spec; default: <name>_tuned.yaml.")
@click.option(
    "--database",
    type=Place(path_type=Path),
    metavar="FILE",
    help="File to which measurements are appended; default: next to --out, .jsonl.",
)
@click.option(
    "--budget", metavar="TIME", help="Stop after this time, e.g. 20m; the same command resumes later. Default: no limit."
)
@click.option(
    "--configs",
    type=click.IntRange(1, 64),
    default=12,
    show_default=True,
    help="Maximum number of configurations in the library.",
)
@click.option(
    "--tried",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Maximum number of configurations to measure; fewer if --budget allows fewer.",
)
@click.option(
    "--judged-by",
    type=click.Choice(["random", "measured"]),
    help="Weights of the problems: random weights each by how frequent its kind is among random problems, measured all alike. "
    "Default: random if --problems is.",
)
@click.option("--measured-only", is_flag=True, help="Make the library from the measurements in the database; needs no GPU.")
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the inputs and of the order of problems."
)
@click.option(
    "--source",
    type=click.Choice(["guess", "nvidia"], case_sensitive=False),
    default="guess",
    show_default=True,
    help="What proposes the configurations: mmagen's own estimate of their times, or nvidia-matmul-heuristics, NVIDIA's model.",
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
    judged_by: str | None,
    measured_only: bool,
    seed: int,
    source: str,
    scheduler: str,
    jobs: int | None,
) -> int:
    """Measure configurations of SPEC and write a library spec of the best, chosen by predicted time.

    Every configuration is verified on every problem before it is timed there. All measurements are kept in the database and are not
    repeated.
    """
    # Matrices of the fit are small, and threads of BLAS would wait for each other. It reads this as it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from mmagen.cli import tune as verb
    from mmagen.tuning.measure import Settings
    from mmagen.tuning.tune import Options

    limit = verb.seconds(budget) if budget else None
    options = Options(problems, limit, configs, tried, jobs, Settings(seed=seed), source, judged_by or "", not measured_only)
    return verb.run(spec, verb.Places(out or spec.with_name(f"{spec.stem}_tuned.yaml"), database, scheduler, options))
