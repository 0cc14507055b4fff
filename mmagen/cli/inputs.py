"""What a user passes to the verbs: files and numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from mmagen.core.errors import UsageError

_LARGEST = 16 << 20  # bytes of a spec, or of a file of a project: a device such as /dev/zero never ends


def content(path: Path, largest: int = _LARGEST) -> bytes:
    """The bytes of a file that the user names, at most `largest`. Raises UsageError where it cannot be read."""
    try:
        with path.open("rb") as stream:
            found = stream.read(largest + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if len(found) > largest:
        raise UsageError(f"{path} has more than {largest >> 20} MiB, which no such file has")
    return found


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
