"""What kernels of a sparse A have in common, of wgmma and of mma.sp: the key `sparse`, the metadata of a call, A's format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from mmagen.core.errors import ABSENT, Fault
from mmagen.mma.atoms import TYPES, Atom
from mmagen.mma.sparse_atoms import PAD_BLOCKS, ROWS, WORDS, SparseAtom, sparse_name
from mmagen.plan import pages, sentences
from mmagen.plan.arguments import Extent, Tensor
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.plan.plans import GemmPlan
from mmagen.plan.project import Prepared

PREPARED = Prepared("sparse", "sparse_a")
FORMULA = "D = alpha * A * B + beta * C for each matrix of the batch; any m, n, k."
# The headers to read, beside those of the kernel.
READING = (
    (sentences.header("sparse_format"), "how A is stored: values, and metadata in the order of the sparse instructions"),
    (sentences.header("sparse_compress"), "the kernels that prune and compress A and check metadata, and the same on the host"),
)
# How magnitudes compare (sparse_format.cuh), by the first letter of a type's word.
_MAGNITUDES = {"s": "kSigned", "u": "kUnsigned"}
_RUN_BYTES = 32  # of A along K, whose metadata are consecutive bits (sparse_format.cuh)


@dataclass(frozen=True)
class SparseFormat:
    """What templates say of the compressed form of A. storage, magnitude: of the C++ SparseFormat. contiguous_k: of A before it is
    compressed. run: columns that consecutive bits of metadata describe, `groups` groups. rows_share_words: a word has metadata
    of two rows, of half as many columns each."""

    storage: str
    magnitude: str
    contiguous_k: bool
    run: int
    groups: int
    rows_share_words: bool


def format_of(plan: GemmPlan) -> SparseFormat:
    """The format of A."""
    atom = cast(SparseAtom, plan.atom)
    run = _RUN_BYTES // atom.type_a.bytes
    return SparseFormat(
        storage=f"uint{atom.type_a.bits}_t",
        magnitude=_MAGNITUDES.get(atom.type_a.word[0], "kFloat"),
        contiguous_k=plan.spec.layout.a_major == "K",
        run=run,
        groups=run // atom.group,
        rows_share_words=atom.of_format.selectors > 1,
    )


def metadata(name: str, atom: SparseAtom) -> Tensor:
    """The metadata of A as an argument of a call. name: of the project."""
    return Tensor(
        name="metadata_a",
        element=TYPES["s32"],
        part="sparse",
        rows=Extent("m", step=ROWS),
        columns=Extent("k", step=PAD_BLOCKS * atom.block_k, times=PAD_BLOCKS * WORDS),
        sentence=f"which of each {atom.group} columns of A are stored: 32-bit words, as {name}_compress writes them",
        alignment=VECTOR_BYTES,
        required=False,  # not where K is 0
    )


def key_faults(key: str | None, atom: Atom) -> Iterator[Fault]:
    """Fault for a key `sparse` that is not what the atom has."""
    has = atom.sparsity if isinstance(atom, SparseAtom) else None
    if key is None or key == has:
        return
    if has:
        kept = "one of two" if has == "1:2" else "two of four"
        yield Fault(
            ("sparse",),
            f"{atom.name} keeps {kept} {atom.type_a.word} of A",
            f"{has}, or omit it",
            {("sparse",): has},
        )
        return
    name = sparse_name(atom.name)
    yield Fault(
        ("sparse",),
        f"{atom.name} reads a dense A",
        f"omit it, or use atom {name}" if name else "omit it, or use a sparse atom: docs/sparse.md lists them",
        {("atom",): name} if name else {("sparse",): ABSENT},
    )


def sections(plan: GemmPlan) -> list[pages.Section]:
    """How A of each kernel is stored."""
    return [section(one, name) for name, one in plan.by_config.items() if isinstance(one, GemmPlan)]


def section(plan: GemmPlan, name: str = "") -> pages.Section:
    """How A is stored. name: of the kernel in a library."""
    atom, a = cast(SparseAtom, plan.atom), plan.operand("A")
    kept = "1 of each 2" if atom.kept == 1 else "2 of each 4"
    words = atom.words(plan.tile[0] // plan.tiled_mma.atoms[0], plan.tile[2])
    count = {1: "one instruction", 2: "two instructions", 4: "four instructions"}[atom.selectors]
    shared = f"for {count}" + (", which the sparsity selector tells apart" if atom.selectors > 1 else "")
    return (
        f"{name}: Sparse A" if name else "Sparse A",
        [
            (
                "sparsity",
                f"{atom.sparsity}: {kept} neighbours along K are stored; compressed from {plan.spec.layout.a_major} contiguous",
            ),
            ("values", f"{a.extent_mn} x {a.extent_k} {a.element.word} per stage"),
            (
                "metadata",
                f"{atom.metadata_bytes('A', plan.tile[0], plan.tile[2]):,} B per stage, in blocks of 64 x {atom.block_k}",
            ),
            ("registers", f"{pages.count(words, 'word')} of metadata per thread and stage, each {shared}"),
        ],
    )
