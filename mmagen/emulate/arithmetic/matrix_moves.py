"""Warp-wide matrix instructions on raw registers: ldmatrix, stmatrix and movmatrix.

Registers are arrays [warps, 32], one column a lane. Source: PTX ISA 9.7.14.5.15 to 9.7.14.5.17.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmagen.emulate.arrays import Bytes, Indices, Values
from mmagen.emulate.errors import EmulationError


def ldmatrix(load16: Callable[[Indices], Bytes], addresses: Indices, count: int, trans: bool) -> list[Values]:
    """ldmatrix.sync.aligned.m8n8.x<count>{.trans}.b16.

    load16: from addresses uint32[w, n] to the 16 bytes at each, uint8[w, n, 16]. addresses: uint32[w, 32], of which
    lanes 8q to 8q+7 give the rows of matrix q; those past 8 * count are not used. count: 1, 2 or 4 matrices.
    Returns count registers uint32[w, 32]: lane l has elements 2*(l%4) and 2*(l%4)+1 of row l/4, with trans of column
    l/4. Raises EmulationError for another count, and what load16 raises.
    """
    _check_count("ldmatrix", count)
    rows = np.ascontiguousarray(load16(addresses[:, : 8 * count])).reshape(len(addresses), count, 8, 16)
    if trans:
        rows = np.ascontiguousarray(rows.view(np.uint16).swapaxes(2, 3)).view(np.uint8)
    words = rows.view(np.uint32).reshape(len(addresses), count, 32)
    return list(np.ascontiguousarray(words.swapaxes(0, 1)))


def stmatrix(store16: Callable[[Indices, Bytes], None], addresses: Indices, registers: list[Values], trans: bool) -> None:
    """stmatrix.sync.aligned.m8n8.x<len(registers)>{.trans}.b16, the way back from ldmatrix.

    store16: takes addresses uint32[w, n] and their bytes uint8[w, n, 16]. addresses: uint32[w, 32] as for ldmatrix.
    registers: 1, 2 or 4 of uint32[w, 32]. Raises EmulationError for another count, and what store16 raises.
    """
    count = len(registers)
    _check_count("stmatrix", count)
    words = np.stack(registers, axis=1).reshape(len(addresses), count, 8, 4)
    if trans:
        words = np.ascontiguousarray(words.view(np.uint16).swapaxes(2, 3))
    store16(addresses[:, : 8 * count], words.view(np.uint8).reshape(len(addresses), 8 * count, 16))


def movmatrix(register: Values) -> Values:
    """movmatrix.sync.aligned.m8n8.trans.b16: the transpose of the 8 by 8 matrix in a register uint32[w, 32]."""
    halves = np.ascontiguousarray(register).view(np.uint16).reshape(-1, 8, 8)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).view(np.uint32).reshape(-1, 32)


def _check_count(name: str, count: int) -> None:
    if count not in (1, 2, 4):
        raise EmulationError(f"{name}: .x{count} does not exist; .x1, .x2 and .x4 do")
