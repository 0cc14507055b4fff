"""Shows the progress of a verb."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mmagen.cli.outputs import show
from mmagen.core.progress import Progress

if TYPE_CHECKING:
    from tqdm import tqdm

_QUIET_S = 5.0


@contextlib.contextmanager
def shown() -> Iterator[Progress]:
    """A progress bar on a terminal; otherwise an occasional line, so that a log shows progress."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def log(done: int, total: int, what: str) -> None:
            nonlocal last
            if time.monotonic() - last >= _QUIET_S:
                last = time.monotonic()
                show(f"[{done}/{total}] {what}", err=True)

        yield log
        return
    from tqdm import tqdm

    bars: list[tqdm[Any]] = []

    def draw(done: int, total: int, what: str) -> None:
        if not bars:
            bars.append(tqdm(total=total, leave=False, bar_format="{n}/{total} {bar} {elapsed} {desc}"))
        bar = bars[0]
        bar.total = total
        bar.n = done
        bar.set_description_str(what[:60], refresh=True)

    try:
        yield draw
    finally:
        for bar in bars:
            bar.close()
