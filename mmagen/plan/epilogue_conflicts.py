"""Bank conflicts of the epilogue that stages accumulators in shared memory (epilogue_staged.cuh), counted from the plan.

Passes are those of one CTA tile whose rows of D are aligned, in the units of `bank_conflicts` and of the emulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from mmagen.mma.ownership import k_slices, ownership
from mmagen.plan.bank_conflicts import Passes, passes
from mmagen.plan.operations import columns_of_element
from mmagen.plan.plans import GemmPlan

_WARP = 32
_WIDEST = 16  # bytes of a shared-memory access


@dataclass(frozen=True)
class Staging:
    """stores: registers to shared memory, partial sums of sliced K included. loads: shared memory to the functor, and the
    partial sums that others are added to."""

    stores: Passes
    loads: Passes

    @property
    def conflicts(self) -> int:
        """Passes beyond the ideal."""
        return self.stores.taken - self.stores.ideal + self.loads.taken - self.loads.ideal


def staging(plan: GemmPlan) -> Staging:
    """The passes of one CTA tile."""
    staged, (m, n, _) = plan.epilogue, plan.tile
    across, along = (m, n) if staged.row_major else (n, m)
    slices = across // staged.slice
    stores, partial_loads = _sums(plan, along)
    loads = _together([*partial_loads, *_rows(plan, along)])
    return Staging(_times(_together(stores), slices), _times(loads, slices))


def _together(accesses: Iterable[Passes]) -> Passes:
    found = list(accesses)
    return Passes(sum(one.taken for one in found), sum(one.ideal for one in found))


def _times(one: Passes, count: int) -> Passes:
    return Passes(one.taken * count, one.ideal * count)


def _rows(plan: GemmPlan, along: int) -> Iterator[Passes]:
    """store_slice: thread i reads the sums of vector i of the slice, 16 bytes at a time."""
    staged, element = plan.epilogue, plan.atom.type_d.bytes
    pitch, width = along + staged.pad, staged.vector
    width *= columns_of_element(staged.operations)  # sums of a vector
    access = min(_WIDEST, width * element)
    per_line = along // width
    vectors = staged.slice * per_line
    for first in range(0, vectors, _WARP):
        starts = [(i // per_line * pitch + i % per_line * width) * element for i in range(first, min(first + _WARP, vectors))]
        for byte in range(0, width * element, access):
            yield passes([start + byte for start in starts], access)


def _sums(plan: GemmPlan, along: int) -> tuple[list[Passes], list[Passes]]:
    """stage_accumulators: (stores, loads) of one slice. Warps of K slice 0 store, those of the others add theirs."""
    offsets = _offsets(plan, along)
    slice_of_thread = k_slices(plan.atom, plan.tiled_mma.atoms_layout)
    element = plan.atom.type_d.bytes
    run = _contiguous(plan, offsets[0])
    stores: list[Passes] = []
    loads: list[Passes] = []
    for k in range(plan.tiled_mma.atoms[2]):
        width = run if k == 0 else _pairs(offsets)
        for first in range(0, plan.tiled_mma.threads, _WARP):
            warp = [offsets[t] for t in range(first, min(first + _WARP, len(offsets))) if slice_of_thread[t] == k]
            if not warp:
                continue
            each = [passes([own[v] * element for own in warp], width * element) for v in range(0, len(warp[0]), width)]
            stores += each
            loads += each if k else []
    return stores, loads


def _offsets(plan: GemmPlan, along: int) -> list[list[int]]:
    """[thread][value of the first slice]: elements from the begin of the slice."""
    staged, mma = plan.epilogue, plan.tiled_mma
    pitch = along + staged.pad
    tile = (staged.slice, along, mma.extent[2]) if staged.row_major else (along, staged.slice, mma.extent[2])
    (owned,) = ownership(plan.atom, mma.atoms_layout, mma.permutation, tile, "C")
    places = []
    for values in owned.elements:
        rows_and_columns = [divmod(element, owned.columns) for element in values]
        places.append([r * pitch + c if staged.row_major else c * pitch + r for r, c in rows_and_columns])
    return places


def _contiguous(plan: GemmPlan, offsets: Sequence[int]) -> int:
    """Elements per store: as many as lie side by side both in registers and in the slice, at most two.

    The registers of a slice are contiguous over all its values if D is staged in columns, or in one slice; else over those of
    its atoms along M.
    """
    staged, mma = plan.epilogue, plan.tiled_mma
    values = plan.atom.values_c
    if staged.row_major and plan.tile[0] > staged.slice:
        values *= staged.slice // (plan.atom.m * mma.atoms[0])
    else:
        values = len(offsets)
    run = 1
    while run < values and offsets[run] == offsets[0] + run:
        run += 1
    return gcd(run, 2)


def _pairs(offsets: Sequence[Sequence[int]]) -> int:
    """Elements per access of the loop that adds partial sums, which the compiler makes of two neighbours."""
    aligned = all(own[v] % 2 == 0 and own[v + 1] == own[v] + 1 for own in offsets for v in range(0, len(own) - 1, 2))
    return 2 if aligned and len(offsets[0]) % 2 == 0 else 1
