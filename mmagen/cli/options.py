"""Options that several verbs share."""

from __future__ import annotations

import functools
import glob
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from mmagen.cli.inputs import Place
from mmagen.core.errors import UsageError
from mmagen.core.targets import every_target, exists, those_that_exist

_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
SPECS = click.argument("specs", nargs=-1, required=True, type=Place(path_type=Path), metavar="SPEC...")
JOBS = click.option("-j", "--jobs", type=click.IntRange(1), help="Number of parallel compile steps; default: ninja's choice.")


def architecture_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The architectures that begin so, for the shell's completion; of several, the last one is completed."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in every_target() if name.startswith(last)]


ARCH = click.option(
    "--arch",
    multiple=True,
    shell_complete=architecture_names,
    metavar="ARCH[,ARCH]",
    help="Target architectures, e.g. sm_80,sm_90a; default: the local GPU's, else those of the spec.",
)


def _all_of(*options: _Decorator) -> _Decorator:
    """Combine several options into one decorator, in order."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed(options), command)


FILTERS = _all_of(
    click.option(
        "--type",
        "type_",
        metavar="TYPE[,TYPE]",
        help="Only operations with A or B of this type; of a list, all must occur in A, B, D or scales: bf16 or e4m3,f32.",
    ),
    click.option("--shape", metavar="MxNxK", help="Only this shape; * matches any extent: 16x8x16 or 64x*x16."),
    click.option(
        "--kind",
        type=click.Choice(["fma", "mma.sync", "wgmma", "tcgen05"], case_sensitive=False),
        help="Only this kind of instruction.",
    ),
    click.option("--family", metavar="SM", help="Only operations with this prefix in CuTe: SM80, SM90, SM120, ..."),
    click.option("--sparse/--dense", default=None, help="Only operations with a sparse A, or only those with a dense A."),
)
REPORTS = _all_of(
    *(
        click.option(f"--{name}", f"{name}_file", metavar="FILE", help=f"Write {what} to FILE; - is stdout.")
        for name, what in (("json", "JSON lines"), ("csv", "CSV"), ("markdown", "a Markdown page"))
    )
)


def cached(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option --no-cache, and its effect."""

    @click.option("--no-cache", "without_cache", is_flag=True, help="Neither read nor write the cache; compile everything.")
    @functools.wraps(command)
    def call(*arguments: Any, without_cache: bool, **named: Any) -> Any:
        if not without_cache:
            return command(*arguments, **named)
        from mmagen.core.cache import no_cache

        with no_cache():
            return command(*arguments, **named)

    return call


def operation_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of MMA operations that begin so, for the shell's completion."""
    from mmagen.mma.catalogue import operations

    return [operation.name for operation in operations() if operation.name.startswith(incomplete)]


def example_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of mmagen's own specs that begin so, for the shell's completion."""
    from mmagen.core.templates import examples_folder

    return sorted(path.stem for path in examples_folder().glob(f"{glob.escape(incomplete)}*.yaml"))


def target_names(texts: Sequence[str]) -> tuple[str, ...]:
    """The distinct sm_ names of `--arch a,b --arch c`. Raises UsageError for those that there are not."""
    if not texts:
        return ()
    from mmagen.build.build import arch_name

    names = tuple(dict.fromkeys(arch_name(part.strip()) for text in texts for part in text.split(",")))
    for name in names:
        if not exists(name):
            raise UsageError(f"--arch: there is no {name}; {those_that_exist()}")
    return names
