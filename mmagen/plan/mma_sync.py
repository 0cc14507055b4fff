"""Kernels built from atoms whose operands are fragments in registers: mma.sync and scalar FMA.

Shared by ownership, micro and gemm kernels of such atoms: the choice of atoms, and shared-memory budgets of one tile.
"""

from __future__ import annotations

from dataclasses import replace

from mmagen.core.errors import Fault
from mmagen.mma.atoms import Atom, find_atom
from mmagen.plan import budgets, tiling
from mmagen.plan.model import Operand, TiledMma
from mmagen.plan.operands import operand
from mmagen.spec.model import Spec

# CuTe's prefixes of these atoms. The f64 atoms of SM90 are mma.sync as well, but belong to another family.
GENERATIONS = ("FMA", "SM61", "SM70", "SM75", "SM80", "SM89")


def builds_from(name: str) -> bool:
    """Is the operation an atom of these kernels? Raises SpecFaults for an unknown name."""
    atom = find_atom(name)
    return atom is not None and atom.generation in GENERATIONS


def is_complex(name: str) -> bool:
    """Does the operation multiply complex numbers? Raises SpecFaults for an unknown name."""
    atom = find_atom(name)
    return atom is not None and atom.type_d.parts > 1


def _word(atom: Atom, letter: str) -> str:
    """The type of the elements that are multiplied, where memory has another."""
    of = atom.multiplied(letter)
    return of.word if of != atom.stored_type(letter) else ""


def operands(spec: Spec, atom: Atom, mma: TiledMma, tile: tiling.Tile) -> tuple[Operand, Operand]:
    """A and B as they are stored, which another operation of half the depth reads in the same way: the dense one of a sparse A,
    that of bytes of 4-bit elements."""

    def stored(letter: str, extent: int, major: str) -> Operand:
        group, kept = atom.stored(letter)
        of_mma = replace(mma, extent=(*mma.extent[:2], mma.extent[2] // group * kept))
        one = operand(letter, atom.of_stored(letter), of_mma, extent, tile[2] // group * kept, atom.stored_major(letter, major))
        stage = one.bytes_per_stage + atom.metadata_bytes(letter, extent, tile[2])
        return replace(one, group=group, kept=kept, word=_word(atom, letter), bytes_per_stage=stage)

    return stored("A", tile[0], spec.layout.a_major), stored("B", tile[1], spec.layout.b_major)


def one_tile_budget(
    atom: Atom, mma: TiledMma, tile: tiling.Tile, a: Operand, b: Operand, limit: int
) -> tuple[int, list[Fault]]:
    """Bytes of shared memory of a kernel that holds its whole tile, and faults if it does not fit."""
    loaded = budgets.align(a.bytes_per_stage) + budgets.align(b.bytes_per_stage)
    sums = tile[0] * tile[1] * atom.type_d.bytes if mma.atoms[2] > 1 else 0
    total = max(loaded, budgets.align(sums))
    faults = []
    if total > limit:
        faults.append(
            Fault(
                ("tile",),
                f"the tile needs {total:,} B of shared memory, the maximum per CTA is {limit:,} B",
                "make the tile smaller: A and B take (M + N) x K elements",
            )
        )
    accumulators, fragments = budgets.registers(atom, mma, tile)
    needed = accumulators + fragments // 2 * (tile[2] // mma.extent[2])
    if needed + budgets.REGISTERS_BESIDES > budgets.REGISTERS_PER_THREAD:
        faults.append(
            Fault(
                ("tile",),
                f"accumulators and fragments of the whole tile take {needed} registers per thread, the maximum is 255",
                "make the tile smaller, or use more warps in atoms_layout",
            )
        )
    return total, faults
