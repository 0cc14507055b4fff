"""The MMA operations that mmagen builds kernels from: shape, types, threads and architecture of each.

Names are CuTe's own (`cute/arch/mma_sm*.hpp`). What a name spells out - shape, types, majors - is read from the name;
the rest is the rule of its architecture. Thread-value layouts are in `mma.ownership`, which `build` rarely needs.
The wgmma operations of sm_90a, about a thousand, follow one rule and are in no table: see `wgmma_names`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from mmagen.core.errors import Fault, SpecFaults


@dataclass(frozen=True)
class ElementType:
    """A type of matrix elements. `word`: as in a spec; `cxx`: as in CuTe; `bits`: storage."""

    word: str
    cxx: str
    bits: int

    @property
    def bytes(self) -> int:
        return self.bits // 8


TYPES = {
    word: ElementType(word, cxx, bits)
    for word, cxx, bits in (
        ("f16", "cute::half_t", 16),
        ("bf16", "cute::bfloat16_t", 16),
        ("tf32", "cute::tfloat32_t", 32),
        ("f32", "float", 32),
        ("f64", "double", 64),
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

    m, n, k: shape in elements. threads: how many take part (32: a warp; 8: a quad pair; 1: a thread).
    min_arch: lowest compute capability, ten times (80 for sm_80). layout_name: the atom of `tensor-layouts` with the
    same thread-value layouts, None where every thread owns whole rows (scalar FMA).
    majors: letters of the layout that the operation reads, "" for a wgmma that takes any until `in_layout` has said it.
    a_in_registers: of a wgmma, whether A comes from registers (RS) or from shared memory (SS); B never does.
    """

    name: str
    family: str
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
    layout_name: str | None
    a_in_registers: bool = False

    @property
    def cxx(self) -> str:
        """The operation as C++ spells it."""
        if self.family == "FMA":
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
        """Is this an operation of a warpgroup that reads shared memory?"""
        return self.family == "SM90"

    @property
    def takes_majors(self) -> bool:
        """Does the operation take the majors of A and B as template parameters? wgmma's of 16-bit types do."""
        return self.wgmma and self.type_a.bits == 16

    @property
    def extended(self) -> bool:
        """Does CuTe define the operation only with CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED?"""
        return self.wgmma and self.n not in _WGMMA_BASIC_N

    @property
    def default_arch(self) -> str:
        """The oldest architecture that has the operation; wgmma is one of those that no later one has."""
        return f"sm_{self.min_arch}{'a' if self.wgmma else ''}"

    def in_layout(self, letters: str) -> Atom:
        """The operation for operands of that layout (TN, NT, NN, TT)."""
        return replace(self, majors=letters) if self.takes_majors else self

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


_TYPE_WORDS = {
    "F16": "f16",
    "BF16": "bf16",
    "TF32": "tf32",
    "F32": "f32",
    "F64": "f64",
    "S8": "s8",
    "U8": "u8",
    "S32": "s32",
    "E4M3": "e4m3",
    "E5M2": "e5m2",
}
_NAME = re.compile(r"SM(?P<sm>\d+)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_(?P<types>[A-Z0-9]+?)_(?P<majors>[TN]{2})(_SATURATE)?")
_TYPE_RUN = re.compile("|".join(sorted(_TYPE_WORDS, key=len, reverse=True)))


def _from_name(name: str) -> Atom:
    match = _NAME.fullmatch(name)
    assert match, name
    sm = int(match["sm"])
    words = _TYPE_RUN.findall(match["types"])
    d, a, b, c = (TYPES[_TYPE_WORDS[word]] for word in words)
    layout_name = name.removesuffix("_SATURATE").replace("U8", "S8")
    return Atom(
        name,
        f"SM{sm}",
        int(match["m"]),
        int(match["n"]),
        int(match["k"]),
        d,
        a,
        b,
        c,
        8 if sm == 70 else 32,
        sm,
        match["majors"],
        layout_name,
    )


def _sm80_integer_names() -> list[str]:
    return [
        f"SM80_{shape}_S32{a}{b}S32_TN{saturate}"
        for shape in ("8x8x16", "16x8x16", "16x8x32")
        for a in ("S8", "U8")
        for b in ("S8", "U8")
        for saturate in ("", "_SATURATE")
    ]


