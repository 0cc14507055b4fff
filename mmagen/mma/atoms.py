"""Atoms: the MMA operations that a tile can be built from, as the plans of kernels see them.

An atom is derived from the catalogue's Operation of that name; CuTe's UniversalFMA, which is a template of plain C++ and
no MMA struct, is added here. Which atoms a kernel is built from is decided by its family (mmagen.families).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

from mmagen.core.errors import Fault, SpecFaults
from mmagen.core.instead import did_you_mean
from mmagen.core.targets import capability
from mmagen.mma import catalogue
from mmagen.mma.accumulation import Accumulation, accumulation
from mmagen.mma.formats import PARTS
from mmagen.mma.operation import Operation


@dataclass(frozen=True)
class ElementType:
    """An element type. word: name in specs; cxx: type in CuTe; bits: storage size."""

    word: str
    cxx: str
    bits: int

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def parts(self) -> int:
        """Real numbers of an element: 2 of a complex one."""
        return PARTS.get(self.word, 1)


TYPES = {
    word: ElementType(word, cxx, bits)
    for word, cxx, bits in (
        ("f16", "cute::half_t", 16),
        ("bf16", "cute::bfloat16_t", 16),
        ("tf32", "cute::tfloat32_t", 32),
        ("f32", "float", 32),
        ("f64", "double", 64),
        ("c64", "cutlass::complex<double>", 128),
        ("s8", "int8_t", 8),
        ("u8", "uint8_t", 8),
        ("s16", "int16_t", 16),
        ("s32", "int32_t", 32),
        ("e4m3", "cute::float_e4m3_t", 8),
        ("e5m2", "cute::float_e5m2_t", 8),
    )
}


@dataclass(frozen=True)
class Atom:
    """One MMA operation.

    generation: the architecture whose header defines it, SM80 or SM90, or FMA. kind: fma, mma.sync or wgmma.
    m, n, k: shape in elements. threads: how many take part (128: a warpgroup; 32: a warp; 8: a quad pair; 1: a thread).
    min_arch: lowest compute capability, ten times (80 for sm_80).
    majors: letters of the layout that the operation reads, "" for a wgmma that takes any until `in_layout` has said it.
    a_in_registers: of a wgmma, whether A comes from registers (RS) or from shared memory (SS); B never does.
    extended: CuTe defines it only with CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED; projects define it themselves (mma/definition.py).
    """

    name: str
    generation: str
    kind: str
    m: int
    n: int
    k: int
    type_d: ElementType
    type_a: ElementType
    type_b: ElementType
    type_c: ElementType
    threads: int
    min_arch: int
    majors: str
    a_in_registers: bool = False
    extended: bool = False

    @classmethod
    def from_operation(cls, operation: Operation, types: Mapping[str, ElementType], majors: str) -> Self:
        """What the catalogue says of an operation, with `types` by their names there."""
        return cls(
            operation.name,
            operation.family,
            operation.kind,
            *operation.shape,
            types[operation.type_d],
            types[operation.type_a],
            types[operation.type_b],
            types[operation.type_c],
            operation.threads,
            capability(operation.arch),
            majors,
            operation.warpgroup and operation.a_in_registers,
            operation.extended,
        )

    @property
    def cxx(self) -> str:
        """The operation as C++ spells it, within the namespace of the project."""
        if self.extended:
            return self.name
        if self.generation == "FMA":
            return f"cute::UniversalFMA<{self.type_d.cxx}, {self.type_a.cxx}, {self.type_b.cxx}, {self.type_c.cxx}>"
        if self.takes_majors:
            # Fragments in registers have one order, whatever the order in memory.
            a = "K" if self.majors[0] == "T" or self.a_in_registers else "MN"
            b = "K" if self.majors[1] == "N" else "MN"
            return f"cute::{self.name}<cute::SM90::GMMA::Major::{a}, cute::SM90::GMMA::Major::{b}>"
        if self.wgmma and self.type_d.word != "s32":  # the factors of A and B, 1 by default, are template parameters
            return f"cute::{self.name}<>"
        return f"cute::{self.name}"

    @property
    def wgmma(self) -> bool:
        """Is it a warpgroup operation that reads shared memory?"""
        return self.kind == "wgmma"

    @property
    def takes_majors(self) -> bool:
        """Does the operation take the majors of A and B as template parameters? wgmma's of 16-bit types do."""
        return self.wgmma and self.type_a.bits == 16

    @property
    def arch_specific(self) -> bool:
        """Is the operation available only on `default_arch`?"""
        return self.wgmma

    @property
    def default_arch(self) -> str:
        """The oldest architecture that has the operation, with the suffix of those that no later one includes."""
        return f"sm_{self.min_arch}{'a' if self.arch_specific else ''}"

    def in_layout(self, letters: str) -> Atom:
        """The operation for operands of that layout (TN, NT, NN, TT)."""
        return replace(self, majors=letters) if self.takes_majors else self

    @property
    def needs_extended_headers(self) -> bool:
        """Does a project need CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED for it?"""
        return False

    @property
    def k_only(self) -> str:
        """The letters of the matrices that a wgmma kernel takes with K contiguous only."""
        return "" if self.takes_majors else "AB"

    @property
    def reads_a(self) -> str:
        """Where a wgmma has its A: "shared memory", "registers", or "compressed" in shared memory."""
        return "registers" if self.a_in_registers else "shared memory"

    def stored(self, letter: str) -> tuple[int, int]:
        """(group, kept): of each `group` neighbours along K of A or B memory has `kept`."""
        return 1, 1

    def stored_major(self, letter: str, major: str) -> str:
        """The contiguous mode of A or B as the kernel loads it, of a matrix with that one."""
        return major

    def multiplied(self, letter: str) -> ElementType:
        """The type of the elements of A or B that are multiplied."""
        return self.type_a if letter == "A" else self.type_b

    def stored_type(self, letter: str) -> ElementType:
        """The type of what A or B is in memory."""
        return self.multiplied(letter)

    def of_stored(self, letter: str) -> Atom:
        """The dense operation that reads A or B as this one reads what is stored of it."""
        return self

    def metadata_bytes(self, letter: str, rows: int, k: int) -> int:
        """Bytes of metadata of rows x k elements of A or B."""
        return 0

    def registers_of_a(self, rows: int, k: int) -> int:
        """32-bit registers of a thread for what a warpgroup's rows x k elements of A take in registers."""
        return rows * k * self.type_a.bits // 32 // self.threads if self.a_in_registers else 0

    @property
    def in_registers_of_a(self) -> str:
        """What these registers hold."""
        return "fragments of A"

    @property
    def depths(self) -> tuple[int, ...]:
        """The extents along K that a CTA tile of wgmma may have, () for every multiple of k."""
        return ()

    def named(self, name: str) -> Atom | None:
        """The atom of the same kind of that name."""
        return find_atom(name)

    @property
    def accumulation(self) -> Accumulation:
        """What it keeps of its sums."""
        words = self.type_a.word, self.type_d.word
        return accumulation(self.min_arch, *words, self.k, tensor_core=self.threads > 1, warpgroup=self.wgmma)

    @property
    def real_products(self) -> int:
        """Real multiplications of a product of an element of A and one of B."""
        return self.type_a.parts * self.type_b.parts

    @property
    def values_a(self) -> int:
        return self.m * self.k // self.threads

    @property
    def values_b(self) -> int:
        return self.n * self.k // self.threads

    @property
    def values_c(self) -> int:
        return self.m * self.n // self.threads

    @property
    def ldmatrix(self) -> bool:
        """Do fragments have the shape that ldmatrix delivers: 8 rows, one 32-bit register a thread and row of 16 bytes?

        PTX ISA, "Warp-level matrix instructions": true of every mma.sync of sm_75 and later but the f64 ones.
        """
        return self.threads == 32 and self.min_arch >= 75 and self.type_a.bits <= 32


