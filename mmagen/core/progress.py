"""How far a verb has come, told while it works."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import click

# Called with (steps done, steps in all, what is or was done).
Progress = Callable[[int, int, str], None]

_QUIET_S = 5.0


@contextlib.contextmanager
def telling() -> Iterator[Progress]:
    """A bar on a terminal; else a short line now and then, so that a log shows that something happens."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def tell(done: int, total: int, what: str) -> None:
            nonlocal last
            if time.monotonic() - last >= _QUIET_S:
                last = time.monotonic()
                click.echo(f"[{done}/{total}] {what}", err=True)

        yield tell
        return
    from tqdm import tqdm

    bars: list[tqdm] = []

    def show(done: int, total: int, what: str) -> None:
        if not bars:
            bars.append(tqdm(total=total, leave=False, bar_format="{n}/{total} {bar} {elapsed} {desc}"))
        bar = bars[0]
        bar.total = total
        bar.n = done
        bar.set_description_str(what[:60], refresh=True)

    try:
        yield show
    finally:
        for bar in bars:
            bar.close()
