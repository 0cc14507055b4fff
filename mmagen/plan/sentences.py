"""Sentences about a plan for the files of its project."""

from __future__ import annotations

from dataclasses import replace

from mmagen.mma.atoms import Atom, ElementType
from mmagen.plan.model import Epilogue
from mmagen.plan.operations import formula
from mmagen.plan.project import Text
from mmagen.spec.model import Spec

DECISIONS = "instruction, TiledMMA, tiles, shared-memory layouts, copies"  # what config.cuh holds


def of_one_tile(spec: Spec, atom: Atom, tile: tuple[int, int, int], out: ElementType, kernel_header: str) -> Text:
    """The sentences for a kernel of one CTA with one tile."""
    size, shape = "x".join(map(str, tile)), ", ".join(map(str, tile))
    return Text(
        title=f"one {size} tile, {types_and_layout(spec, atom, out)}",
        formula=f"D = A * B for M, N, K = {shape}, batch = 1, alpha = 1, beta = 0.",
        storage=storage(atom),
        shape=f"fixed shape: this kernel computes m, n, k = {shape} with batch 1, alpha 1, beta 0",
        shape_note="this kernel computes one tile and nothing else",
        reading=((header(kernel_header), "the kernel: copy, fragments, mma, store"),),
    )


def of_gemm(spec: Spec, atom: Atom, tile: tuple[int, int, int], staged: Epilogue) -> Text:
    """The sentences for a kernel of any shape, without the headers to read."""
    return Text(
        title=f"GEMM, {types_and_layout(spec, atom, staged.out)}, CTA tile {'x'.join(map(str, tile))}",
        formula=f"{formula(staged.operations)} for each matrix of the batch; any m, n, k, any alignment.",
        storage=storage(atom),
        shape="fixed shape: not a status of this kernel",
        shape_note="never from this kernel",
    )


def of_library(of_one: Text, spec: Spec, atom: Atom, out: ElementType, configs: int) -> Text:
    """The sentences for a library of several kernels, from those of one."""
    what = "grouped GEMM" if spec.grouped else "GEMM"
    return replace(of_one, title=f"{what}, {types_and_layout(spec, atom, out)}, {configs} kernels to choose from")


def header(name: str) -> str:
    """The path of a runtime header within a project."""
    return f"include/mmagen/{name}.cuh"


def storage(atom: Atom) -> str:
    """A note on how a type is stored, or ""."""
    if atom.type_a.parts == 2:
        return "\n * c64 is a complex number of two doubles, the real part first: cuDoubleComplex, or double _Complex."
    if "tf32" not in (atom.type_a.word, atom.type_b.word):
        return ""
    return "\n * tf32 is stored as float; the tensor core ignores the low 13 bits of the mantissa."


def types_and_layout(spec: Spec, atom: Atom, out: ElementType) -> str:
    """`f16 x f16 + f32 -> f16, TN: A K contiguous, B K contiguous`."""
    layout = spec.layout
    a, b = (atom.type_b, atom.type_a) if spec.operands == "swapped" else (atom.type_a, atom.type_b)
    return (
        f"{a.word} x {b.word} + {atom.type_d.word} -> {out.word}, "
        f"{layout.letters}: A {layout.a_major} contiguous, B {layout.b_major} contiguous"
    )