UNIVERSAL_FMA = {
    f"UniversalFMA<{t.cxx},{t.cxx},{t.cxx},{t.cxx}>": Atom(
        f"UniversalFMA<{t.cxx},{t.cxx},{t.cxx},{t.cxx}>", "FMA", "fma", 1, 1, 1, t, t, t, t, 1, 60, "TN"
    )
    for t in (TYPES["f32"], TYPES["f64"])
}


def atom_of(operation: Operation) -> Atom | None:
    """The operation as an atom; None where no tile can be built from it: sparse, block-scaled, tcgen05, other types."""
    words = (operation.type_d, operation.type_a, operation.type_b, operation.type_c)
    if operation.tensor_memory or operation.sparse or operation.block_scaled or any(word not in TYPES for word in words):
        return None
    letters = ("T" if operation.majors_a[0] == "K" else "N") + ("N" if operation.majors_b[0] == "K" else "T")
    return Atom.from_operation(operation, TYPES, "" if operation.warpgroup and TYPES[operation.type_a].bits == 16 else letters)


def _spelled(name: str) -> str:
    """The name as the catalogue has it: spaces inside the angle brackets of UniversalFMA do not count."""
    wanted = re.sub(r"\s+", "", name)
    short = re.fullmatch(r"UniversalFMA<(float|double)>", wanted)
    return "UniversalFMA<{0},{0},{0},{0}>".format(short[1]) if short else wanted  # CuTe's own: A = D, B = A, C = D


