"""CPU-time limits that allow for slow machines."""

from __future__ import annotations

import time

_SECONDS = 0.017  # CPU time of the yardstick, the least that was measured (2 cores of an AMD EPYC, 2026-11-27)


def _yardstick() -> float:
    """CPU seconds of a fixed Python loop: the emulator spends most of its time in the interpreter."""
    begin = time.process_time()
    total = 0
    for i in range(400_000):
        total += i & 7
    return time.process_time() - begin


def is_within(used: float, limit: float) -> bool:
    """Is `used` below `limit` CPU seconds? If the yardstick now takes longer than `_SECONDS`, the limit grows in proportion."""
    if used < limit:
        return True
    slowness = min(_yardstick() for _ in range(7)) / _SECONDS
    return used < limit * max(1.0, slowness)
