"""Scales of 8-bit floats in wgmma kernels: how a kernel looks them up, and what they cost.

Functions of a spec take the one that the kernel computes (`decisions.as_computed`): with swapped operands A is the call's B.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from mmagen.mma.atoms import TYPES
from mmagen.plan.arguments import Arguments, Extent, Tensor
from mmagen.spec.model import Spec
from mmagen.spec.scale import BLOCK, BLOCKS, LINES

Tile = tuple[int, int, int]

SCALE_BYTES = 4  # f32
_SLOTS = 4  # of each operand come in multiples of so many: consumers load pairs
_BARRIER_BYTES = 8


@dataclass(frozen=True)
class ScaleLayout:
    """The scales of the kernel's A or B. kind: the spec's, or "" for none. lines: rows (columns) that share one, 0 for all.

    along_k: elements of K that share one, 0 for all. contiguous_k: those along K are adjacent, else those of neighbouring
    lines. granule: lines of the CTA tile between places where another scale may begin. slots: scales of a k tile in shared
    memory; 0 for those that do not change along K.
    """

    letter: str
    kind: str = ""
    lines: int = 0
    along_k: int = 0
    contiguous_k: bool = False
    granule: int = 0
    slots: int = 0

    @property
    def cxx(self) -> str:
        """The type in config.cuh."""
        if not self.kind:
            return "mmagen::NoScale"
        contiguous = "true" if self.contiguous_k else "false"
        return f"mmagen::ScaleLayout<{self.lines}, {self.along_k}, {contiguous}, {self.granule}>"

    @property
    def text(self) -> str:
        """`one for 128 of K of each row`."""
        mode = "row" if self.letter == "A" else "column"
        if not self.kind:
            return "none"
        if not self.along_k:
            return "one for the whole matrix" if self.lines == 0 else f"one for each {mode}"
        lines = f"each {mode}" if self.lines == 1 else f"{self.lines} {mode}s"
        contiguous = "K" if self.contiguous_k else "M" if self.letter == "A" else "N"
        return f"one for {self.along_k} of K of {lines}, {contiguous} contiguous"


def along_k(spec: Spec) -> bool:
    """Do scales change along K, so that the sum of every k tile is multiplied?"""
    return spec.scale is not None and spec.scale.along_k


def layout(letter: str, spec: Spec, tile: Tile) -> ScaleLayout:
    """The scales of "A" or "B"."""
    if spec.scale is None:
        return ScaleLayout(letter)
    kind = spec.scale.a if letter == "A" else spec.scale.b
    if kind is None:
        return ScaleLayout(letter)
    extent = tile["AB".index(letter)]
    lines, is_block = LINES[kind], kind in BLOCKS
    granule = gcd(extent, lines) if lines else extent
    slots = -(-(extent // granule) // _SLOTS) * _SLOTS if is_block else 0
    return ScaleLayout(letter, kind, lines, BLOCK if is_block else 0, spec.scale.contiguous_k(letter), granule, slots)


def bytes_of_stage(spec: Spec, tile: Tile) -> int:
    """Shared memory of the scales of a k tile, with the barrier that releases them."""
    slots = sum(layout(letter, spec, tile).slots for letter in "AB")
    return slots * SCALE_BYTES + _BARRIER_BYTES if slots else 0


# --- Arguments of a call ---------------------------------------------------------------------------------------------


def arguments(spec: Spec) -> Arguments:
    """The scales as a call passes them, by the spec as it is written."""
    if spec.scale is None:
        return Arguments()
    kinds = (("a", spec.scale.a, "m"), ("b", spec.scale.b, "n"))
    return Arguments(tuple(_tensor(letter, kind, of, spec) for letter, kind, of in kinds if kind))


def _tensor(letter: str, kind: str, of: str, spec: Spec) -> Tensor:
    assert spec.scale
    one = Tensor(name=f"scale_{letter}", element=TYPES["f32"], part="scale", rows=Extent(), columns=Extent(), sentence="")
    operand = letter.upper()
    if kind == "tensor":
        return replace(one, sentence=f"factor of {operand}")
    mode = "row" if of == "m" else "column"
    if kind in ("row", "column"):
        return replace(one, columns=Extent(of), sentence=f"factors of the {mode}s of {operand}")
    lines = LINES[kind]
    what = f"a {mode}" if lines == 1 else f"{lines} {mode}s"
    return replace(
        one,
        rows=Extent(of, step=lines),
        columns=Extent("k", step=BLOCK),
        columns_contiguous=spec.scale.contiguous_k(operand),
        pitched=True,
        sentence=f"factors of {operand}, for {BLOCK} of K of {what} each",
    )
