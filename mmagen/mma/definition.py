"""Definitions of the wgmma operations that CuTe has only in its extended headers, which alone take a minute to compile.

A project of such an atom defines the one operation that it uses, by the PTX ISA, section "wgmma.mma_async".
"""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.mma.atoms import Atom

_MAJOR = {"K": 0, "MN": 1}  # imm-trans-a, imm-trans-b


@dataclass(frozen=True)
class Definition:
    """A wgmma operation of N columns as a struct in C++ and its MMA_Traits.

    instruction: with its shape and types. immediates: the instruction's last operands, factors of A and B (1) and, of 16-bit types,
    whether A and B are MN-major. d_type, d_constraint: of an accumulator register in C++ and in inline assembly. d, a: the names of
    those registers; a is empty where A lies in shared memory. layout_a: CuTe's thread-value layout of A. major_a: of A in shared
    memory.
    """

    name: str
    instruction: str
    immediates: tuple[int, ...]
    d_type: str
    d_constraint: str
    d: tuple[str, ...]
    a: tuple[str, ...]
    layout_a: str
    major_a: str
    major_b: str

    @property
    def numbers(self) -> tuple[str, ...]:
        """D's registers as inline assembly numbers them."""
        return tuple(f"%{i}" for i in range(len(self.d)))

    @property
    def sources(self) -> tuple[str, str]:
        """A, registers or a descriptor, and B's descriptor."""
        first, count = len(self.d), len(self.a) or 1
        a = ", ".join(f"%{first + i}" for i in range(count))
        return f"{{{a}}}" if self.a else a, f"%{first + count}"

    @property
    def predicate(self) -> str:
        """The operand that says whether D is added to."""
        return f"%{len(self.d) + (len(self.a) or 1) + 1}"


def definition(atom: Atom) -> Definition | None:
    """That of an atom of the extended shapes, None for all others."""
    if not atom.extended:
        return None
    word = atom.type_d.word
    d_bits = atom.m * atom.n // atom.threads * atom.type_d.bits
    a_bits = atom.m * atom.k // atom.threads * atom.type_a.bits
    saturates = ".satfinite" if atom.name.endswith("_SATURATE") else ""
    types = f"{word}.{atom.type_a.word}.{atom.type_b.word}"
    major_a, major_b = ("K" if atom.majors[0] == "T" else "MN"), ("K" if atom.majors[1] == "N" else "MN")
    immediates = () if word == "s32" else (1, 1)
    if atom.takes_majors:
        immediates += (*(() if atom.a_in_registers else (_MAJOR[major_a],)), _MAJOR[major_b])
    return Definition(
        name=atom.name,
        instruction=f"wgmma.mma_async.sync.aligned.m{atom.m}n{atom.n}k{atom.k}.{types}{saturates}",
        immediates=immediates,
        d_type="float" if word == "f32" else "uint32_t",
        d_constraint="f" if word == "f32" else "r",
        d=tuple(f"d{i}" for i in range(d_bits // 32)),
        a=tuple(f"a{i}" for i in range(a_bits // 32)) if atom.a_in_registers else (),
        layout_a=f"ALayout_64x{atom.k}" if atom.a_in_registers else f"ABLayout<64, {atom.k}>",
        major_a=major_a,
        major_b=major_b,
    )
