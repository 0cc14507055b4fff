"""Sparse matrices from Python: compressed, pruned and checked by the library's functions, and passed to a kernel."""

from __future__ import annotations

import ctypes
import dataclasses
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mmagen
from mmagen.binding.kernel import Kernel
from mmagen.binding.shared_library import Entry
from mmagen.binding.sparse import Compressed
from mmagen.binding.tensors import CPU
from mmagen.host_runtime.arguments import struct_of
from mmagen.mma.sparsity import columns_stored, compress, decompress, kept, metadata_words, positions

SPEC = {
    "mmagen": 1,
    "name": "sparse",
    "kernel": "gemm",
    "atom": "SM80_SPARSE_16x8x32_F32F16F16F32_TN",
    "tile": [64, 64, 64],
    "atoms_layout": [2, 2, 1],
    "epilogue": {"out": "f32"},
    "arch": ["sm_80"],
}
PLAN = mmagen.plan(SPEC)


def at(address, shape, strides, kind):
    """A view of memory; strides in elements."""
    size = np.dtype(kind).itemsize
    count = sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True)) + 1
    memory = (ctypes.c_char * (count * size)).from_address(address)
    return np.ndarray(shape, kind, memory, strides=[step * size for step in strides])


class Library:
    """The C interface of the kernel on numpy, in memory of the host. calls: the functions that were called."""

    def __init__(self):
        self.calls, self.said = [], b"success"
        self.functions = {name: getattr(self, name) for name in ("run", "compress_host", "prune_host", "check_metadata_host")}
        self.functions |= {"compressed_size_of": self.size_of, "error_text": lambda: self.said, "cuda_error": lambda: 0}

    @staticmethod
    def size_of(m, k, size):
        found = size._obj
        found.values_columns, found.metadata_words = columns_stored(PLAN.atom, k), metadata_words(PLAN.atom, m, k)
        found.ld_values = -(-found.values_columns // 8) * 8
        return 0

    def _stored(self, args):
        dense = at(args.dense, (args.batch, args.m, args.k), (args.batch_stride_dense, args.ld_dense, 1), np.float16)
        return dense, kept(PLAN.atom, np.abs(dense.astype(float)))

    def compress_host(self, args):
        self.calls.append("compress")
        dense, stored = self._stored(args)
        values, words = compress(PLAN.atom, dense.copy(), stored)
        shape = values.shape
        at(args.values, shape, (args.batch_stride_values, args.ld_values, 1), np.float16)[...] = values
        at(args.metadata, words.shape, (args.batch_stride_metadata, 1), np.uint32)[...] = words
        lost = np.flatnonzero((~stored[..., : args.k] & (dense != 0)).reshape(-1))
        first = int(lost[0]) // args.k * args.k + int(lost[0]) % args.k // 4 * 4 if len(lost) else -1
        if args.violation:
            ctypes.c_int64.from_address(args.violation).value = first
        return 150 if len(lost) else 0

    def prune_host(self, args):
        dense, stored = self._stored(args)
        out = at(args.pruned, dense.shape, (args.batch_stride_pruned, args.ld_pruned, 1), np.float16)
        out[...] = np.where(stored[..., : args.k], dense, 0)
        return 0

    def check_metadata_host(self, args):
        self.calls.append("check")
        words = metadata_words(PLAN.atom, args.m, args.k)
        given = at(args.metadata, (args.batch, words), (args.batch_stride_metadata, 1), np.uint32)
        try:
            positions(PLAN.atom, given.copy(), args.m, args.k)
        except ValueError:
            bad = [
                i
                for i, word in enumerate(given.reshape(-1))
                if any((word >> n & 3) >= (word >> n + 2 & 3) for n in range(0, 32, 4))
            ]
            ctypes.c_int64.from_address(args.violation).value = bad[0]
            return 151
        return 0

    def run(self, args, stream):
        columns = columns_stored(PLAN.atom, args.k)
        values = at(args.a, (args.batch, args.m, columns), (args.batch_stride_a, args.lda, 1), np.float16)
        words = metadata_words(PLAN.atom, args.m, args.k)
        metadata = at(args.metadata_a, (args.batch, words), (args.batch_stride_metadata_a, 1), np.uint32)
        a = decompress(PLAN.atom, values.astype(float), metadata, args.k)
        b = at(args.b, (args.batch, args.n, args.k), (args.batch_stride_b, args.ldb, 1), np.float16).astype(float)
        at(args.d, (args.batch, args.m, args.n), (args.batch_stride_d, args.ldd, 1), np.float32)[...] = a @ b.swapaxes(1, 2)
        return 0


def kernel(**about):
    library = Library()
    described = {**PLAN.facts.description, **about}
    pointer = ctypes.POINTER(struct_of(PLAN.arguments.members))
    run = ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.c_void_p)(lambda args, stream: library.run(args.contents, stream))
    functions = library.functions | {"run": run}
    return Kernel(Entry("sparse", Path("none"), described, functions), devices=(CPU,)), library


def matrix(*shape):
    return np.random.default_rng(1).integers(-3, 4, shape).astype(np.float16)


def columns_first(array):
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


