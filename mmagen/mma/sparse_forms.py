"""The operations of mma.sp that mmagen defines itself: CUTLASS has none before SM120.

PTX ISA, "Multiply-and-accumulate instruction: mma.sp" and "Matrix fragments for sparse mma": a warp multiplies an A of 16 rows of
which half of the columns are stored by a B of 8 columns. What is stored of A lies in registers as the A of the dense mma of half
the depth; B as two (four) of its k blocks one behind the other; metadata in a 32-bit register, of which a selector names the
lanes of each quad that hold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from mmagen.core.layout_text import LayoutText
from mmagen.mma.operation import Operation, Registers, ThreadValueLayout

M, N, LANES = 16, 8, 32
_QUAD, _ROWS = 4, 8  # lanes of a row of 8, and rows of 8 x 16 bytes of a register
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}
# Elements of K by the bits of an element; 8-bit floats have the larger one only.
_DEPTHS = {16: (16, 32), 32: (8, 16), 8: (32, 64)}
_CONTAINERS = {"f16": "half_t", "bf16": "bfloat16_t", "tf32": "tfloat32_t", "f32": "float", "s32": "int32_t"}
_CONTAINERS |= {"s8": "int8_t", "u8": "uint8_t", "e4m3": "float_e4m3_t", "e5m2": "float_e5m2_t"}


@dataclass(frozen=True)
class Form:
    """One mma.sp. words: the types of D, A, B and C. saturate: sums of integers that do not fit are clamped."""

    k: int
    type_d: str
    type_a: str
    type_b: str
    saturate: bool = False

    @property
    def name(self) -> str:
        types = "".join(word.upper() for word in (self.type_d, self.type_a, self.type_b, self.type_d))
        return f"{self.family}_SPARSE_{M}x{N}x{self.k}_{types}_TN{'_SATURATE' if self.saturate else ''}"

    @property
    def family(self) -> str:
        return "SM89" if self.type_a in ("e4m3", "e5m2") else "SM80"

    @property
    def bits(self) -> int:
        """Of an element of A or B."""
        return _BITS[self.type_a]

    @property
    def sparsity(self) -> str:
        return "1:2" if self.bits == 32 else "2:4"

    @property
    def opcode(self) -> str:
        """With ordered metadata: the indices of a group increase, as in the format that libraries write."""
        saturates = ".satfinite" if self.saturate else ""
        types = ".".join((self.type_d, self.type_a, self.type_b, self.type_d))
        return f"mma.sp::ordered_metadata.sync.aligned.m{M}n{N}k{self.k}.row.col{saturates}.{types}"

    @property
    def registers(self) -> Mapping[str, Registers]:
        """32-bit registers of a thread. D is updated in place."""
        sums = (
            Registers("uint32_t", 2) if self.type_d == "f16" else Registers("float" if self.type_d == "f32" else "uint32_t", 4)
        )
        stored = M * self.k // 2 * self.bits // 32 // LANES
        return {
            "C": sums,
            "A": Registers("uint32_t", stored),
            "B": Registers("uint32_t", N * self.k * self.bits // 32 // LANES),
            "E": Registers("uint32_t", 1),
        }

    @property
    def layout_a(self) -> LayoutText:
        """(thread, value) to row + 16 * column of the columns before compression: of a group all owners of its stored ones."""
        run = 2 * 32 // self.bits  # columns whose stored ones are in a register
        halves = self.registers["A"].count // 2
        return LayoutText(((_QUAD, _ROWS), (run, 2, halves)), ((run * M, 1), (M, M // 2, _QUAD * run * M)))

    @property
    def layout_b(self) -> LayoutText:
        """(thread, value) to column of D + 8 * k."""
        run = 32 // self.bits
        return LayoutText(((_QUAD, _ROWS), (run, self.registers["B"].count)), ((run * N, 1), (N, _QUAD * run * N)))

    @property
    def layout_c(self) -> LayoutText:
        return LayoutText(((_QUAD, _ROWS), (2, 2)), ((2 * M, 1), (M, M // 2)))


def _forms() -> Iterator[Form]:
    for a in ("f16", "bf16", "tf32"):
        for d in ("f16", "f32") if a == "f16" else ("f32",):
            yield from (Form(k, d, a, a) for k in _DEPTHS[_BITS[a]])
    for a in ("s8", "u8"):
        for b in ("s8", "u8"):
            for k in _DEPTHS[8]:
                yield from (Form(k, "s32", a, b, saturate) for saturate in (False, True))
    for a in ("e4m3", "e5m2"):
        for b in ("e4m3", "e5m2"):
            yield Form(_DEPTHS[8][1], "f32", a, b)


FORMS: Mapping[str, Form] = {form.name: form for form in _forms()}


@cache
def own_operation(name: str) -> Operation | None:
    """The operation of that name that mmagen defines; None for every other name."""
    form = FORMS.get(name)
    if form is None:
        return None
    layouts = {"A": (form.layout_a, M, form.k), "B": (form.layout_b, N, form.k), "C": (form.layout_c, M, N)}
    words = {"D": form.type_d, "A": form.type_a, "B": form.type_b, "C": form.type_d}
    return Operation(
        name=name,
        struct=name,
        header="",  # a project defines the one that it uses
        family=form.family,
        kind="mma.sync",
        arch=f"sm_{form.family.removeprefix('SM')}",
        targets=(),
        m=M,
        n=N,
        k=form.k,
        type_d=form.type_d,
        type_a=form.type_a,
        type_b=form.type_b,
        type_c=form.type_d,
        type_sf=None,
        value_types={letter: _CONTAINERS[word] for letter, word in words.items()},
        opcodes=(form.opcode,),
        registers=form.registers,
        places=dict.fromkeys("DABCE", "registers"),
        threads=LANES,
        thr_id=f"{LANES}:1",
        layouts={letter: ThreadValueLayout(str(text), rows, columns, 1) for letter, (text, rows, columns) in layouts.items()},
        sparsity=form.sparsity,
        vector=None,
        saturate=form.saturate,
        majors_a=("K",),
        majors_b=("K",),
        arguments=(),
        parameters=(),
        traits_take_parameters=False,
        requires=(),
        flaws=(),
        variants=(),
    )