_NAMES = [
    *(f"SM70_8x8x4_{types}_{majors}" for types in ("F16F16F16F16", "F32F16F16F32") for majors in ("TN", "NT", "NN", "TT")),
    "SM75_16x8x8_F32F16F16F32_TN",
    "SM75_8x8x16_S32S8S8S32_TN",
    *(f"SM80_16x8x{k}_{types}_TN" for types in ("F16F16F16F16", "F32F16F16F32", "F32BF16BF16F32") for k in (8, 16)),
    *(f"SM80_16x8x{k}_F32TF32TF32F32_TN" for k in (4, 8)),
    "SM80_8x8x4_F64F64F64F64_TN",
    *_sm80_integer_names(),
    *(f"SM89_16x8x32_{acc}{a}{b}{acc}_TN" for acc in ("F32", "F16") for a in ("E4M3", "E5M2") for b in ("E4M3", "E5M2")),
]

_SCALAR = [
    Atom("SM61_DP4A", "SM61", 1, 1, 4, TYPES["s32"], TYPES["s8"], TYPES["s8"], TYPES["s32"], 1, 61, "TN", None),
    Atom("SM61_DP2A", "SM61", 1, 1, 2, TYPES["s32"], TYPES["s16"], TYPES["s16"], TYPES["s32"], 1, 61, "TN", None),
    *(
        Atom(f"UniversalFMA<{t.cxx},{t.cxx},{t.cxx},{t.cxx}>", "FMA", 1, 1, 1, t, t, t, t, 1, 60, "TN", None)
        for t in (TYPES["f32"], TYPES["f64"])
    ),
]

ATOMS: dict[str, Atom] = {atom.name: atom for atom in (*_SCALAR, *map(_from_name, _NAMES))}


# --- wgmma -----------------------------------------------------------------------------------------------------------

# Those that CuTe defines without CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED.
_WGMMA_BASIC_N = (8, 16, 32, 64, 96, 128, 192, 256)
_WGMMA_NAME = re.compile(r"SM90_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_(?P<kind>(?P<types>[A-Z0-9]+)_[RS]S(_TN)?(_SATURATE)?)")


@cache
def _wgmma_kinds() -> dict[str, int]:
    """What follows the shape in the name of a wgmma -> K: 32 bytes. 16-bit types are read in either major, the others
    along K; only integers saturate."""
    integers = [f"S32{a}{b}" for a in ("S8", "U8") for b in ("S8", "U8")]
    floats = [f"{d}{a}{b}" for d in ("F16", "F32") for a in ("E4M3", "E5M2") for b in ("E4M3", "E5M2")]
    kinds: dict[str, int] = {}
    for source in ("SS", "RS"):
        kinds |= {f"{types}_{source}": 16 for types in ("F16F16F16", "F32F16F16", "F32BF16BF16")}
        kinds |= {f"F32TF32TF32_{source}_TN": 8}
        kinds |= {f"{types}_{source}_TN{saturate}": 32 for types in integers for saturate in ("", "_SATURATE")}
        kinds |= {f"{types}_{source}_TN": 32 for types in floats}
    return kinds


def wgmma_widths(kind: str) -> tuple[int, ...]:
    """Every N that operations of this kind have: multiples of 8 up to 256, of integers fewer."""
    return (8, 16, 24, *range(32, 257, 16)) if kind.startswith("S32") else tuple(range(8, 257, 8))


def wgmma_names() -> Iterator[str]:
    """All dense wgmma operations of CuTe (mma_sm90_gmma.hpp and mma_sm90_gmma_ext.hpp)."""
    return (f"SM90_64x{n}x{k}_{kind}" for kind, k in _wgmma_kinds().items() for n in wgmma_widths(kind))


def with_n(atom: Atom, n: int) -> Atom:
    """The wgmma operation that differs in N alone."""
    return replace(atom, n=n, name=atom.name.replace(f"_64x{atom.n}x", f"_64x{n}x"))


