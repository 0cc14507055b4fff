"""Maps: which thread and value own each element of A, B and C, and where elements lie that an instruction reads from shared
memory. Made for `mmagen inspect` and `verify`; the layout algebra is imported when a map is made, because it is slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from mmagen.core.layout_text import LayoutText
from mmagen.mma import catalogue
from mmagen.mma.atoms import Atom
from mmagen.mma.operation import Operation
from mmagen.plan.model import Operand, Swizzle, TiledMma
from mmagen.plan.plans import ProductPlan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mmagen.mma.ownership import Ownership

    Places = NDArray[np.int64]

Tile = tuple[int, int, int]


@dataclass(frozen=True, eq=False)  # thousands of elements: a map is equal to itself alone
class Map:
    """Maps of some matrices. title: of what; covers: elements along M, N and K after which the pattern of threads repeats.
    stored: A and B of a kernel that has them in shared memory, as they lie there, whoever reads them from there."""

    title: str
    covers: Tile
    tables: tuple[Ownership, ...]
    stored: tuple[Stored, ...] = ()


@dataclass(frozen=True, eq=False)
class Stored:
    """An operand in its stage of shared memory, of which the columns of `table` are what memory has along K (Stage.group).
    places[row * columns + column]: of each element, in elements from the first byte; plain: the same without the swizzle.
    access: the elements that are read together first; by: what reads them."""

    table: Ownership
    places: tuple[int, ...]
    plain: tuple[int, ...]
    swizzle: Swizzle
    element_bytes: int
    access: tuple[int, ...] = ()
    by: str = ""

    @property
    def as_it_lies(self) -> Stored:
        """The same for a picture whose columns are those of memory, not of the matrix."""
        assert self.table.stage
        return replace(self, table=replace(self.table, stage=replace(self.table.stage, group=1, kept=1, packed=1)))


def of_product(plan: ProductPlan, kernel: str = "") -> list[Map]:
    """The atom's and the CTA tile's maps of a kernel. kernel: its name in a library."""
    return [*_of_product(plan.atom, plan.tiled_mma, plan.tile, tuple(plan.operands), kernel)]


@lru_cache(maxsize=16)  # specs of one call are often alike
def _of_product(atom: Atom, mma: TiledMma, tile: Tile, operands: tuple[Operand, ...], kernel: str) -> tuple[Map, ...]:
    in_memory = [one for one in operands if one.smem_copy is None]
    found = of_tile(atom, mma, tile, tables(atom, mma, tile, in_memory), kernel)
    return (*found[:-1], replace(found[-1], stored=read(atom, mma, tile, operands)))


def read(atom: Atom, mma: TiledMma, tile: Tile, operands: Sequence[Operand]) -> tuple[Stored, ...]:
    """Operands in their stages, with what reads them first."""
    from mmagen.plan.bank_conflicts import first_load

    found = []
    for operand in operands:
        access, by = first_load(atom, mma, tile, operand)
        found.append(replace(stored(operand), access=tuple(mn * operand.extent_k + k for mn, k in access), by=by))
    return tuple(found)


def of_tile(atom: Atom, mma: TiledMma, tile: Tile, of_the_tile: tuple[Ownership, ...], kernel: str = "") -> list[Map]:
    """The maps of the atom, if its TiledMMA is more than that, and of the CTA tile."""
    prefix = f"{kernel}: " if kernel else ""
    shape = (atom.m, atom.n, atom.k)
    repeats = " x ".join(str(t // e) for t, e in zip(tile, mma.extent, strict=True))
    covered = "one TiledMMA" if repeats == "1 x 1 x 1" else f"{repeats} of the TiledMMA"
    whole = Map(f"{prefix}CTA tile {_extents(tile)}: {covered}, which covers {_extents(mma.extent)}", mma.extent, of_the_tile)
    if tile == shape and mma.threads == atom.threads:
        return [Map(f"{prefix}{atom.name}: one atom, {_extents(shape)}", shape, of_the_tile)]
    alone = _of_atom(atom)
    return [*([Map(f"{prefix}{atom.name}: one atom, {_extents(shape)}", shape, alone)] if alone else []), whole]


def _of_atom(atom: Atom) -> tuple[Ownership, ...]:
    from mmagen.mma import ownership

    operation = catalogue.known(atom.name)
    if operation is None:  # UniversalFMA: one thread owns the only element
        one = LayoutText.compact((1, 1, 1))
        return ownership.ownership(atom, one, (None, None, None), (atom.m, atom.n, atom.k))
    return ownership.of_operation(operation)


def of_operation(operation: Operation) -> list[Map]:
    """The map of a single instruction, of what it has in registers."""
    from mmagen.mma import ownership

    title = f"{operation.name}: one instruction, {_extents(operation.shape)}"
    return [Map(title, operation.shape, ownership.of_operation(operation))]


def tables(atom: Atom, mma: TiledMma, tile: Tile, staged: Sequence[Operand]) -> tuple[Ownership, ...]:
    """A, B and C of a tile. staged: the operands that the instruction reads from shared memory."""
    from mmagen.mma.ownership import ownership

    in_memory = {operand.letter: operand for operand in staged}
    owned = ownership(
        atom, mma.atoms_layout, mma.permutation, tile, "".join(letter for letter in "ABC" if letter not in in_memory)
    )
    by_letter = {table.matrix: table for table in owned} | {letter: stored(one).table for letter, one in in_memory.items()}
    return tuple(by_letter[letter] for letter in "ABC")


@lru_cache(maxsize=32)
def stored(operand: Operand) -> Stored:
    """An operand in its stage of shared memory, without what reads it."""
    import numpy as np

    from mmagen.mma.ownership import Ownership, Stage

    places, plain = _places(operand), _places(replace(operand, swizzle=replace(operand.swizzle, bits=0)))
    elements = np.empty(places.size, dtype=np.int64)
    elements[places] = np.arange(places.size)
    stage = Stage(operand.element.bytes, operand.contiguous_k, operand.group, operand.kept, operand.packed)
    table = Ownership(operand.letter, operand.extent_mn, operand.extent_k, (tuple(elements.tolist()),), stage)
    return Stored(table, tuple(places.tolist()), tuple(plain.tolist()), operand.swizzle, operand.element.bytes)


def _places(operand: Operand) -> Places:
    """Of each element, row by row."""
    import numpy as np

    mn, k = np.indices((operand.extent_mn, operand.extent_k))
    return (_panels(operand, mn, k) if operand.tma else _atoms(operand, mn, k)).ravel()


def _atoms(operand: Operand, mn: Places, k: Places) -> Places:
    """Elements from the first byte of the stage to (mn, k), by cp.async or by threads."""
    from mmagen.plan.bank_conflicts import byte_address

    return byte_address(operand, mn, k) // operand.element.bytes


def _panels(operand: Operand, mn: Places, k: Places) -> Places:
    """The same by TMA: panels as wide as the swizzle, of all lines across it.

    PTX ISA, "Asynchronous warpgroup level matrix shared memory layout": lines of 16 to 128 bytes, in which the 16-byte chunks
    are exchanged by the number of the line, which repeats after 8.
    """
    along, across = (k, mn) if operand.contiguous_k else (mn, k)
    offset = (along // operand.line * operand.extent_across + across) * operand.line + along % operand.line
    swizzle = operand.swizzle
    mask = ((1 << swizzle.bits) - 1) << (swizzle.base + swizzle.shift)
    return offset ^ ((offset & mask) >> swizzle.shift)


def _extents(value: tuple[int, ...]) -> str:
    return " x ".join(map(str, value))
