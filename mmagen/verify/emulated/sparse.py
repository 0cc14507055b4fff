"""The part `sparse` of a kernel: A is what a compressor makes of a sparse matrix, with metadata (mmagen.mma.sparsity)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from mmagen.mma.sparse_atoms import SparseAtom
from mmagen.mma.sparsity import columns_stored, compress, decompress
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.plan.plans import ProductPlan
from mmagen.spec.model import Problem
from mmagen.verify.emulated.compressor import check_compressor
from mmagen.verify.emulated.matrix import Draw, Matrix, Operands
from mmagen.verify.emulated.parts import Call, Part, Values

if TYPE_CHECKING:
    from mmagen.verify.emulated.task import Task

# Of the matrix that the library is to compress: blocks of metadata that end within a tile, and the padding.
_MOST_ROWS, _MOST_COLUMNS = 83, 299


class _Sparse(Part):
    name = "sparse"

    def shapes(self, plan: ProductPlan, problem: Problem) -> dict[str, tuple[int, int]]:
        """Lines of A's values are whole vectors, padding included; what is behind its columns is no part of the matrix."""
        atom = _atom(plan)
        step = VECTOR_BYTES // atom.type_a.bytes
        columns = columns_stored(atom, problem.k)
        return {"a": (problem.m, columns + -(columns + problem.ld_pad) % step)}

    def single(self, plan: ProductPlan, problem: Problem) -> frozenset[str]:
        """The metadata of an A that a batch shares."""
        return frozenset({"metadata_a"} if problem.batch_stride_a == 0 else ())

    def fill(self, plan: ProductPlan, problem: Problem, draw: Draw, data: Operands, rng: np.random.Generator) -> None:
        """Metadata of places drawn at random, and values in A as they are, but for those of columns behind K."""
        atom, codes = _atom(plan), _stored(plan, problem, data.a)
        shared = data.a.batch_stride == 0
        places = _places(atom, problem, 1 if shared else problem.batch, rng)
        full = np.zeros(places.shape, codes.dtype)
        full[places] = codes[: len(places)].reshape(-1)
        full[..., problem.k :] = 0
        values, words = compress(atom, full[..., : problem.k], places)
        data.a.view[..., : codes.shape[2]] = values
        data.further["metadata_a"].view[...] = words.reshape(len(words), -(-problem.m // 64), -1).view(np.int32)

    def check(self, task: Task, data: Operands) -> None:
        """The library's own functions, on a matrix of the problem's size at most."""
        check_compressor(task, min(task.problem.m, _MOST_ROWS), min(task.problem.k, _MOST_COLUMNS))

    def factors(self, call: Call, a: Values, b: Values) -> tuple[Values, Values]:
        """A with its zeros."""
        atom, problem = _atom(call.plan), call.problem
        metadata = np.ascontiguousarray(call.data.further["metadata_a"].view).view(np.uint32).reshape(problem.batch, -1)
        return decompress(atom, a[..., : columns_stored(atom, problem.k)], metadata, problem.k), b


SPARSE = _Sparse()


def _atom(plan: ProductPlan) -> SparseAtom:
    return cast(SparseAtom, plan.atom)


def _stored(plan: ProductPlan, problem: Problem, a: Matrix) -> npt.NDArray[np.generic]:
    """The codes of A's values, (batch, m, columns_stored); what lies behind them becomes large."""
    columns = columns_stored(_atom(plan), problem.k)
    view = a.view
    view[..., columns:].view(np.uint8)[...] = 0x7D
    return view[..., :columns].copy()


def _places(atom: SparseAtom, problem: Problem, batch: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Which elements of A are stored, (batch, m, k up to whole groups): every choice is as likely as every other, but that a last
    group keeps columns before K as long as it has some."""
    groups = -(-problem.k // atom.group)
    order = rng.random((batch, problem.m, groups, atom.group))
    behind = groups * atom.group - problem.k
    if behind:
        order[:, :, -1, atom.group - behind :] += 1.0 + np.arange(behind)
    ranks = np.argsort(np.argsort(order, axis=-1), axis=-1)
    return (ranks < atom.kept).reshape(batch, problem.m, -1)
