"""Verbs for the cache."""

from __future__ import annotations

import click

from mmagen.cli.inputs import Finite


@click.group(short_help="What the cache holds, and removing it.")
def cache() -> None:
    """The cache of compiled projects, PTX and templates."""


@cache.command("info")
def cache_info() -> int:
    """Where the cache is, what is in it, how much space it takes."""
    from mmagen.cli import cache as verbs

    return verbs.info()


@cache.command("prune")
@click.option("--days", type=Finite(0), help="Remove what was not used for so many days; default 30 without --max-size.")
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
