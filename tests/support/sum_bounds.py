"""What a right kernel may return for given operands: mmagen.mma.bounds, as the judge of emulated kernels uses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmagen.mma.bounds import drift, growth, path_of
from mmagen.verify.emulated.formats import ROUNDOFF, decode, encode


def allowed(plan: Any, a: npt.NDArray[Any], b: npt.NDArray[Any], *, signed: bool) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """(lowest, highest) D = A B of each element, as float64: for any kernel of the plan.

    a: (batch, M, K), b: (batch, K, N), float64 of values that the operand types have. signed: products have random signs.
    """
    out = plan.epilogue.out.word
    lows, highs = [], []
    for one in plan.by_config.values():
        of = one.accumulation
        if of.kept:
            sums, magnitude, path = path_of(of, a, b.swapaxes(1, 2))
            far = drift(of, a.shape[2], path, magnitude, signed)
        else:
            sums = a @ b
            far = np.zeros_like(sums)
        rounded = growth(ROUNDOFF.get(one.epilogue.scalar.word, 0.0), 3) + growth(ROUNDOFF["f64"], 4)
        slack = far + rounded * (np.abs(sums) + far) if of.kept else far
        lows.append(decode(encode(sums - slack, out)))
        highs.append(decode(encode(sums + slack, out)))
    return np.min(lows, axis=0), np.max(highs, axis=0)
