"""The bf16 pieces of f32 operands in wgmma kernels, which lie in the workspace."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mmagen.mma.atoms import TYPES
from mmagen.mma.pieces import LEFT_OUT, PRODUCTS, described, pieces_of
from mmagen.plan.facts import MOST_COUNTED
from mmagen.plan.model import Operand
from mmagen.spec.model import Layout, Spec


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
        return LEFT_OUT[self.word]

    @property
    def most_k(self) -> int:
        """The longest K: TMA counts the columns of a line of pieces in 32 bits."""
        return MOST_COUNTED // (self.count * self.tile_k) * self.tile_k

    @property
    def text(self) -> str:
        """`3 products of 2 bf16 pieces`."""
        return described(self.word)


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
