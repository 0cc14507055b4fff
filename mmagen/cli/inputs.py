"""What a user passes to the verbs: paths and numbers."""

from __future__ import annotations

import math
from typing import Any

import click


class Place(click.Path):
    """A path. click takes an empty one, e.g. of a shell variable that is not set, and pathlib makes the current folder of it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Fails as click's types do."""
        if value == "":
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


class Finite(click.FloatRange):
    """A finite number in a range: click's takes nan, which is neither below the minimum nor above the maximum, and inf."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails as click's types do."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number
