"""f32 operands as sums of bf16 pieces in wgmma kernels: which pieces there are, and what of their products is computed.

A piece is the bf16 nearest to what the pieces before it leave of an element. Piece i is at most 2^-8i of the element, so the
product of pieces i and j is at most 2^-8(i+j) of the element's product: x3 computes those with i + j <= 1, x6 those with
i + j <= 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmagen.mma.atoms import TYPES
from mmagen.plan.model import Operand
from mmagen.spec.model import Layout, Spec

# Products of piece i of A and piece j of B, the smallest first: the tensor core rounds a sum toward zero as long as it is, so what
# is large is added last.
PRODUCTS = {
    "bf16x3": ((1, 0), (0, 1), (0, 0)),
    "bf16x6": ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)),
}
_MOST_COLUMNS = 2**31 - 1 - 16384  # mmagen::kLargestExtent
# What is left out of a product, relative to it. Each of two pieces rounds to nearest: 2^-8 of the element is left after the first,
# 2^-16 after the second, and nothing after the third, as an f32 has 24 bits. x3: two rests, and the product of two second pieces.
# x6: two products of a second and a third piece, and that of two third ones. Rests are of what is rounded up: hence the last terms.
_LEFT_OUT = {"bf16x3": 3 * 2.0**-16 + 2.0**-22, "bf16x6": 2 * 2.0**-24 + 2.0**-30}


@dataclass(frozen=True)
class Pieces:
    """Of a kernel whose A and B are f32. word: the spec's. a_major, b_major: contiguous modes of a call's A and B; pieces are K
    contiguous. tile_k: columns of a k tile; a line of pieces has, for each k tile, so many of the first piece, then of the next."""

    word: str
    a_major: str
    b_major: str
    tile_k: int

    @property
    def count(self) -> int:
        """Pieces of an element."""
        return pieces_of(self.word)

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """Pairs (piece of A, piece of B), in the order in which they are multiplied."""
        return PRODUCTS[self.word]

    @property
    def left_out(self) -> float:
        """What is left out of the product of two elements, at most, relative to it."""
        return _LEFT_OUT[self.word]

    @property
    def most_k(self) -> int:
        """The longest K: TMA counts the columns of a line of pieces in 32 bits."""
        return _MOST_COLUMNS // (self.count * self.tile_k) * self.tile_k

    @property
    def text(self) -> str:
        """`3 products of 2 bf16 pieces`."""
        return f"{len(self.products)} products of {self.count} bf16 pieces"


def pieces_of(word: str) -> int:
    """Pieces of an element."""
    return 1 + max(max(pair) for pair in PRODUCTS[word])


def layout(spec: Spec) -> Pieces | None:
    """That of the spec as it is written, None without pieces."""
    if spec.split is None:
        return None
    assert spec.tile
    return Pieces(spec.split, spec.layout.a_major, spec.layout.b_major, spec.tile[2])


def stored(word: str, tile_k: int) -> tuple[int, int]:
    """(columns of a k tile, elements that are stored of them)."""
    return tile_k, pieces_of(word) * tile_k


def as_computed(spec: Spec) -> Spec:
    """Pieces are K contiguous, however A and B are."""
    return spec.model_copy(update={"layout": Layout(a="K", b="K")}) if spec.split else spec


def of_call(one: Operand, major: str) -> Operand:
    """The operand that a call passes: f32, in its own layout."""
    return replace(one, element=TYPES["f32"], major=major, group=1, kept=1)
