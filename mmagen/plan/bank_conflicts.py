"""Bank conflicts of shared-memory accesses, counted from the plan's layouts.

Shared memory has 32 banks of 4 bytes. One pass serves each bank once; accesses of 4 bytes a thread go a warp at a time,
8 bytes a half warp, 16 bytes (and each 8x8 matrix of ldmatrix) a quarter warp (CUDA C++ Best Practices Guide, "Shared
Memory"). Words that several threads access count once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from mmagen.mma.atoms import Atom
from mmagen.mma.ownership import Ownership, ownership
from mmagen.plan.model import GmemCopy, Operand, TiledMma
from mmagen.plan.plans import ProductPlan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BANKS = 32
WORD = 4
CORE_LINES, CHUNK = 8, 16  # of a core matrix of wgmma, and bytes of each


@dataclass(frozen=True)
class Passes:
    """Shared-memory passes of one copy step of one warp. taken: actual; ideal: without conflicts."""

    taken: int
    ideal: int

    @property
    def ways(self) -> float:
        """Ratio of passes to ideal passes: 1.0 without conflicts, 2.0 for two-way conflicts throughout."""
        return self.taken / self.ideal


Index = TypeVar("Index", int, "NDArray[np.int64]")


def byte_address(operand: Operand, mn: Index, k: Index) -> Index:
    """Byte offset of element (mn, k) within a stage, or of many: tile_to_shape of the swizzled layout atom."""
    along, across = (k, mn) if operand.contiguous_k else (mn, k)
    tile_along, tile_across = along // operand.line, across // operand.lines
    # tile_to_shape repeats the atom along MN first, then along K.
    if operand.contiguous_k:
        atom = tile_across + tile_along * (operand.extent_across // operand.lines)
    else:
        atom = tile_along + tile_across * (operand.extent_along // operand.line)
    offset = (atom * operand.lines + across % operand.lines) * operand.line + along % operand.line
    swizzle = operand.swizzle
    mask = ((1 << swizzle.bits) - 1) << (swizzle.base + swizzle.shift)
    return (offset ^ ((offset & mask) >> swizzle.shift)) * operand.element.bytes


def _count(steps: Iterable[Iterable[int]]) -> Passes:
    """steps: the words accessed by the threads that are served together, at most 32; without conflicts a step is one pass."""
    taken = [max(Counter(word % BANKS for word in set(words)).values()) for words in steps]
    return Passes(sum(taken), len(taken))


def passes(addresses: Sequence[int], size: int) -> Passes:
    """One access of a warp's threads, of `size` bytes each at these byte addresses. Words that several threads access count
    once; ideal: as many passes as the different words take."""
    start = addresses[0] // (BANKS * WORD) * BANKS * WORD  # banks repeat, and so do the patterns of a kernel
    return _passes(tuple(address - start for address in addresses), size)


@cache
def _passes(addresses: tuple[int, ...], size: int) -> Passes:
    together = _threads_together(size)
    taken = ideal = 0
    for first in range(0, len(addresses), together):
        words = {address // WORD + i for address in addresses[first : first + together] for i in range(-(-size // WORD))}
        taken += max(Counter(word % BANKS for word in words).values())
        ideal += -(-len(words) // BANKS)
    return Passes(taken, ideal)


def load(plan: ProductPlan, operand: Operand) -> Passes:
    """One warp's load of one k block of fragments, by the plan's copy operation."""
    table = _fragments(plan.atom, plan.tiled_mma, plan.tile, operand)
    width, together = _access(operand)
    lanes = min(32, plan.threads)
    return _count(
        _words(operand, table, range(start, min(start + together, lanes)), range(first, first + width))
        for first in range(0, len(table.elements[0]), width)
        for start in range(0, lanes, together)
    )


def first_load(atom: Atom, mma: TiledMma, tile: tuple[int, int, int], operand: Operand) -> tuple[list[tuple[int, int]], str]:
    """The elements (mn, k) that are read together first, and what reads them; nothing of what threads convert."""
    if operand.smem_copy is None and operand.letter == "A" and atom.a_in_registers:
        return [], ""
    if operand.smem_copy is None:  # wgmma
        chunk = min(CHUNK // operand.element.bytes, operand.extent_along)
        lines = range(min(CORE_LINES, operand.extent_across))
        core = [(across, along) for across in lines for along in range(chunk)]
        return [at if operand.contiguous_k else at[::-1] for at in core], "a core matrix, 8 lines of 16 bytes"
    table = _fragments(atom, mma, tile, operand)
    width, together = _access(operand)
    lanes = min(together, mma.threads)
    found = dict.fromkeys(table.elements[thread][value] for thread in range(lanes) for value in range(width))
    by = (
        "a matrix of ldmatrix, 8 lines of 16 bytes"
        if operand.smem_copy.matrices
        else f"the first load of threads 0 to {lanes - 1}"
    )
    return [divmod(element, table.columns) for element in found], by


def _fragments(atom: Atom, mma: TiledMma, tile: tuple[int, int, int], operand: Operand) -> Ownership:
    """Who loads which elements of one k block."""
    permutation = mma.permutation
    if operand.group > 1:  # what is stored of a sparse A, or bytes
        atom, permutation = atom.of_stored(operand.letter), (*permutation[:2], None)
    block = (tile[0], tile[1], mma.extent[2] // operand.group * operand.kept)
    return ownership(atom, mma.atoms_layout, permutation, block, operand.letter)[0]


def _access(operand: Operand) -> tuple[int, int]:
    """(elements per thread of one access or one 8x8 matrix of ldmatrix, threads served together)."""
    assert operand.smem_copy
    if operand.smem_copy.matrices:
        return 32 // operand.element.bits, 32
    return operand.smem_copy.elements, _threads_together(operand.smem_copy.elements * operand.element.bytes)


def _threads_together(bytes_each: int) -> int:
    """Threads of a warp that are served together."""
    return min(32, BANKS * WORD // max(WORD, bytes_each))


def _words(operand: Operand, table: Ownership, threads: Iterable[int], values: Sequence[int]) -> list[int]:
    return [
        byte_address(operand, *divmod(table.elements[thread][value], table.columns)) // WORD
        for thread in threads
        for value in values
    ]


def copy(operand: Operand, by: GmemCopy) -> Passes:
    """One warp's stores to shared memory, one vector per thread, of a copy from global memory."""
    together, threads = _threads_together(by.vector * operand.element.bytes), min(32, by.threads)
    return _count(
        [word for thread in range(start, min(start + together, threads)) for word in _vector_words(operand, by, thread)]
        for start in range(0, threads, together)
    )


def _vector_words(operand: Operand, by: GmemCopy, thread: int) -> list[int]:
    along, across = thread % by.along * by.vector, thread // by.along
    places = [(across, along + v) if operand.contiguous_k else (along + v, across) for v in range(by.vector)]
    return [byte_address(operand, *place) // WORD for place in places]
