"""Verbs for the cache."""

from __future__ import annotations

import click

from mmagen.cli.inputs import Finite


@click.group(short_help="Show or remove what the cache holds.")
def cache() -> None:
    """The cache of compiled projects, PTX and templates."""


@cache.command("info")
def cache_info() -> int:
    """Show the location, contents and size of the cache."""
    from mmagen.cli import cache as verbs

    return verbs.info()


@cache.command("prune")
@click.option("--days", type=Finite(0), help="Remove entries not used for this many days; default 30 without --max-size.")
@click.option(
    "--max-size", metavar="SIZE", help="Remove the least recently used entries until the rest fits SIZE, e.g. 500M or 2G."
)
def cache_prune(days: float | None, max_size: str | None) -> int:
    """Remove entries that were not used for long."""
    from mmagen.cli import cache as verbs

    return verbs.prune(days, max_size)


@cache.command("clear")
def cache_clear() -> int:
    """Remove everything from the cache."""
    from mmagen.cli import cache as verbs

    return verbs.clear()
