"""Verbs that print what is known without running anything: inspect, atoms, schema, doctor."""

from __future__ import annotations

from pathlib import Path

import click

from mmagen.cli.inputs import Place
from mmagen.cli.options import FILTERS, SPECS, architecture_names, operation_names, target_names
from mmagen.cli.outputs import line_width
from mmagen.core.errors import ExitCode

# Of mmagen.plan.devices, which is not imported for other verbs; tests compare the two.
DEVICE_NAMES = ("v100", "t4", "a100", "h100", "h200")


@click.command(short_help="Print everything derived from a spec.")
@SPECS
@click.option(
    "--ownership",
    is_flag=True,
    help="Also print which thread owns each element of A, B and C, in the atom and in the CTA tile.",
)
@click.option(
    "--window",
    metavar="RANGES",
    help="The part of these maps to print, e.g. m=0:32,n=8:16; all for everything. Implies --ownership.",
)
@click.option("--json", "json_", is_flag=True, help="Print a line of JSON for each spec.")
@click.option("--device", type=click.Choice(DEVICE_NAMES, case_sensitive=False), help="Describe launches on this device.")
@click.option(
    "--html",
    type=Place(path_type=Path),
    metavar="DIR|FILE.html",
    help="Write the page with pictures to DIR/<name>.html; that of a single spec to FILE.html.",
)
@click.option(
    "--svg", type=Place(path_type=Path, file_okay=False), metavar="DIR", help="Write the pictures to DIR/<name>-*.svg."
)
@click.option(
    "--png", type=Place(path_type=Path, file_okay=False), metavar="DIR", help="The same as PNG; needs the extra mmagen[png]."
)
@click.option("--traced", is_flag=True, help="Also draw the pipeline of a GEMM as it runs in the emulator; needs nvcc.")
def inspect(
    specs: tuple[Path, ...],
    ownership: bool,
    window: str | None,
    json_: bool,
    device: str | None,
    html: Path | None,
    svg: Path | None,
    png: Path | None,
    traced: bool,
) -> int:
    """Print everything derived from each SPEC (a file or a folder of *.yaml files): layouts, register and shared-memory
    budgets, bank conflicts, traffic, owners of elements."""
    from mmagen.cli.inspect import Folders
    from mmagen.cli.inspect import inspect as verb

    return verb(specs, ownership=ownership, window=window, json_=json_, device=device, folders=Folders(html, svg, png, traced))


@click.command(short_help="List the MMA operations of CUTLASS.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=operation_names)
@click.option(
    "--arch",
    metavar="ARCH",
    shell_complete=architecture_names,
    help="Only operations available on this architecture, e.g. sm_90a.",
)
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

    NAME may contain the wildcards * and ?, or be a PTX instruction or the beginning of one, such as wgmma.mma_async.

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


@click.command(short_help="Print the JSON Schema of a spec.")
def schema() -> int:
    """Print the JSON Schema of a spec."""
    import json

    from mmagen.spec.model import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
    return ExitCode.OK


@click.command(short_help="List the tools and GPUs found here.")
def doctor() -> int:
    """Report which compilers, headers and GPUs are found, and how to install what is missing.

    Exit code 3 if projects cannot be compiled here; a missing GPU is only a note.
    """
    from mmagen.cli.doctor import report
    from mmagen.toolchain.find import find_toolchain

    text, can_compile = report(find_toolchain(), line_width())
    click.echo(text)
    return ExitCode.OK if can_compile else ExitCode.BUILD_FAILED
