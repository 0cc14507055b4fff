"""What a barrier that opens returns to the scheduler."""

from mmagen.emulate.arrays import Mask

Resumed = list[tuple[int, Mask]]
"""(block, lanes) that may run now."""
