"""Names for the arrays that the emulator's components exchange. Comments elsewhere give shapes as dtype[extents]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
"""bool[lanes]: which lanes are meant; or flags of another shape."""
Indices = npt.NDArray[np.int64]
"""Lane numbers, CTA numbers, addresses or byte positions."""
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
Events = npt.NDArray[np.uint64]
"""Who accessed a granule and when, packed into 64 bits; the modules of hazards/ say how."""
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[Any]
"""Bits of numbers of some format: unsigned integers as wide as its storage."""
Reduction = Callable[[Codes, Codes], Codes]
"""(what is there, what comes) -> what is to be there, on unsigned integers of one type and shape."""
Values = npt.NDArray[Any]
"""A register over all lanes, or of length 1 where it is the same in all of them: the instruction decides on the dtype."""
Registers = list[Values]
"""All registers of an entry by index, then the special registers."""