@pytest.mark.parametrize("head", [(), (3,)])
def test_a_pruned_matrix_is_compressed_and_multiplied(head):
    call, _ = kernel()
    a, b = call.prune(matrix(*head, 70, 100)), columns_first(matrix(*head, 100, 24))
    one = call.compress(a)
    assert one.shape == a.shape and one.type == "f16" and one.values.shape == (*head, 70, 56)
    assert one.nbytes == one.values.nbytes + one.metadata.nbytes
    assert (call(one, b) == a.astype(np.float32) @ b.astype(np.float32)).all()
    again = call.compressed(one.values, one.metadata, 100)
    assert again.shape == one.shape
    pruned = call.compress(matrix(*head, 70, 100), prune=True)
    assert (call(pruned, b) == call(one, b)).all(), "pruning and compressing in one is the same"


@pytest.mark.parametrize(("head", "where"), [((), "row 5"), ((2,), "matrix 1, row 5")])
def test_a_matrix_that_is_not_sparse_is_refused_with_the_place(head, where):
    call, _ = kernel()
    a = np.zeros((*head, 70, 100), np.float16)
    a[..., 5, 8:11] = 1
    if head:
        a[0] = 0
    with pytest.raises(
        mmagen.ArgumentError, match=rf"a: {where}, columns 8 to 11: more than 2 of them are not zero.*prune=True"
    ):
        call.compress(a)


def test_illegal_metadata_are_refused():
    call, _ = kernel()
    one = call.compress(call.prune(matrix(70, 100)))
    for word in (0, 7, 300):
        wrong = one.metadata.copy()
        wrong.reshape(-1)[word] = 0x44444440
        with pytest.raises(mmagen.ArgumentError, match=f"metadata: word {word} names no legal places"):
            call.compressed(one.values, wrong, 100)


def test_what_is_no_compressed_matrix_says_what_would_be():
    call, _ = kernel()
    b, one = columns_first(matrix(100, 24)), call.compress(call.prune(matrix(70, 100)))
    with pytest.raises(mmagen.ArgumentError, match=r"a: sparse multiplies a sparse matrix; pass kernel.compress\(a\)"):
        call(matrix(70, 100), b)
    with pytest.raises(mmagen.ArgumentError, match=r"b: shape \(96, 24\): 96 rows, but a has 100 columns"):
        call(one, columns_first(matrix(96, 24)))
    with pytest.raises(mmagen.ArgumentError, match="a: its elements are bf16; this kernel takes f16"):
        call(dataclasses.replace(one, type="bf16"), b)
    with pytest.raises(mmagen.ArgumentError, match="metadata: its elements are f32; metadata are s32"):
        call.compressed(one.values, one.metadata.view(np.float32), 100)
    with pytest.raises(mmagen.ArgumentError, match=r"values: shape \(70, 56\); of k = 300 it is \(70, 152\)"):
        call.compressed(one.values, one.metadata, 300)
    with pytest.raises(mmagen.ArgumentError, match=r"metadata: shape .*; of k = 100 it is"):
        call.compressed(one.values, one.metadata[:1], 100)
    with pytest.raises(mmagen.ArgumentError, match="values: its elements are f32; this kernel takes f16"):
        call.compressed(one.values.astype(np.float32), one.metadata, 100)
    with pytest.raises(mmagen.ArgumentError, match="a: its elements are f32; this kernel takes f16"):
        call.compress(np.zeros((8, 8), np.float32))
    with pytest.raises(mmagen.ArgumentError, match="it has M contiguous"):
        call.compress(columns_first(matrix(70, 100)))


def test_a_matrix_without_elements_is_compressed_to_nothing():
    call, library = kernel()
    assert call.compress(matrix(0, 100)).shape == (0, 100) and library.calls == []
    assert call(call.compress(matrix(0, 100)), columns_first(matrix(100, 24))).shape == (0, 24)


def test_a_dense_kernel_compresses_nothing():
    dense = {key: value for key, value in PLAN.facts.description["a"].items() if key not in ("group", "kept", "dense")}
    call, _ = kernel(a=dense)
    with pytest.raises(mmagen.ArgumentError, match=r"multiplies a dense a: compress\(\) is for kernels of sparse atoms"):
        call.compress(matrix(8, 8))
    with pytest.raises(mmagen.ArgumentError, match="a: it is compressed, and sparse multiplies a dense matrix"):
        call(Compressed(matrix(8, 8), matrix(1, 1), (8, 16), "f16"), matrix(16, 8))


@pytest.mark.nvcc
@pytest.mark.more
def test_a_compiled_library_compresses_what_it_multiplies():
    spec = {**SPEC, "name": "sparse_bf16", "atom": "SM80_SPARSE_16x8x32_F32BF16BF16F32_TN"}
    call = mmagen.compile(spec, arch="sm_80")
    a, b = matrix(2, 70, 96).astype(ml_dtypes.bfloat16), columns_first(matrix(96, 40).astype(ml_dtypes.bfloat16))
    with pytest.raises(mmagen.ArgumentError, match="more than 2 of them are not zero"):
        call.compress(a)
    pruned = call.prune(a)
    one = call.compress(pruned)
    assert (call.emulate(one, b) == pruned.astype(np.float32) @ b.astype(np.float32)).all()
    wrong = one.metadata.copy()
    wrong[1, 0, 3] = 0
    with pytest.raises(mmagen.ArgumentError, match=f"metadata: word {one.metadata[0].size + 3} names no legal places"):
        call.compressed(one.values, wrong, 96)
    with pytest.raises(mmagen.ArgumentError, match="a: it was compressed on the host"):
        call(one, b)
