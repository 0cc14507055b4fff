"""Sparse operations as atoms, wgmma and mma.sp: A is stored as the elements that are kept, with metadata that say which these are.

PTX ISA, "wgmma.mma_async.sp", "mma.sp" and "Sparse matrix storage": of each group of neighbours along K (4, or 2 of .tf32) half
are stored, and 4 bits of metadata name their places. The 32-bit registers of a warpgroup hold those of 64 rows, each warp those of
16, and both instructions want them in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from mmagen.mma import catalogue
from mmagen.mma.atoms import TYPES, Atom, find_atom
from mmagen.mma.forms import METADATA
from mmagen.mma.sparse_forms import own_operation

if TYPE_CHECKING:
    from mmagen.mma.operation import Operation

ROWS = 64  # of A that the metadata in one 32-bit register of each thread of a warpgroup speak of
WORDS = 128  # of them, one for each thread
# In memory the metadata of a row are padded to so many blocks of ROWS rows: a CTA tile never ends behind them.
PAD_BLOCKS = 4
# What each sparse type keeps of its neighbours along K.
SPARSITY = {"2:4": (4, 2), "1:2": (2, 1)}
_PREFIX = "SM90::GMMA::SPARSE::GMMA_"
_GROUPS_OF_WORD = 8  # whose metadata are 4 bits each
# A wgmma by the bits of A's elements: its metadata lie in memory as those of every operation of such elements.
_FORMATS = {16: "64x8x32_F32BF16BF16_SS", 32: "64x8x16_F32TF32TF32_SS_TN", 8: "64x8x64_S32S8S8_SS_TN"}


@dataclass(frozen=True)
class SparseAtom(Atom):
    """A wgmma with a sparse A in shared memory, and what SparseMma has in common with it. k counts A's logical columns.

    sparsity: 2:4 or 1:2. selectors: how many instructions share the metadata of one 32-bit register; each is told by its sparsity
    selector which lanes hold its own. from_extended_headers: CuTe defines it only in those.
    """

    sparsity: str = "2:4"
    selectors: int = 1
    from_extended_headers: bool = False

    @property
    def group(self) -> int:
        """Neighbours along K of which `kept` are stored."""
        return SPARSITY[self.sparsity][0]

    @property
    def kept(self) -> int:
        return SPARSITY[self.sparsity][1]

    @property
    def block_k(self) -> int:
        """Columns of A that the metadata in one 32-bit register of each thread speak of."""
        return self.k * self.selectors

    @property
    def cxx(self) -> str:
        return self.cxx_with("Zero")

    def cxx_with(self, selector: str) -> str:
        """The operation with that sparsity selector, Zero or One, as C++ spells it."""
        operation = _operation(self.name)
        assert operation
        majors = {"tnspA": "K", "tnspB": "K" if self.majors[1] == "N" else "MN"} if self.takes_majors else {}
        return operation.cxx(**majors, spsel=selector)

    def of_stored(self, letter: str) -> Atom:
        if letter == "B":
            return self
        dense = find_atom(self.dense_name(8))
        assert dense
        return dense.in_layout("TN")

    @property
    def of_format(self) -> SparseAtom:
        """A wgmma whose metadata lie in memory as those of this operation."""
        return self

    def dense_name(self, n: int) -> str:
        """The dense wgmma of the same types: as many bytes of A, half the depth."""
        shape, _, kind = self.name.removeprefix(_PREFIX).partition("_")
        return f"SM90_{shape.partition('x')[0]}x{n}x{self.k // 2}_{kind}"

    @property
    def needs_extended_headers(self) -> bool:
        return self.from_extended_headers

    @property
    def k_only(self) -> str:
        return "" if self.takes_majors else "B"

    @property
    def reads_a(self) -> str:
        return "compressed"

    def in_layout(self, letters: str) -> Atom:
        """What is stored of A is K contiguous, whatever the layout of the matrix that it comes from."""
        return super().in_layout(f"T{letters[1]}")

    def stored(self, letter: str) -> tuple[int, int]:
        return (self.group, self.kept) if letter == "A" else (1, 1)

    def stored_major(self, letter: str, major: str) -> str:
        return "K" if letter == "A" else major

    def metadata_bytes(self, letter: str, rows: int, k: int) -> int:
        return -(-rows // ROWS) * -(-k // self.block_k) * WORDS * 4 if letter == "A" else 0

    def words(self, rows: int, k: int) -> int:
        """32-bit words of metadata of a thread, for the rows x k elements of A of its warpgroup, or of its warp."""
        return rows // self.m * (k // self.block_k)

    def registers_of_a(self, rows: int, k: int) -> int:
        return self.words(rows, k)

    @property
    def in_registers_of_a(self) -> str:
        return "metadata of A"

    @property
    def depths(self) -> tuple[int, ...]:
        return tuple(self.block_k * n for n in range(1, PAD_BLOCKS + 1) if PAD_BLOCKS % n == 0)

    def named(self, name: str) -> Atom | None:
        return find_sparse(name)


@dataclass(frozen=True)
class SparseMma(SparseAtom):
    """An mma.sp, which a warp executes with all operands in registers."""

    @property
    def cxx_template(self) -> str:
        """The struct that a project defines, with the sparsity selector as its template argument."""
        return self.name

    @property
    def cxx(self) -> str:
        return f"{self.name}<0>"

    def of_stored(self, letter: str) -> Atom:
        if letter == "B":
            return self
        words = "".join(one.word.upper() for one in (self.type_d, self.type_a, self.type_b, self.type_c))
        dense = find_atom(f"{self.generation}_{self.m}x{self.n}x{self.k // 2}_{words}_TN")
        assert dense
        return dense

    @property
    def of_format(self) -> SparseAtom:
        found = find_sparse(_PREFIX + _FORMATS[self.type_a.bits])
        assert found
        return found

    @property
    def ldmatrix(self) -> bool:
        return True

    @property
    def depths(self) -> tuple[int, ...]:
        """With two k blocks at least: fragments of one are loaded while the other is multiplied."""
        return tuple(depth for depth in super().depths if depth >= 2 * self.k)


@cache
def find_sparse(name: str) -> SparseAtom | None:
    """The mma.sp, or the sparse wgmma with A in shared memory, of that name; None for every other operation."""
    operation = _operation(name)
    if operation is None or operation.sparsity not in SPARSITY:
        return None
    if own_operation(name):
        return _mma(operation)
    if not operation.warpgroup or operation.a_in_registers:
        return None
    bits = operation.m * operation.k // METADATA[operation.sparsity][0] * 8
    return replace(
        SparseAtom.from_operation(operation, TYPES, "" if TYPES[operation.type_a].bits == 16 else "TN"),
        sparsity=operation.sparsity,
        selectors=32 * WORDS // bits,
        extended=False,
        from_extended_headers=operation.extended,
    )


def _mma(operation: Operation) -> SparseMma:
    columns = WORDS * _GROUPS_OF_WORD // ROWS * SPARSITY[operation.sparsity or ""][0]
    return replace(
        SparseMma.from_operation(operation, TYPES, "TN"), sparsity=operation.sparsity or "", selectors=columns // operation.k
    )


def sparse_name(dense: str) -> str | None:
    """The sparse operation of the same types, and of wgmma the same N, as a dense one; None where there is none."""
    atom = find_atom(dense)
    if atom is None:
        return None
    of_mma = dense.replace("_", "_SPARSE_", 1).replace(f"x{atom.k}_", f"x{2 * atom.k}_", 1)
    if own_operation(of_mma):
        return of_mma
    kind = atom.name.partition("_")[2].partition("_")[2].replace("_RS", "_SS")
    name = f"{_PREFIX}{atom.m}x{atom.n}x{2 * atom.k}_{kind}"
    return name if find_sparse(name) else None


def in_shared_memory(name: str) -> str | None:
    """The name with A in shared memory, of a sparse wgmma with A in registers; None for every other operation."""
    operation = _operation(name)
    if operation is None or not operation.warpgroup or not operation.sparse or not operation.a_in_registers:
        return None
    return operation.name.replace("_RS", "_SS")


def _operation(name: str) -> Operation | None:
    return catalogue.known(name)