def _find_wgmma(name: str) -> Atom | None:
    match = _WGMMA_NAME.fullmatch(name)
    if (
        not match
        or _wgmma_kinds().get(match["kind"]) != int(match["k"])
        or match["m"] != "64"
        or int(match["n"]) not in wgmma_widths(match["kind"])
        or match["n"].startswith("0")
    ):
        return None
    d, a, b = (TYPES[_TYPE_WORDS[word]] for word in _TYPE_RUN.findall(match["types"]))
    return Atom(
        name,
        "SM90",
        64,
        int(match["n"]),
        int(match["k"]),
        d,
        a,
        b,
        d,
        128,
        90,
        "TN" if "_TN" in match["kind"] else "",
        None,
        "_RS" in match["kind"],
    )


def _nearest_wgmma(name: str) -> str:
    """What to write instead of a name that begins like a wgmma's but is none."""
    match = _WGMMA_NAME.fullmatch(name)
    asked = int(match["n"]) if match and len(match["n"]) < 5 else 64
    if match and (k := _wgmma_kinds().get(match["kind"])):
        near = sorted(sorted(wgmma_widths(match["kind"]), key=lambda n: abs(n - asked))[:2])
        rule = "8, 24 and the multiples of 16" if match["kind"].startswith("S32") else "the multiples of 8"
        names = " or ".join(f"SM90_64x{n}x{k}_{match['kind']}" for n in (near if asked not in near else [asked]))
        return f"wgmma of these types is 64 x N x {k}, N one of {rule} up to 256: the nearest is {names}"
    known = [f"SM90_64x{asked if asked in wgmma_widths(kind) else 64}x{k}_{kind}" for kind, k in _wgmma_kinds().items()]
    return f"perhaps you meant {' or '.join(difflib.get_close_matches(name, known, n=3, cutoff=0))}"


def _in_catalogue(name: str) -> str:
    """The name of an operation that is in CuTe, sparse, block-scaled or of Blackwell, but has no kernel here; else ""."""
    from mmagen.core.errors import UsageError
    from mmagen.mma import catalogue  # of all operations: most builds do without

    try:
        return catalogue.find(name).name
    except UsageError:
        return ""


def _spelled(name: str) -> str:
    """The name as tables have it: spaces inside the angle brackets of UniversalFMA do not count."""
    wanted = re.sub(r"\s+", "", name)
    short = re.fullmatch(r"UniversalFMA<(float|double)>", wanted)
    return "UniversalFMA<{0},{0},{0},{0}>".format(short[1]) if short else wanted  # CuTe's own: A = D, B = A, C = D


def only_an_instruction(name: str) -> bool:
    """Is it an operation of the catalogue that find_atom does not have?"""
    wanted = _spelled(name)
    return not (ATOMS.get(wanted) or _find_wgmma(wanted)) and bool(_in_catalogue(wanted))


def find_atom(name: str) -> Atom:
    """The atom of that name; spaces inside the angle brackets of UniversalFMA do not count.

    Raises SpecFaults for key ("atom",) with the nearest names.
    """
    wanted = _spelled(name)
    if atom := ATOMS.get(wanted) or _find_wgmma(wanted):
        return atom
    if other := _in_catalogue(wanted):
        raise SpecFaults(
            (
                Fault(
                    ("atom",),
                    f"no tiled kernel can be built from {other}",
                    "kernel: micro makes a project of the instruction alone, kernel: peak measures it",
                ),
            )
        )
    near = difflib.get_close_matches(wanted, ATOMS, n=3, cutoff=0.6)
    if wanted.upper().startswith("SM90_"):
        remedy = _nearest_wgmma(wanted.upper().replace("X", "x"))
    elif near:
        remedy = f"perhaps you meant {' or '.join(near)}"
    else:
        remedy = (
            "mmagen builds the dense SM61, SM70, SM75, SM80, SM89 and SM90 atoms of CuTe and UniversalFMA<float> or "
            "<double>, e.g. SM80_16x8x16_F32F16F16F32_TN"
        )
    raise SpecFaults((Fault(("atom",), f"no MMA operation is called {name!r}", remedy),))