@cache
def find_atom(name: str) -> Atom | None:
    """The atom of that name, None for an operation that is none. Spaces inside angle brackets do not count.

    Raises SpecFaults for key ("atom",) with the nearest names where no operation is called so, and where the operation
    of that name cannot be assembled.
    """
    wanted = _spelled(name)
    if wanted in UNIVERSAL_FMA:
        return UNIVERSAL_FMA[wanted]
    operation = catalogue.known(wanted)
    if operation is None:
        remedy, nearest = _nearest(wanted)
        raise SpecFaults((Fault(("atom",), f"no MMA operation is called {name!r}", remedy, {("atom",): nearest}),))
    if operation.broken:
        raise SpecFaults(
            (
                Fault(
                    ("atom",),
                    f"{operation.name} cannot be used: {operation.broken}",
                    "choose another",
                    {("atom",): similar_atom(wanted)},
                ),
            )
        )
    return atom_of(operation)


def with_columns(atom: Atom, columns: int) -> Atom | None:
    """The wgmma that differs from `atom` in its N alone, None where there is none."""
    name = re.sub(r"_64x\d+x", f"_64x{columns}x", atom.name)
    operation = catalogue.known(name)
    found = atom_of(operation) if operation and not operation.broken else None
    return found.in_layout(atom.majors) if found else None


# --- wgmma -----------------------------------------------------------------------------------------------------------

_WGMMA_NAME = re.compile(r"SM90_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_(?P<kind>(?P<types>[A-Z0-9]+)_[RS]S(_TN)?(_SATURATE)?)")


@cache
def _wgmma_widths() -> dict[str, tuple[int, tuple[int, ...]]]:
    """What follows the shape in the name of a dense wgmma -> (K, every N), as the catalogue has them."""
    found: dict[str, tuple[int, list[int]]] = {}
    for operation in catalogue.operations():
        match = _WGMMA_NAME.fullmatch(operation.name)
        if match and operation.warpgroup and not operation.sparse:
            found.setdefault(match["kind"], (operation.k, []))[1].append(operation.n)
    return {kind: (k, tuple(sorted(widths))) for kind, (k, widths) in found.items()}


def wgmma_widths(atom: Atom) -> tuple[int, ...]:
    """Every N of the wgmma operations that differ from `atom` in N alone: multiples of 8 up to 256, of integers fewer."""
    return _wgmma_widths()[atom.name.split("_", 2)[2]][1]


