"""Implements `mmagen inspect`: loads and plans the spec, and prints its page, its maps of owners, or both as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mmagen.cli.build import load_specs
from mmagen.cli.outputs import in_colour, line_width
from mmagen.core.errors import ExitCode

if TYPE_CHECKING:
    from mmagen.families.plans import Plan
    from mmagen.inspect.maps import Window


def inspect(specs: Sequence[Path], *, ownership: bool, window: str | None, json_: bool) -> ExitCode:
    """ownership: with the maps of owners, which a kernel that is only that has in any case; window: what to show of them.

    Raises UsageError and SpecError."""
    from mmagen.inspect.maps import parse_window
    from mmagen.inspect.page import inspect as describe
    from mmagen.inspect.page import to_json

    ranges: Window = {} if window is None else parse_window(window)
    asked = ownership or window is not None
    loaded = load_specs(specs)
    loaded.report_refused()
    for one in loaded.planned:
        with_maps = asked or one.plan.maps_are_verified
        if json_:
            click.echo(to_json(one.plan, with_maps))
        else:
            page = describe(one.plan)
            click.echo(f"{page}\n{maps_text(one.plan, ranges)}" if with_maps else page)
    return loaded.exit_code


def maps_text(plan: Plan, window: Window) -> str:
    """The maps of owners of a plan, coloured and as wide as the terminal where stdout is one."""
    from mmagen.families import family_of
    from mmagen.inspect import maps

    return maps.text(family_of(plan).maps(plan), window, line_width(), in_colour())
