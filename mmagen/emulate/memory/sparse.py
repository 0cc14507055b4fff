"""Arrays of zeros that take memory only where something is written: leading dimensions may be far larger than rows."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

from mmagen.emulate.arrays import Values

_SMALL = 1 << 26
# Python 3.13 has it; the value is that of Linux on every architecture with nvcc.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


def zeros(count: int, dtype: npt.DTypeLike) -> Values:
    """`count` zeros of a type. Raises MemoryError where there are not as many addresses."""
    kind = np.dtype(dtype)
    if count * kind.itemsize < _SMALL:
        return np.zeros(count, dtype=kind)
    try:
        pages = mmap.mmap(-1, count * kind.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(f"{count * kind.itemsize:,} bytes of addresses are not to be had: {error}") from None
    return np.frombuffer(pages, dtype=kind)
