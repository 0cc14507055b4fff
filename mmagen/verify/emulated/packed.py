"""The part `packed` of a kernel: A and B are 4-bit integers, two to a byte along K."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mmagen.mma.formats import limits
from mmagen.mma.packed_atoms import BYTE, PER_BYTE
from mmagen.plan.plans import ProductPlan
from mmagen.plan.reach import FAR
from mmagen.spec.model import Problem
from mmagen.verify.emulated.matrix import Draw, Matrix, Operands, empty, put, values
from mmagen.verify.emulated.parts import Call, Part, Values

_BEHIND = 13  # in the half of a last byte that no element has
_ALIGNMENT = 16  # bytes, of lines that are loaded in vectors
_FEW = 32  # of so many elements one is as large as can be


class _Packed(Part):
    name = "packed"

    def shapes(self, plan: ProductPlan, problem: Problem) -> dict[str, tuple[int, int]]:
        columns = -(-problem.k // PER_BYTE)
        return {"a": (problem.m, columns), "b": (problem.n, columns)}

    def pads(self, plan: ProductPlan, problem: Problem) -> dict[str, int]:
        """Lines as far from 16-byte boundaries as those of k + ld_pad bytes, as `plan.reach` takes them, and no longer: a leading
        dimension in elements shows. Lines that are to lie far apart do."""
        pad = problem.k // PER_BYTE + problem.ld_pad
        if problem.ld_pad < FAR:
            pad %= _ALIGNMENT
        return {"a": pad, "b": pad}

    def fill(self, plan: ProductPlan, problem: Problem, draw: Draw, data: Operands, rng: np.random.Generator) -> None:
        for place, (letter, matrix) in enumerate((("A", data.a), ("B", data.b))):
            word = plan.operand(letter).multiplied
            drawn = _drawn(word, matrix, problem.k, draw, draw.reach[place], 1 if place else draw.group, rng)
            matrix.view[...] = pack(drawn)

    def factors(self, call: Call, a: Values, b: Values) -> tuple[Values, Values]:
        k = call.problem.k
        word_a, word_b = (call.plan.operand(letter).multiplied for letter in "AB")
        return unpack(a, word_a)[..., :k], unpack(b, word_b)[..., :k]


PACKED = _Packed()


def pack(elements: Values) -> npt.NDArray[np.uint8]:
    """(..., k) as bytes (..., ceil(k / 2)): an element of even k in the low half. The half that no element has is not zero."""
    codes = elements.astype(np.int64) & 15
    low = codes[..., 0::2]
    high = np.full(low.shape, _BEHIND)
    high[..., : codes.shape[-1] // PER_BYTE] = codes[..., 1::2]
    return (low | high << 4).astype(np.uint8)


def unpack(stored: Values, word: str) -> Values:
    """Bytes (..., columns) as the s4 or u4 in them, (..., 2 * columns)."""
    codes = stored.astype(np.int64)
    halves = np.stack((codes & 15, codes >> 4), axis=-1).reshape(*stored.shape[:-1], -1).astype(np.float64)
    return np.where(halves > limits(word)[1], halves - 16, halves)


def _drawn(word: str, stored: Matrix, k: int, draw: Draw, reach: float, group: int, rng: np.random.Generator) -> Values:
    """(batch, rows, k): as 8-bit integers would be drawn. Of uniform inputs some are -8 of s4 and 15 of u4, which are further from
    zero than what both types have, or than D has room for."""
    batch = 1 if stored.batch_stride == 0 else stored.batch
    drawn = empty(f"{word[0]}{BYTE.bits}", stored.rows, k, batch, True, 0, 0)
    put(drawn, rng, draw, reach, group)
    found: Values = values(drawn)
    if draw.distribution == "uniform":
        found[(found != 0) & (rng.integers(0, _FEW, found.shape) == 0)] = max(limits(word), key=abs)
    return found
