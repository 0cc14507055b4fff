"""What the host code of a project hands to a launch, and what it needs for that of a matrix."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass

from mmagen.cpu.matrices import Matrix

SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "s32": ctypes.c_int32}


@dataclass(frozen=True)
class Launch:
    """entry: pattern of the mangled kernel name. grid: CTAs. params: the kernel's parameter bytes. threads: of a CTA, 0
    for as many as the plan says. cluster: CTAs of a cluster. unaligned: the kernel of the second translation unit."""

    entry: re.Pattern[str]
    grid: int
    params: bytes
    threads: int = 0
    cluster: int = 1
    unaligned: bool = False


def pointer_of(matrix: Matrix, address: int) -> int:
    """Of the first element, where the memory begins at `address`."""
    return address + matrix.offset * bytes_of(matrix)


def bytes_of(matrix: Matrix) -> int:
    """Of one element."""
    return matrix.view.itemsize
