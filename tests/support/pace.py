"""Limits on processor time that hold on slow machines too."""

from __future__ import annotations

import time

_SECONDS = 0.016  # of the yardstick on the machine that the limits are for


def _yardstick() -> float:
    """Processor seconds of a loop of the interpreter, which is most of what the emulator does."""
    begin = time.process_time()
    total = 0
    for i in range(400_000):
        total += i & 7
    return time.process_time() - begin


def is_within(used: float, limit: float) -> bool:
    """Are `used` seconds of processor time below the limit, on a machine as fast as that of the limits? One that needs longer for a
    yardstick, now, gets as much more time."""
    if used < limit:
        return True
    slowness = min(_yardstick() for _ in range(7)) / _SECONDS
    return used < limit * max(1.0, slowness)
