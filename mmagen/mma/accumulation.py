"""What the hardware keeps of sums of products, by operation: the input of every error bound (docs/error-bounds.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_MANTISSA = {"f16": 10, "f32": 23, "f64": 52, "c64": 52, "gc64": 52}
_BYTES = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
_KEPT_OF_BYTES = 13  # bits of an aligned sum of 8-bit floats (Ada, Hopper)


@dataclass(frozen=True)
class Accumulation:
    """What a kernel keeps of its sums.

    aligned: bits kept below the leading one of an instruction's largest addend; 0: nothing is dropped before the rounding.
    chunk: products added before the accumulator is rounded. kept: bits below the leading one of each sum; 0: integers, exact.
    nearest: sums are rounded to nearest, else toward zero. promoted: elements of K whose sum is then added in f32, 0 for none.
    turns: 2 where the last k tile is added first, else 1. shuffled: an accumulator's products are not neighbours along K.
    products: instructions for each k block, whose products are those of pieces of the elements, the largest last. left_out: what
    they leave out of the product of two elements, at most, relative to it. residue: with pieces and two turns, elements of a k
    tile.
    """

    aligned: int
    chunk: int
    kept: int
    nearest: bool
    promoted: int = 0
    turns: int = 1
    shuffled: bool = False
    products: int = 1
    left_out: float = 0.0
    residue: int = 0

    @property
    def of_pieces(self) -> bool:
        """Are sums of products of pieces promoted?"""
        return self.products > 1 and self.promoted > 0


def accumulation(
    arch: int, type_a: str, type_d: str, k: int, *, tensor_core: bool = True, warpgroup: bool = False
) -> Accumulation:
    """Of one MMA operation. arch: the compute capability, ten times, that introduced it; k: its depth. tensor_core: else it is a
    chain of fused multiply-adds. warpgroup: it is a wgmma.

    What is kept: Fasi et al., "Numerical behavior of NVIDIA tensor cores" (PeerJ CS 2021), for up to sm_80; Xie et al., "MMA-Sim"
    (2025), and tests/emulate/recorded for sm_90. Where architectures differ, the least that any of them keeps.
    """
    if type_d == "s32":
        return Accumulation(0, 1, 0, nearest=True)
    kept, nearest = _MANTISSA[type_d], type_d != "f32"
    if not tensor_core or _MANTISSA[type_d] == _MANTISSA["f64"]:
        return Accumulation(0, 1, kept, nearest=True)
    if type_a in _BYTES:
        return Accumulation(_KEPT_OF_BYTES, min(k, 32) if warpgroup else 16, min(kept, _KEPT_OF_BYTES), nearest)
    narrow = type_a == "tf32"
    if warpgroup:
        return Accumulation(25, 8 if narrow else 16, kept, nearest)
    return Accumulation(24 if arch >= 80 else 23, 8 if arch >= 80 and not narrow else 4, kept, nearest)


def loosest(several: Iterable[Accumulation]) -> Accumulation:
    """One whose bound holds for each of several kernels."""
    first, *others = tuple(several)
    for other in others:
        alike = (first.promoted, first.residue) == (other.promoted, other.residue)
        first = Accumulation(
            # 0 is no alignment, which drops nothing.
            min(filter(None, (first.aligned, other.aligned)), default=0),
            min(first.chunk, other.chunk),
            min(first.kept, other.kept),
            first.nearest and other.nearest,
            first.promoted if alike else 0,
            max(first.turns, other.turns),
            first.shuffled or other.shuffled,
            max(first.products, other.products),
            max(first.left_out, other.left_out),
            first.residue if alike else 0,
        )
    return first
