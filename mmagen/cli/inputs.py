"""What a user passes to the verbs: files and numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from mmagen.core.errors import UsageError


def content(path: Path) -> bytes:
    """The bytes of a file that the user names. Raises UsageError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


class Finite(click.FloatRange):
    """A finite number in a range: click's takes nan, which is neither below the minimum nor above the maximum, and inf."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails as click's types do."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number