def with_n(atom: Atom, n: int) -> Atom:
    """The wgmma operation that differs in N alone."""
    found = atom.named(atom.name.replace(f"_64x{atom.n}x", f"_64x{n}x"))
    assert found, n
    return found.in_layout(atom.majors) if atom.majors else found


# --- Names that are none ---------------------------------------------------------------------------------------------

_WITHOUT_KERNELS = ("SM90", "SM100", "SM103", "SM120")
_FEW = 4  # names in a sentence
_EXAMPLE = "SM80_16x8x16_F32F16F16F32_TN"


def similar_atom(name: str) -> str:
    """The name most like it of an atom that ownership, micro and gemm kernels are built from."""
    usable = [one for one in _classic_names() if not one.startswith(_WITHOUT_KERNELS)]
    near = difflib.get_close_matches(_spelled(name), usable, n=1, cutoff=0)
    return near[0] if near else _EXAMPLE


def _nearest(wanted: str) -> tuple[str, str]:
    """What to write instead of a name that no operation has, of an atom unless an operation that is none is more alike: a
    sentence, and the first of the names in it."""
    of_ptx = [one.name for one in catalogue.of_instruction(wanted) if atom_of(one) and not one.broken]
    if 0 < len(of_ptx) <= _FEW:
        return f"that is PTX, the instruction of {' or '.join(of_ptx)}", of_ptx[0]
    if "fma" in wanted.lower():
        return "the scalar atoms are UniversalFMA<float> and UniversalFMA<double>", _scalar_fma(wanted)
    upper = wanted.upper().replace("X", "x")
    if _WGMMA_NAME.fullmatch(upper):
        return _nearest_wgmma(upper)
    sparse = re.fullmatch(r"SM90_(.*?)_?SPARSE?_?(.*)", upper)
    near = catalogue.nearest(f"SM90::GMMA::SPARSE::GMMA_{sparse[1]}{sparse[2]}" if sparse else wanted)
    if near and atom_of(catalogue.find(near[0])) is None:
        return did_you_mean(near), near[0]
    classic = tuple(_classic_names())
    if upper.startswith("SM90_") and not (near and near[0] in classic):
        return _nearest_wgmma(upper)
    if near := difflib.get_close_matches(wanted, classic, n=3, cutoff=0.6):
        return did_you_mean(near), near[0]
    return (
        "mmagen builds the dense SM61, SM70, SM75, SM80, SM89 and SM90 atoms of CuTe and UniversalFMA<float> or "
        f"<double>, e.g. {_EXAMPLE}; mmagen atoms lists all operations",
        _EXAMPLE,
    )


def _scalar_fma(name: str) -> str:
    double = re.search(r"double|64", name.lower())
    return f"UniversalFMA<{'double' if double else 'float'}>"


def _classic_names() -> Iterable[str]:
    """The atoms whose operands are fragments in registers."""
    return (*UNIVERSAL_FMA, *(o.name for o in catalogue.operations() if not (o.warpgroup or o.broken) and atom_of(o)))


def _nearest_wgmma(name: str) -> tuple[str, str]:
    """What to write instead of a name that begins like a wgmma's but is none."""
    kinds = _wgmma_widths()
    match = _WGMMA_NAME.fullmatch(name)
    asked = int(match["n"]) if match and len(match["n"]) < 5 else 64
    if match and match["kind"] in kinds:
        k, widths = kinds[match["kind"]]
        near = sorted(sorted(widths, key=lambda n: abs(n - asked))[:2])
        rule = "8, 24 and the multiples of 16" if match["kind"].startswith("S32") else "the multiples of 8"
        names = [f"SM90_64x{n}x{k}_{match['kind']}" for n in (near if asked not in near else [asked])]
        return f"wgmma of these types is 64 x N x {k}, N one of {rule} up to 256: the nearest is {' or '.join(names)}", names[0]
    known = [f"SM90_64x{asked if asked in widths else 64}x{k}_{kind}" for kind, (k, widths) in kinds.items()]
    names = difflib.get_close_matches(name, known, n=3, cutoff=0)
    return did_you_mean(names), names[0]
