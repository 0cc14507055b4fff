"""The product of matrices that an einsum of two tensors is."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple


class Factor(NamedTuple):
    """number: of the operand, 0 or 1; shape: (batch, rows, columns) as matmul has it; transposed: are rows contiguous?"""

    number: int
    shape: tuple[int, ...]
    transposed: bool


def factors(equation: str, operands: Sequence[tuple[tuple[int, ...], bool]]) -> tuple[Factor, Factor]:
    """A of (..., M, K) and B of (..., K, N), so that D is N contiguous. operands: the shape of each, and whether its last two
    dimensions are exchanged in memory. Raises ValueError for what no GEMM computes."""
    found = re.fullmatch(r"([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]+)", equation.replace(" ", ""))
    if not found:
        raise ValueError("write the equation as 'mk,kn->mn'")
    extents: dict[str, int] = {}
    for letters, (shape, _) in zip(found.group(1, 2), operands, strict=True):
        if len(letters) != len(shape) or len(set(letters)) != len(letters):
            raise ValueError(f"{letters} is no index for each dimension of {shape}")
        for letter, extent in zip(letters, shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise ValueError(f"{letter} is {extents[letter]} and {extent}")
    first, second, out = found.groups()
    if len(set(out)) != len(out) or not set(out) <= set(first) | set(second):
        raise ValueError(f"{out} is no result of these tensors")
    batch = "".join(one for one in out if one in first and one in second)
    if len(contracted := set(first) & set(second) - set(out)) != 1:
        raise ValueError("a product of matrices has one index that is summed")
    (k,) = contracted
    rows = "".join(one for one in out if one in first and one not in second)
    columns = "".join(one for one in out if one in second and one not in first)
    if set(first) | set(second) != {*batch, *rows, *columns, k}:
        raise ValueError("an index of one tensor alone is summed: sum it beforehand")
    if not rows or not columns:
        raise ValueError("a product with a vector: give it another index, of extent 1")
    numbers = (0, 1)
    if out == batch + columns + rows:  # the transpose of D is the product of the exchanged operands
        numbers, rows, columns = (1, 0), columns, rows
    elif out != batch + rows + columns:
        raise ValueError(f"the result {out} is no matrix: indices of one tensor are apart")

    def factor(number: int, kept: str, last: bool) -> Factor:
        letters, (_, turned) = found.group(number + 1), operands[number]
        stored = letters[:-2] + letters[:-3:-1] if turned else letters
        many, one = math.prod(extents[letter] for letter in kept), extents[k]
        shape = (math.prod(extents[letter] for letter in batch), *((many, one) if last else (one, many)))
        if stored not in (batch + kept + k, batch + k + kept):
            raise ValueError(f"in memory {stored} is no {batch}{kept}{k} or {batch}{k}{kept}: rows of no matrix")
        return Factor(number, shape if batch else shape[1:], (stored[-1] == k) != last)

    return factor(numbers[0], rows, True), factor(numbers[1], columns, False)
