"""Layout algebra of TiledMMA: which thread and value own which element of A, B and C.

Built on `tensor-layouts`, composed the way CuTe's `TiledMMA::thrfrg_A/B/C` do it (cute/atom/mma_atom.hpp). The
library's own `tile_mma_grid` is not used: it gets value order, permutations and atoms along K wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from tensor_layouts import Layout, as_tuple, complement, compose, flatten, logical_divide, mode, size, zipped_divide

from mmagen.core.layout_text import IntTuple, LayoutText
from mmagen.mma import catalogue
from mmagen.mma.atoms import Atom
from mmagen.mma.operation import Operation

PermutationMode = int | LayoutText | None


@dataclass(frozen=True)
class Stage:
    """How a tile lies in shared memory: bytes of an element, and whether its columns are contiguous (else its rows are). group,
    kept, packed: of each `group` neighbours along K memory has `kept`, each of which is `packed` elements that are multiplied."""

    element_bytes: int
    contiguous_columns: bool
    group: int = 1
    kept: int = 1
    packed: int = 1

    @property
    def sparse(self) -> bool:
        """Are elements left out, so that metadata say which column one is of?"""
        return self.kept * self.packed < self.group

    @property
    def note(self) -> str:
        """The end of a title, "; ...", that says what a column of memory is; "" where it is a column of the matrix."""
        if self.sparse:
            return f"; columns are the {self.kept} of each {self.group} along K that are stored"
        return f"; a column is {self.packed} elements along K" if self.packed > 1 else ""


@dataclass(frozen=True)
class Ownership:
    """Who owns the elements of one matrix of a tile.

    rows, columns: extents, (M,K) for A, (N,K) for B, (M,N) for C. elements[thread][value]: the element r * columns + c
    that is value number `value` of the thread's fragment, in CuTe's order (MMA, MMA_M, MMA_N). stage: None for registers.
    A tile that the instruction reads from shared memory belongs to no thread: it has one row of elements, that of the stage,
    in which elements[0][i] lies i elements from its first byte.
    """

    matrix: str
    rows: int
    columns: int
    elements: tuple[tuple[int, ...], ...]
    stage: Stage | None = None

    def owners(self) -> list[list[tuple[int, int]]]:
        """owners()[r * columns + c]: the (thread, value) pairs that own the element, in order of thread."""
        table: list[list[tuple[int, int]]] = [[] for _ in range(self.rows * self.columns)]
        for thread, values in enumerate(self.elements):
            for value, element in enumerate(values):
                table[element].append((thread, value))
        return table

    def owners_in(self, rows: range, columns: range) -> list[list[list[tuple[int, int]]]]:
        """owners_in(...)[i][j]: the same of the element at rows[i], columns[j]."""
        found: dict[int, list[tuple[int, int]]] = {row * self.columns + column: [] for row in rows for column in columns}
        for thread, values in enumerate(self.elements):
            for value, element in enumerate(values):
                if element in found:
                    found[element].append((thread, value))
        return [[found[row * self.columns + column] for column in columns] for row in rows]


@dataclass(frozen=True)
class AtomLayouts:
    """Thread-value layouts of one atom onto column-major (M,K), (N,K) and (M,N), and its threads within a warp."""

    thr_id: Layout
    a: Layout
    b: Layout
    c: Layout


def atom_layouts(atom: Atom) -> AtomLayouts:
    """The atom's layouts as the catalogue has them; every thread of UniversalFMA is one atom."""
    operation = catalogue.known(atom.name)
    if operation is None:
        return AtomLayouts(Layout(1, 0), Layout((1, atom.k), (0, 1)), Layout((1, atom.k), (0, 1)), Layout((1, 1), (0, 0)))
    return AtomLayouts(
        _to_layout(LayoutText.parse(operation.thr_id)), *(_to_layout(operation.layout(name).layout) for name in "ABC")
    )


def _to_layout(text: LayoutText) -> Layout:
    return Layout(text.shape, text.stride)


# The modes of A, B and C as numbers of M, N and K.
MODES = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}


def ownership(
    atom: Atom,
    atoms_layout: LayoutText,
    permutation: tuple[PermutationMode, ...],
    tile: tuple[int, int, int],
    matrices: str = "ABC",
) -> tuple[Ownership, ...]:
    """Ownership of A, B and C, or of those named, for a TiledMMA over a tile of (M, N, K) elements, which its extents must
    divide."""
    layouts = atom_layouts(atom)
    of_matrix = {"A": layouts.a, "B": layouts.b, "C": layouts.c}
    atoms_mnk, shape = _to_layout(atoms_layout), (atom.m, atom.n, atom.k)
    return tuple(
        _partition(
            matrix,
            of_matrix[matrix],
            layouts.thr_id,
            atoms_mnk,
            (shape[MODES[matrix][0]], shape[MODES[matrix][1]]),
            MODES[matrix],
            permutation,
            (tile[MODES[matrix][0]], tile[MODES[matrix][1]]),
        )
        for matrix in matrices
    )


