"""Rules of sparse wgmma kernels beyond those of every wgmma kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmagen.core.errors import ABSENT, Fault
from mmagen.mma.atoms import Atom
from mmagen.mma.sparse_atoms import WORDS, find_sparse
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.spec.model import Problem, Spec

_SHARE_WORDS = 32  # the fewest that a CTA of a cluster loads


def sparse_faults(spec: Spec) -> Iterator[Fault]:
    """Faults for keys that a sparse kernel does not have."""
    if spec.operands == "swapped":
        yield Fault(
            ("operands",),
            "swapped would make the sparse matrix the B of wgmma, which is dense",
            "omit it: for a D with few columns use an atom with a small N, and epilogue.major M for the transpose of D",
            {("operands",): ABSENT},
        )

    yield from _metadata_faults(spec)
    for key in ("grouped", "scale", "weights", "split"):
        if getattr(spec, key, None) is not None:
            yield Fault((key,), f"kernels of sparse wgmma have no {key}", "omit it, or use a dense wgmma", {(key,): ABSENT})


def _metadata_faults(spec: Spec) -> Iterator[Fault]:
    """Fault for more CTAs along N than there are boxes of metadata: each loads a share, whose place in shared memory TMA needs at
    128-byte boundaries."""
    atom = find_sparse(spec.atom)
    if not (atom and spec.tile and spec.cluster) or spec.tile[2] % atom.block_k:
        return
    words, ctas = spec.tile[2] // atom.block_k * WORDS, spec.cluster[1]
    if words % (ctas * _SHARE_WORDS):
        most = words // _SHARE_WORDS
        yield Fault(
            ("cluster", 1),
            f"{ctas} CTAs along N do not share the {words} words of metadata for {spec.tile[2]} columns in whole 128-byte lines",
            f"at most {most}, or a tile with more columns",
            {("cluster", 1): most},
        )


def problem_faults(atom: Atom, b_major: str, problems: Sequence[Problem]) -> Iterator[Fault]:
    """Faults for problems of which TMA cannot address B, or A's values: a sparse kernel has no other way to load them."""
    for i, problem in enumerate(problems):
        step = VECTOR_BYTES // atom.type_b.bytes
        line = problem.k if b_major == "K" else problem.n
        strides = (problem.batch_stride_a or 0, problem.batch_stride_b or 0) if problem.batch > 1 else (0, 0)
        if problem.offset % step or (line + problem.ld_pad) % step or any(stride % step for stride in strides):
            pad = problem.ld_pad + -(line + problem.ld_pad) % step
            yield Fault(
                ("problems", i),
                f"rows of A's values and lines of B do not all begin at 16-byte boundaries, which a sparse kernel needs: "
                f"multiples of {step} {atom.type_b.word}",
                f"an offset and batch strides that are multiples of {step}, and ld_pad {pad}",
                {("problems", i): with_aligned_lines(problem, pad, step)},
            )


def with_aligned_lines(problem: Problem, pad: int, step: int) -> dict[str, object]:
    """The problem as a spec has it, with that ld_pad, an offset that is a multiple of `step`, and batches one behind the other
    where they do not share a matrix: of A and B, and of longer lines of C and D."""
    written = problem.model_dump(mode="json")
    letters = "ab" if pad == problem.ld_pad else "abcd"
    strides = [f"batch_stride_{x}" for x in letters if written.get(f"batch_stride_{x}")]
    kept = {name: value for name, value in written.items() if name not in strides}
    return {**kept, "ld_pad": pad, "offset": problem.offset // step * step}


def addressable(atom: Atom, b_major: str, problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The problems without such faults."""
    wrong = {fault.key[1] for fault in problem_faults(atom, b_major, problems)}
    return tuple(problem for i, problem in enumerate(problems) if i not in wrong)
