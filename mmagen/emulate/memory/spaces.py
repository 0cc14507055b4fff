"""State spaces: where each one lies among generic addresses."""

from __future__ import annotations

import numpy as np

GLOBAL_BASE = 0x7F00_0000_0000
# Generic addresses of what is not global; each window is far larger than its memory.
SHARED_WINDOW = 0x0100_0000_0000
LOCAL_WINDOW = 0x0200_0000_0000
PARAM_WINDOW = 0x0300_0000_0000
WINDOW_SIZE = 1 << 32

UNSIGNED: dict[int, type[np.uint8 | np.uint16 | np.uint32 | np.uint64]] = {
    1: np.uint8,
    2: np.uint16,
    4: np.uint32,
    8: np.uint64,
}
"""The numpy type of an element of so many bytes."""
