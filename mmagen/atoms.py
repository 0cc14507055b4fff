"""The MMA operations that mmagen builds kernels from: shape, types, threads and architecture of each.

Names are CuTe's own (`cute/arch/mma_sm*.hpp`). What a name spells out - shape, types, majors - is read from the name;
the rest is the rule of its architecture. Thread-value layouts live in `mmagen.layouts`, which `build` rarely needs.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from mmagen.errors import Fault, SpecFaults


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
    run_a, run_b: how many consecutive elements (along K, or along M/N for `along_mn` letters) one thread's fragment
    holds, for atoms whose fragments ldmatrix does not make.
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

    @property
    def cxx(self) -> str:
        """The operation as C++ spells it."""
        if self.family == "FMA":
            return f"cute::UniversalFMA<{self.type_d.cxx}, {self.type_a.cxx}, {self.type_b.cxx}, {self.type_c.cxx}>"
        return f"cute::{self.name}"

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


_TYPE_WORDS = {"F16": "f16", "BF16": "bf16", "TF32": "tf32", "F32": "f32", "F64": "f64", "S8": "s8", "U8": "u8",
               "S32": "s32", "E4M3": "e4m3", "E5M2": "e5m2"}
_NAME = re.compile(r"SM(?P<sm>\d+)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_(?P<types>[A-Z0-9]+?)_(?P<majors>[TN]{2})(_SATURATE)?")
_TYPE_RUN = re.compile("|".join(sorted(_TYPE_WORDS, key=len, reverse=True)))


def _from_name(name: str) -> Atom:
    match = _NAME.fullmatch(name)
    assert match, name
    sm = int(match["sm"])
    words = _TYPE_RUN.findall(match["types"])
    d, a, b, c = (TYPES[_TYPE_WORDS[word]] for word in words)
    layout_name = name.removesuffix("_SATURATE").replace("U8", "S8")
    return Atom(name, f"SM{sm}", int(match["m"]), int(match["n"]), int(match["k"]), d, a, b, c,
                8 if sm == 70 else 32, sm, match["majors"], layout_name)


def _sm80_integer_names() -> list[str]:
    return [f"SM80_{shape}_S32{a}{b}S32_TN{saturate}" for shape in ("8x8x16", "16x8x16", "16x8x32")
            for a in ("S8", "U8") for b in ("S8", "U8") for saturate in ("", "_SATURATE")]


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
    *(Atom(f"UniversalFMA<{t.cxx},{t.cxx},{t.cxx},{t.cxx}>", "FMA", 1, 1, 1, t, t, t, t, 1, 60, "TN", None)
      for t in (TYPES["f32"], TYPES["f64"])),
]

ATOMS: dict[str, Atom] = {atom.name: atom for atom in (*_SCALAR, *map(_from_name, _NAMES))}


def find_atom(name: str) -> Atom:
    """The atom of that name; spaces inside the angle brackets of UniversalFMA do not count.

    Raises SpecFaults for key ("atom",) with the nearest names.
    """
    wanted = re.sub(r"\s+", "", name)
    short = re.fullmatch(r"UniversalFMA<(float|double)>", wanted)
    if short:  # CuTe's own defaults: A = D, B = A, C = D
        wanted = "UniversalFMA<{0},{0},{0},{0}>".format(short[1])
    if wanted in ATOMS:
        return ATOMS[wanted]
    near = difflib.get_close_matches(wanted, ATOMS, n=3, cutoff=0.6)
    remedy = f"perhaps you meant {' or '.join(near)}" if near else (
        "mmagen builds the dense SM61, SM70, SM75, SM80 and SM89 atoms of CuTe and UniversalFMA<float> or <double>, "
        "e.g. SM80_16x8x16_F32F16F16F32_TN")
    raise SpecFaults((Fault(("atom",), f"no MMA operation is called {name!r}", remedy),))
