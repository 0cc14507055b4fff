"""Verbs that judge kernels: verify, compare."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from mmagen.cli.inputs import Finite, Place
from mmagen.cli.options import ARCH, JOBS, REPORTS, cached, target_names
from mmagen.core.errors import UsageError


@click.command(short_help="Compile, run or emulate, and judge kernels.")
@click.argument("targets", nargs=-1, type=Place(path_type=Path), metavar="[SPEC-or-PROJECT...]")
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
    type=click.Choice(["auto", "gpu", "cpu"], case_sensitive=False),
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
    help="Run this problem instead of the spec's; KEY is ld_pad, offset, alpha, beta, batch_stride_a (b, c, d) or groups. Also as "
    "reports print it, e.g. '16x8x16 b3 ld+8'. Repeatable.",
)
@click.option("--seed", type=click.IntRange(0), help="Seed of the random inputs.")
@click.option(
    "--dist",
    type=click.Choice(["uniform", "small_int", "overflow", "zeros"], case_sensitive=False),
    help="Use only this distribution of inputs; overflow is for --atoms.",
)
@click.option(
    "--sustained",
    "sustained_s",
    type=Finite(0),
    metavar="S",
    help="With --bench: also run each candidate for S seconds.",
)
@click.option("--max-dim", type=click.IntRange(1), help="Skip problems with a larger extent.")
@click.option("--no-timing", is_flag=True, help="Do not measure times.")
@click.option(
    "--sanitize",
    multiple=True,
    type=click.Choice(["memcheck", "racecheck", "initcheck", "synccheck"], case_sensitive=False),
    help="Also run small problems under this tool of compute-sanitizer. Repeatable.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=Finite(0, min_open=True),
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
    if rest["sustained_s"] and not rest["bench"]:
        raise UsageError("--sustained times the benchmark; add --bench")
    # Expected results are products of small matrices; with threads of BLAS, emulation takes up to a third longer. It reads this
    # as it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from mmagen.cli import verify as verify_verb

    outputs = {"json": json_file, "csv": csv_file, "junit": junit_file, "markdown": markdown_file}
    options = verify_verb.VerifyOptions(arch=target_names(arch), problems=problems, **rest)
    return verify_verb.verify_atoms(atoms, options, outputs) if atoms else verify_verb.verify(targets, options, outputs)


@click.command(short_help="Compare two reports of verify.")
@click.argument("old", type=Place(path_type=Path, dir_okay=False), metavar="OLD.json")
@click.argument("new", type=Place(path_type=Path, dir_okay=False), metavar="NEW.json")
@click.option(
    "--noise",
    type=Finite(0, 1),
    default=0.05,
    show_default=True,
    help="A speed that changed by this fraction or less counts as equal.",
)
def compare(old: Path, new: Path, noise: float) -> int:
    """Compare two reports of verify --json: verdicts, ratios to cuBLASLt, times. Exit code 1 on a regression."""
    from mmagen.cli import compare as verb

    return verb.compare(old, new, noise)
