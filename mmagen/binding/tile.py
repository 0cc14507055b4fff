"""Kernels of one tile (`kernel: micro`), which compute a single problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmagen.binding.errors import ArgumentError


def check_tile(about: Mapping[str, Any], extents: Mapping[str, int], alpha: float | None, beta: float | None) -> None:
    """Raises ArgumentError unless the kernel computes this problem. about: its description; extents: m, n, k and batch; alpha and
    beta: None where they lie in memory."""
    if not about.get("shape"):
        return
    m, n, k = about["shape"]
    tile = f"this kernel computes one tile: a ({m},{k}), b ({k},{n})"
    if (extents["m"], extents["k"]) != (m, k):
        raise ArgumentError("a", f"({extents['m']},{extents['k']}); {tile}")
    if extents["n"] != n:
        raise ArgumentError("b", f"({extents['k']},{extents['n']}); {tile}")
    if extents["batch"] != 1:
        raise ArgumentError("a", f"a batch of {extents['batch']}, with b; {tile}")
    for name, value, only in (("alpha", alpha, 1), ("beta", beta, 0)):
        if value != only:
            raise ArgumentError(name, f"it is {'an array' if value is None else f'{value:g}'}; this kernel has {name} {only}")