def of_operation(operation: Operation) -> tuple[Ownership, ...]:
    """Ownership of the operands of one operation that lie in registers, as the catalogue has them. Threads are those of the
    warp or warpgroup; of Volta's quad pairs the first, threads 0 to 3 and 16 to 19."""
    threads = _to_layout(LayoutText.parse(operation.thr_id))
    found = []
    for operand, place in operation.places.items():
        if place != "registers" or operand not in operation.layouts:
            continue
        layout = operation.layout(operand)
        rows, columns = layout.rows, layout.columns
        table: list[tuple[int, ...]] = [()] * (threads(size(threads) - 1) + 1)
        for thread, values in enumerate(layout.table()):
            table[threads(thread)] = tuple(value % rows * columns + value // rows for value in values)
        found.append(Ownership(operand, rows, columns, tuple(table)))
    return tuple(found)


def _partition(
    matrix: str,
    atom_tv: Layout,
    thr_id: Layout,
    atoms_mnk: Layout,
    atom_shape: tuple[int, int],
    modes: tuple[int, int],
    permutation: tuple[PermutationMode, ...],
    extents: tuple[int, int],
) -> Ownership:
    rows, columns = extents
    atoms = [size(mode(atoms_mnk, i)) for i in range(3)]
    tiler = tuple(_permutation_tiler(permutation[i], atom_shape[j] * atoms[i]) for j, i in enumerate(modes))
    identity = Layout((rows, columns), (1, rows))
    permuted = logical_divide(identity, tiler)
    by_atom = zipped_divide(permuted, tuple(Layout(extent, 1) for extent in atom_shape))
    atom_mode, rest = mode(by_atom, 0), mode(by_atom, 1)
    tv = compose(atom_mode, atom_tv)  # (ThrV, FrgV)
    by_thread = zipped_divide(rest, tuple(Layout(atoms[i], 1) for i in modes))
    thr_rest, frg_rest = mode(by_thread, 0), mode(by_thread, 1)  # (ThrM,ThrN), (RestM,RestN)

    of_thread, of_value = mode(tv, 0), mode(tv, 1)
    fragment = _offsets(of_value)
    values = [first + f for first in _offsets(frg_rest) for f in fragment]
    number = _numbering(thr_id, atoms_mnk)
    table: list[tuple[int, ...]] = [()] * (size(thr_id) * size(atoms_mnk))
    lanes = _offsets(of_thread)
    for at in product(*map(range, atoms)):
        first = thr_rest(at[modes[0]] + atoms[modes[0]] * at[modes[1]])
        for v, lane in enumerate(lanes):
            places = [divmod(first + lane + value, rows) for value in values]
            table[number(v, at)] = tuple(row * columns + column for column, row in places)
    return Ownership(matrix, rows, columns, tuple(table))


def _offsets(layout: Layout) -> list[int]:
    """layout(0), layout(1), ... of all its elements: a call for each takes 10 us."""
    flat = flatten(layout)
    found = [0]
    for extent, stride in zip(as_tuple(flat.shape), as_tuple(flat.stride), strict=True):
        found = [first + i * stride for i in range(extent) for first in found]
    return found


def _permutation_tiler(entry: PermutationMode, default: int) -> int | Layout:
    if entry is None:
        return default
    return entry if isinstance(entry, int) else _to_layout(entry)


def _numbering(thr_id: Layout, atoms_mnk: Layout) -> Callable[[int, tuple[int, ...]], int]:
    """(thread of its atom, atom along M, N, K) -> thread of the TiledMMA. thr_layout_vmnk = tiled_product(AtomThrID,
    AtomLayoutMNK): atoms fill the gaps that the atom's threads leave."""
    gaps = complement(thr_id, size(thr_id) * size(atoms_mnk))
    lanes = [int(thr_id(v)) for v in range(size(thr_id))]
    first = {at: int(gaps(atoms_mnk(*at))) for at in product(*(range(size(mode(atoms_mnk, i))) for i in range(3)))}
    return lambda v, at: lanes[v] + first[at[0], at[1], at[2]]


def k_slices(atom: Atom, atoms_layout: LayoutText) -> list[int]:
    """[thread]: the number of its atom along K, whose partial sums it holds."""
    thr_id, atoms_mnk = atom_layouts(atom).thr_id, _to_layout(atoms_layout)
    found = [0] * (size(thr_id) * size(atoms_mnk))
    number = _numbering(thr_id, atoms_mnk)
    for v, *at in product(range(size(thr_id)), *(range(size(mode(atoms_mnk, i))) for i in range(3))):
        found[number(v, tuple(at))] = at[2]
    return found


def flat(shape: IntTuple) -> tuple[int, ...]:
    """The integers of a nested tuple, left to right."""
    return (shape,) if isinstance(shape, int) else tuple(x for part in shape for x in flat(part))
