"""f32 as sums of bf16 pieces: which products of pieces there are, what is left out, and the operation that a kernel makes of them.

A piece is the bf16 nearest to what the pieces before it leave of an element. Piece i is at most 2^-8i of the element, so the
product of pieces i and j is at most 2^-8(i+j) of the element's product: x3 computes those with i + j <= 1, x6 those with
i + j <= 2.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from mmagen.mma.accumulation import Accumulation, accumulation
from mmagen.mma.atoms import TYPES, Atom

# Products of piece i of A and piece j of B, the smallest first: the tensor core rounds a sum toward zero as long as it is, so what
# is large is added last.
PRODUCTS = {
    "bf16x3": ((1, 0), (0, 1), (0, 0)),
    "bf16x6": ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0)),
}
# What is left out of a product, relative to it. Each of two pieces rounds to nearest: 2^-8 of the element is left after the first,
# 2^-16 after the second, and nothing after the third, as an f32 has 24 bits. x3: two rests, and the product of two second pieces.
# x6: two products of a second and a third piece, and that of two third ones. Rests are of what is rounded up: hence the last terms.
LEFT_OUT = {"bf16x3": 3 * 2.0**-16 + 2.0**-22, "bf16x6": 2 * 2.0**-24 + 2.0**-30}


def pieces_of(word: str) -> int:
    """Pieces of an element."""
    return 1 + max(max(pair) for pair in PRODUCTS[word])


def described(word: str) -> str:
    """`3 products of 2 bf16 pieces`."""
    return f"{len(PRODUCTS[word])} products of {pieces_of(word)} bf16 pieces"


@dataclass(frozen=True)
class SplitAtom(Atom):
    """An mma.sync of bf16 whose fragments are loaded as f32 and split in registers. type_a and type_b are f32, as in memory. word:
    the spec's split."""

    word: str = ""

    @classmethod
    def of(cls, atom: Atom, word: str) -> SplitAtom:
        """word: a key of PRODUCTS."""
        own = {field.name: getattr(atom, field.name) for field in fields(atom)}
        return cls(**own | {"type_a": TYPES["f32"], "type_b": TYPES["f32"], "word": word})

    @property
    def count(self) -> int:
        """Pieces of an element."""
        return pieces_of(self.word)

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """Pairs (piece of A, piece of B), in the order in which they are multiplied."""
        return PRODUCTS[self.word]

    @property
    def ldmatrix(self) -> bool:
        """It would bring one f32 of each neighbouring pair that a thread needs."""
        return False

    @property
    def accumulation(self) -> Accumulation:
        """The products of an instruction's depth are summed from zero, and their sum is added in f32."""
        one = accumulation(self.min_arch, "bf16", self.type_d.word, self.k)
        return replace(one, promoted=self.k, products=len(self.products), left_out=LEFT_OUT[self.word])

    def piece_registers(self, atoms_n: int) -> int:
        """32-bit registers of a thread for the pieces of one atom of A and of `atoms_n` of B, and for the sums of products."""
        halves = self.count * (self.values_a + atoms_n * self.values_b)
        return halves // 2 + atoms_n * self.values_c
