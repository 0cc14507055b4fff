"""The key `split` of mma.sync kernels: rules with their remedies, and what a page says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mmagen.core.errors import ABSENT, Fault
from mmagen.core.layout_text import LayoutText
from mmagen.mma.atoms import Atom
from mmagen.mma.pieces import LEFT_OUT, SplitAtom
from mmagen.mma.sparse_atoms import SparseAtom
from mmagen.plan import pages, rules, tiling

if TYPE_CHECKING:
    from mmagen.spec.model import Spec

MAINLOOP = ("MainloopPieces", "mainloop_pieces")
EXAMPLE = "SM80_16x8x16_F32BF16BF16F32_TN"
LONG = 512  # elements of K, of a problem of verify
KEYS = ("split", "accumulation")  # of wgmma kernels, and of these


def operation(spec: Spec) -> Atom:
    """The spec's atom, with f32 operands where it splits them. spec.atom must name an atom."""
    atom = rules.atom_for(spec)
    return SplitAtom.of(atom, spec.split) if spec.split and _can_split(atom) else atom


def faults(spec: Spec) -> Iterator[Fault]:
    """What a kernel cannot do with pieces."""
    if spec.split is None:
        return
    atom = rules.atom_for(spec)
    if not _can_split(atom):
        dense = not isinstance(atom, SparseAtom)
        yield Fault(
            ("atom",) if dense else ("split",),
            f"pieces of f32 are dense matrices of bf16, summed in f32; {atom.name} multiplies "
            f"{atom.type_a.word if dense else 'a sparse A'} and sums in {atom.type_d.word}",
            f"{EXAMPLE}, or omit split" if dense else "omit it",
            {("atom",): EXAMPLE} if dense else {("split",): ABSENT},
        )
    if spec.accumulation == "fast":
        yield Fault(
            ("accumulation",),
            "an mma.sync kernel adds the sums of each instruction's pieces in f32",
            "precise, or omit it",
            {("accumulation",): ABSENT},
        )
    atoms = tiling.atoms_per_mode(spec.atoms_layout)
    if atoms[2] != 1:
        alone = [*atoms[:2], 1]
        yield Fault(("atoms_layout",), "the warps of a kernel of pieces do not share K", f"{alone}", {("atoms_layout",): alone})
    if isinstance(spec.permutation[2], LayoutText):
        yield Fault(
            ("permutation", 2),
            f"{spec.permutation[2]} would sum other elements of K together than the error bound assumes",
            "null, or an extent",
            {("permutation", 2): None},
        )


def section(atom: SplitAtom) -> pages.Section:
    """What is known of the pieces."""
    order = ", ".join(f"{a}*{b}" for a, b in atom.products)
    return (
        "Pieces of f32",
        [
            ("pieces", f"{atom.count} bf16 of each element, split in registers from f32 fragments"),
            ("products", f"{order}, in this order: piece of A times piece of B"),
            ("sums", f"of {atom.k} along K in the tensor core, then added in f32"),
            ("left out", f"at most {LEFT_OUT[atom.word]:.1e} of a product"),
        ],
    )


def _can_split(atom: Atom) -> bool:
    words = (atom.type_a.word, atom.type_b.word, atom.type_d.word)
    return words == ("bf16", "bf16", "f32") and atom.kind == "mma.sync" and not isinstance(atom, SparseAtom)
