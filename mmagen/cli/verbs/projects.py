"""Verbs that write projects: init, build, vendor."""

from __future__ import annotations

from pathlib import Path

import click

from mmagen.cli.inputs import Place
from mmagen.cli.options import ARCH, JOBS, SPECS, cached, example_names, target_names
from mmagen.core.errors import UsageError


@click.command(short_help="Write a first spec and a CI file.")
@click.argument("folder", type=Place(path_type=Path, file_okay=False), default=Path(), metavar="[DIR]")
@click.option(
    "--ci",
    type=click.Choice(["github", "gitlab", "none"], case_sensitive=False),
    default="github",
    show_default=True,
    help="CI system to write the file for.",
)
@click.option(
    "--spec",
    "example",
    metavar="NAME",
    shell_complete=example_names,
    help="One of mmagen's own specs instead, e.g. sm90_gemm_bf16_tn.",
)
@click.option("--list", "list_", is_flag=True, help="List mmagen's own specs, and write nothing.")
def init(folder: Path, ci: str, example: str | None, list_: bool) -> int:
    """Write a first spec into DIR/kernels, and a file with which CI verifies all specs in kernels/."""
    from mmagen.cli import init as verb

    return verb.list_examples() if list_ else verb.init(folder, ci, example)


@click.command(short_help="Generate a project from each spec.")
@SPECS
@click.option(
    "-o",
    "--output",
    type=Place(path_type=Path, file_okay=False),
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
    if arch and not compile_:
        raise UsageError("--arch is what --compile compiles for; add --compile, or list the architectures in the spec as arch")
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


@click.command(short_help="Generate one library with the kernels of several specs.")
@SPECS
@click.option(
    "--into",
    type=Place(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Folder of the library; a library that is already there is updated.",
)
@click.option("--name", metavar="NAME", help="Name of the library, a C identifier; default: as in DIR, else DIR's own name.")
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
