"""Kernels of groups whose rows lie in common matrices from Python: the sizes are arguments."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import mmagen
from mmagen.binding.kernel import Kernel
from mmagen.binding.shared_library import Entry
from mmagen.binding.tensors import CPU
from tests.binding.c_functions import as_c

SPEC = {
    "mmagen": 1,
    "name": "rows",
    "kernel": "gemm",
    "atom": "SM90_64x32x16_F32F16F16_SS",
    "layout": "TN",
    "tile": [64, 32, 64],
    "schedule": "pingpong",
    "stages": 3,
    "epilogue": [{"bias": "column"}, "column_sums", {"cast": "f16"}],
}
M, N, K, GROUPS = 100, 24, 72, 3
ROWS = (5, 0, 70)
OFFSETS = np.array([3, 8, 8, 78], np.int32)


class Library:
    """Keeps what a call passes."""

    def __init__(self):
        self.functions = {"run": self.run, "can_run": self.can_run}
        self.functions |= {"error_text": lambda: b"success", "cuda_error": lambda: 0}
        self.seen = None

    def run(self, args, stream):
        self.seen = args
        if args.group_status:
            (ctypes.c_int32 * args.batch).from_address(args.group_status)[:] = [7] * args.batch
        return 0

    def can_run(self, args):
        self.seen = args
        return 0


def kernel(grouped):
    library = Library()
    about = mmagen.plan({**SPEC, "grouped": grouped}).facts.description
    return Kernel(Entry("rows", Path("none"), about, as_c(library.functions, about)), devices=(CPU,)), library


def operands(grouped):
    a = np.zeros((M, K) if grouped == "contiguous" else (GROUPS, M, K), np.float16)
    sums = np.zeros((GROUPS, N), np.float32)
    return (
        a,
        np.zeros((GROUPS, N, K), np.float16).swapaxes(1, 2),
        {"bias": np.zeros((GROUPS, N), np.float16), "column_sums": sums},
    )


def test_the_rows_of_groups_in_one_matrix_are_given_by_offsets_or_ends():
    call, library = kernel("contiguous")
    a, b, more = operands("contiguous")
    status = np.zeros(GROUPS, np.int32)
    d = call(a, b, group_offsets=OFFSETS, group_status=status, **more)
    args = library.seen
    assert d.shape == (M, N) and (args.m, args.n, args.k, args.batch) == (M, N, K, GROUPS)
    assert args.group_offsets == OFFSETS.ctypes.data and not args.group_ends and status.tolist() == [7] * GROUPS
    assert (args.batch_stride_b, args.batch_stride_bias, args.batch_stride_column_sums) == (N * K, N, N)
    call(a, b[0], group_ends=OFFSETS[1:], **{**more, "bias": more["bias"][0]})
    args = library.seen
    assert args.group_ends == OFFSETS[1:].ctypes.data and not args.group_offsets and args.batch == GROUPS
    assert (args.batch_stride_b, args.batch_stride_bias) == (0, 0), "one for all"


def test_the_rows_of_groups_in_matrices_of_their_own_are_given_by_their_number():
    call, library = kernel("masked")
    a, b, more = operands("masked")
    out = np.zeros((GROUPS, M, N + 8), np.float16)[:, :, :N]
    assert call(a, b, out, group_m=np.array(ROWS, np.int32), **more) is out
    args = library.seen
    assert (args.m, args.batch, args.batch_stride_a, args.ldd, args.batch_stride_d) == (M, GROUPS, M * K, N + 8, M * (N + 8))


def test_no_group_is_no_call():
    call, library = kernel("contiguous")
    a, b, more = operands("contiguous")
    none = {name: value[:0] for name, value in more.items()}
    assert call(a, b[:0], group_offsets=OFFSETS[:1], **none).shape == (M, N) and library.seen is None


def test_what_is_wrong_with_sizes_is_named():
    call, library = kernel("contiguous")
    a, b, more = operands("contiguous")

    def wrong(match, a=a, b=b, out=None, **further):
        with pytest.raises(mmagen.ArgumentError, match=match):
            call(a, b, out, **{"group_offsets": OFFSETS, **more, **further})

    wrong("group_offsets: it is missing; pass int32 group_offsets, groups [+] 1 of them, or group_ends", group_offsets=None)
    wrong("group_offsets: both it and group_ends are given; pass one", group_ends=OFFSETS[1:])
    wrong("group_offsets: its elements are s64; this kernel takes s32", group_offsets=OFFSETS.astype(np.int64))
    wrong(r"group_offsets: shape \(2, 2\); it is \(groups \+ 1,\)", group_offsets=OFFSETS.reshape(2, 2))
    wrong(r"group_offsets: shape \(0,\); it is \(groups \+ 1,\)", group_offsets=OFFSETS[:0])
    wrong("group_offsets: .*contiguous", group_offsets=np.repeat(OFFSETS, 2)[::2])
    wrong(
        "b: 3 matrices, but by group_offsets there are 2 groups; pass one for each, or one for all", group_offsets=OFFSETS[:3]
    )
    wrong("a: 3 matrices; the rows of all groups lie in one, as group_offsets says", a=np.zeros((GROUPS, M, K), np.float16))
    wrong(r"out: shape \(3, 100, 24\); a @ b is \(100, 24\)", out=np.zeros((GROUPS, M, N), np.float16))
    wrong(r"bias: it has 2 matrices, the call 3", bias=more["bias"][:2])
    wrong(r"group_status: shape \(2,\)", group_status=np.zeros(2, np.int32))
    wrong("group_status: its memory overlaps that of group_offsets", group_status=OFFSETS[1:])
    wrong("group_m: this kernel does not take it", group_m=OFFSETS)
    out = np.zeros((M, N), np.float16)
    of_out = out.reshape(-1)[: OFFSETS.nbytes // 2].view(np.int32)
    wrong("out: its memory overlaps that of group_offsets", out=out, group_offsets=of_out)
    wrong("out: its memory overlaps that of bias", out=out, bias=out.reshape(-1)[: GROUPS * N].reshape(GROUPS, N))
    wrong("out: its memory overlaps that of alpha", out=out, alpha=out.reshape(-1)[-2:].view(np.float32))
    wrong(
        "group_status: its memory overlaps that of alpha",
        group_status=(status := np.zeros(GROUPS, np.int32)),
        alpha=status.view(np.float32)[1:2],
    )
    assert not out.any()
    shared = np.zeros((M, K), np.float16)
    wrong("out: its memory overlaps that of a", a=shared, out=shared.reshape(-1)[: M * N].reshape(M, N))
    assert library.seen is None
    call, _ = kernel("masked")
    a, b, more = operands("masked")
    with pytest.raises(mmagen.ArgumentError, match="group_m: it is missing"):
        call(a, b, **more)
    with pytest.raises(mmagen.ArgumentError, match="a: 3 matrices, but by group_m there are 2 groups"):
        call(a, b, group_m=np.array(ROWS[:2], np.int32), **more)


@pytest.mark.parametrize("grouped", ["contiguous", "masked"])
def test_it_can_be_asked_of_extents_that_tma_cannot_address(grouped):
    call, library = kernel(grouped)
    assert call.can_run(5, 6, 7, batch=4) == ""
    args = library.seen
    assert args.lda % 16 == 0 and args.lda >= 7 and args.ldb % 16 == 0 and args.batch == 4
    if grouped == "contiguous":
        assert args.group_offsets and not args.group_ends, "exactly one"


@pytest.mark.nvcc
@pytest.mark.more
@pytest.mark.parametrize("grouped", ["contiguous", "masked"])
def test_a_compiled_kernel_emulates_groups(grouped):
    call = mmagen.compile({**SPEC, "grouped": grouped}, arch="sm_90a")
    a, b, more = operands(grouped)
    rng = np.random.default_rng(1)
    for one in (a, b, more["bias"]):
        one[...] = rng.integers(-2, 3, one.shape)
    status = np.full(GROUPS, 9, np.int32)
    sizes = {"group_offsets": OFFSETS} if grouped == "contiguous" else {"group_m": np.array(ROWS, np.int32)}
    d = call.emulate(a, b, group_status=status, **sizes, **more)
    assert status.tolist() == [0] * GROUPS
    wanted = np.zeros_like(d)
    for group in range(GROUPS):
        of_group = np.s_[OFFSETS[group] : OFFSETS[group + 1]] if grouped == "contiguous" else np.s_[group, : ROWS[group]]
        wanted[of_group] = a[of_group].astype(float) @ b[group].astype(float) + more["bias"][group]
        assert (more["column_sums"][group] == wanted[of_group].astype(float).sum(axis=0)).all()
    assert (d == wanted).all(), "rows of no group are 0"
    without_status = call.emulate(a, b[:1], **sizes, **more)
    assert without_status.shape == d.shape and without_status.any()
    with pytest.raises(mmagen.ArgumentError, match="bias: it has 2 matrices, the call 3; pass as many, or one for all"):
        call.emulate(a, b, **sizes, **{**more, "bias": more["bias"][:2]})
    with pytest.raises(mmagen.ArgumentError, match=r"a: shape .*: a K of 0 is not emulated"):
        call.emulate(a[..., :0], b[:, :0], **sizes, **more)
    backwards = {name: value[::-1].copy() if name == "group_offsets" else -value for name, value in sizes.items()}
    assert not call.emulate(a, b, group_status=status, **backwards, **more).any() and (status[[0, 2]] != 0).all()
