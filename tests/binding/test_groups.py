"""Kernels of groups with matrices of their own from Python: lists of arrays."""

from __future__ import annotations

import ctypes
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mmagen
from mmagen.binding.kernel import Kernel
from mmagen.binding.shared_library import Entry
from mmagen.binding.tensors import CPU
from tests.binding.c_functions import as_c

SPEC = {
    "mmagen": 1,
    "name": "lists",
    "kernel": "gemm",
    "atom": "SM90_64x32x16_F32F16F16_SS",
    "layout": "TN",
    "tile": [64, 32, 64],
    "schedule": "pingpong",
    "stages": 3,
    "grouped": "pointers",
    "epilogue": {"out": "f16"},
}
PLAN = mmagen.plan(SPEC)
ROOM = 512
SHAPES = [(70, 24, 64), (3, 40, 72), (0, 8, 8), (9, 16, 0)]  # M, N and K


def at(address, rows, columns, ld):
    memory = (ctypes.c_char * (((rows - 1) * ld + columns) * 2)).from_address(address)
    return np.ndarray((rows, columns), np.float16, memory, strides=(ld * 2, 2))


class Library:
    """The C interface of the kernel on numpy, in memory of the host."""

    def __init__(self):
        self.functions = {name: getattr(self, name) for name in ("run", "can_run", "workspace_bytes")}
        self.functions |= {"error_text": lambda: b"success", "cuda_error": lambda: 0}
        self.room = 0

    @staticmethod
    def workspace_bytes(args, size):
        size[0] = ROOM * args.batch
        return 0

    @staticmethod
    def can_run(args):
        return 0 if args.workspace_bytes >= ROOM * args.batch else 162

    def run(self, args, stream):
        self.room = args.workspace_bytes
        read = {name: (ctypes.c_uint64 * args.batch).from_address(getattr(args, name) or args.d) for name in "abcd"}
        arrays = ("m", "n", "k", "lda", "ldb", "ldc", "ldd")
        of = {name: (ctypes.c_int32 * args.batch).from_address(getattr(args, f"group_{name}")) for name in arrays}
        for i in range(args.batch):
            m, n, k = (of[mode][i] for mode in "mnk")
            assert m <= args.m and n <= args.n and k <= args.k
            if not m or not n:
                continue
            sums = np.zeros((m, n))
            if k:
                sums = at(read["a"][i], m, k, of["lda"][i]).astype(float) @ at(read["b"][i], n, k, of["ldb"][i]).astype(float).T
            sums = args.alpha * sums
            if args.beta:
                sums = sums + args.beta * at(read["c"][i], m, n, of["ldc"][i])
            at(read["d"][i], m, n, of["ldd"][i])[...] = sums
        return 0


def kernel():
    library = Library()
    about = PLAN.facts.description
    return Kernel(Entry("lists", Path("none"), about, as_c(library.functions, about)), devices=(CPU,)), library


def aligned(rows, columns, pad=0):
    """Lines of a multiple of 16 bytes, at a multiple of 16 bytes."""
    ld = -(-columns // 8) * 8 + pad
    memory = np.zeros(rows * ld + 16, np.float16)
    first = -memory.ctypes.data % 16 // 2
    found = memory[first : first + rows * ld].reshape(rows, ld)[:, :columns]
    found[...] = np.random.default_rng(rows + columns).integers(-2, 3, (rows, columns))
    return found


def inputs():
    a = [aligned(m, k, 8 * i) for i, (m, _, k) in enumerate(SHAPES)]
    return a, [aligned(n, k, 8).T for _, n, k in SHAPES]


def test_each_group_is_multiplied_and_comes_back_in_the_list():
    call, library = kernel()
    a, b = inputs()
    found = call(a, b, alpha=2)
    assert isinstance(found, list) and [one.shape for one in found] == [(m, n) for m, n, _ in SHAPES]
    assert all((one == 2 * (x.astype(float) @ y.astype(float))).all() for one, x, y in zip(found, a, b, strict=True))
    assert library.room == ROOM * len(SHAPES)
    c = [np.ones((m, n), np.float16) for m, n, _ in SHAPES]
    out = [np.zeros((m, n + 3), np.float16)[:, :n] for m, n, _ in SHAPES]
    given = call(a, b, out=out, c=c, beta=-1)
    assert all(x is y for x, y in zip(given, out, strict=True))
    assert all((one == x.astype(float) @ y.astype(float) - 1).all() for one, x, y in zip(out, a, b, strict=True))
    in_place = call(a, b, out=c, c=c, beta=-1)
    assert all((x == y).all() for x, y in zip(in_place, out, strict=True))
    assert call([], []) == [] and call.can_run(64, 64, 64, batch=5) == ""
    x, y = aligned(1, 75), aligned(24, 75).T
    assert (call([np.ascontiguousarray(x)], [y])[0] == x.astype(float) @ y.astype(float)).all(), "one line ends anywhere"


def test_lines_too_far_apart_for_32_bits_are_refused():
    call, library = kernel()
    a, b = inputs()
    far = np.lib.stride_tricks.as_strided(a[0], (2, 64), (2**32, 2))  # whose second line nobody reads
    with pytest.raises(
        mmagen.ArgumentError, match=r"a\[0\]: leading dimension 2147483648: of a matrix of a group at most 2147483647"
    ):
        call([far, *a[1:]], b)
    assert library.room == 0, "nothing was launched"


def test_what_is_wrong_names_the_group():
    call, _ = kernel()
    a, b = inputs()
    with pytest.raises(mmagen.ArgumentError, match="a: it is ndarray; this kernel takes a list of arrays"):
        call(a[0], b[0])
    with pytest.raises(mmagen.ArgumentError, match="b: 3 arrays, but a has 4; pass one for each group"):
        call(a, b[:3])
    with pytest.raises(mmagen.ArgumentError, match=r"b\[1\]: shape \(64, 24\): 64 rows, but a\[1\] has 72 columns"):
        call(a, [b[0], b[0], *b[2:]])
    with pytest.raises(mmagen.ArgumentError, match=r"a\[1\]: its elements are f32; this kernel takes f16"):
        call([a[0], a[1].astype(np.float32), *a[2:]], b)
    odd = np.zeros((3, 75), np.float16)[:, :72]
    with pytest.raises(mmagen.ArgumentError, match=r"a\[1\]: its lines do not begin at multiples of 16 bytes.*150 bytes apart"):
        call([a[0], odd, *a[2:]], b)
    with pytest.raises(mmagen.ArgumentError, match=r"b\[0\]: .*it has N contiguous"):
        call(a, [np.ascontiguousarray(b[0]), *b[1:]])
    with pytest.raises(mmagen.ArgumentError, match=r"a\[0\]: shape \(1, 70, 64\): a matrix of a group has 2 dimensions"):
        call([a[0][None], *a[1:]], b)
    with pytest.raises(mmagen.ArgumentError, match="c: it is NoneType"):
        call(a, b, beta=1)
    with pytest.raises(mmagen.ArgumentError, match=r"out\[2\]: shape \(1, 8\); a\[2\] @ b\[2\] is \(0,8\)"):
        call(a, b, out=[np.zeros((one.shape[0] or 1, two.shape[1]), np.float16) for one, two in zip(a, b, strict=True)])
    same = np.zeros((70, 24), np.float16)
    for second in (same, same.reshape(-1)[24:].reshape(-1, 24), same[:, 4:]):  # the same, further down, further right
        n = second.shape[1]
        with pytest.raises(mmagen.ArgumentError, match=r"out\[[01]\]: its memory overlaps that of out\[[01]\]"):
            call([a[0], a[0][: len(second)]], [b[0], b[0][:, :n]], out=[same, second])
    beside = np.zeros((70, 48), np.float16)
    call([a[0], a[0]], [b[0], b[0]], out=[beside[:, 24:], beside[:, :24]])
    assert (beside[:, :24] == beside[:, 24:]).all() and beside.any(), "columns of one matrix share no element"
    read = aligned(70, 64)
    with pytest.raises(mmagen.ArgumentError, match=r"out\[1\]: its memory overlaps that of a\[0\]; groups run in any order"):
        call([read, a[0]], [b[0], b[0]], out=[same, read[:, :24]])
    with pytest.raises(mmagen.ArgumentError, match=r"out\[0\]: its memory overlaps that of a\[0\]"):
        call([a[0]], [b[0]], out=[a[0][:, :24]])
    with pytest.raises(mmagen.ArgumentError, match="bias: this kernel does not take it"):
        call(a, b, bias=same)


TENSORS = {**SPEC, "epilogue": [{"bias": "column"}, {"add": "residual", "type": "f32"}, "amax", "row_sums", {"cast": "f16"}]}


class LibraryOfTensors(Library):
    """Keeps what a call passes of each group, by the names of arguments."""

    seen: tuple[dict[str, int], ...] = ()

    def run(self, args, stream):
        names = ("bias", "residual", "row_sums")
        pointers = {name: (ctypes.c_uint64 * args.batch).from_address(getattr(args, name)) for name in names}
        pitches = (ctypes.c_int32 * args.batch).from_address(args.group_ld_residual)
        self.seen = tuple({name: pointers[name][i] for name in names} | {"ld": pitches[i]} for i in range(args.batch))
        ctypes.c_float.from_address(args.amax).value = 3.0
        return 0


def with_tensors():
    library = LibraryOfTensors()
    plan = mmagen.plan(TENSORS)
    about = plan.facts.description
    return Kernel(Entry("lists", Path("none"), about, as_c(library.functions, about)), devices=(CPU,)), library


def tensors():
    return {
        "bias": [np.zeros(n, np.float16) for _, n, _ in SHAPES],
        "residual": [np.zeros((m, n + 5 * i), np.float32)[:, :n] for i, (m, n, _) in enumerate(SHAPES)],
        "row_sums": [np.zeros(m, np.float32) for m, _, _ in SHAPES],
        "amax": np.zeros((1,), np.float32),
    }


def test_each_group_has_further_arguments_of_its_own():
    call, library = with_tensors()
    given = tensors()
    call(*inputs(), **given)
    assert given["amax"][0] == 3.0
    for i, one in enumerate(library.seen):
        assert all(one[name] == given[name][i].ctypes.data for name in ("bias", "row_sums") if 0 not in given[name][i].shape)
        assert one["ld"] == SHAPES[i][1] + 5 * i or SHAPES[i][0] < 2


def test_what_is_wrong_with_a_further_argument_names_the_group():
    call, _ = with_tensors()
    a, b = inputs()
    given = tensors()

    def wrong(match, **changed):
        with pytest.raises(mmagen.ArgumentError, match=match):
            call(a, b, **{**given, **changed})

    wrong("bias: 3 arrays, but a has 4", bias=given["bias"][:3])
    wrong("bias: it is ndarray; this kernel takes a list", bias=given["bias"][0])
    wrong(r"bias\[1\]: shape \(24,\)", bias=[given["bias"][0]] * 4)
    wrong(r"residual\[0\]: its elements are f16", residual=[given["residual"][0].astype(np.float16), *given["residual"][1:]])
    read_only = np.zeros(70, np.float32)
    read_only.flags.writeable = False
    wrong(r"row_sums\[0\]: it is read-only", row_sums=[read_only, *given["row_sums"][1:]])
    wrong("amax: shape", amax=np.zeros(2, np.float32))
    wrong("group_m: this kernel does not take it", group_m=np.zeros(4, np.int32))
    with pytest.raises(mmagen.ArgumentError, match="residual: it is missing"):
        call(a, b, **{name: value for name, value in given.items() if name != "residual"})


def test_results_that_overlap_are_refused_and_memory_is_untouched():
    call, library = with_tensors()
    a, b = inputs()
    given = tensors()
    out = [np.full((m, n), 5, np.float16) for m, n, _ in SHAPES]
    sums, residual, bias = (given[name] for name in ("row_sums", "residual", "bias"))
    inside = out[0].reshape(-1)[:2].view(np.float32)

    def wrong(match, **changed):
        arrays = {"out": out, **given, **changed}
        before = [one.copy() for one in (*out, *sums, *residual, *bias, given["amax"])]
        with pytest.raises(mmagen.ArgumentError, match=match):
            call(a, b, **arrays)
        now = (*out, *sums, *residual, *bias, given["amax"])
        assert all((one == other).all() for one, other in zip(now, before, strict=True)) and library.seen == ()

    wrong(r"row_sums\[1\]: its memory overlaps that of row_sums\[0\]", row_sums=[sums[0], sums[0][67:], *sums[2:]])
    wrong(r"row_sums\[3\]: its memory overlaps that of residual\[0\]", row_sums=[*sums[:3], residual[0].reshape(-1)[5:14]])
    wrong(
        r"row_sums\[3\]: its memory overlaps that of out\[0\]|out\[0\]: .* row_sums\[3\]",
        row_sums=[*sums[:3], out[0].reshape(-1)[:18].view(np.float32)],
    )
    wrong(r"row_sums\[0\]: its memory overlaps that of bias\[1\]", bias=[bias[0], sums[0].view(np.float16)[:40], *bias[2:]])
    wrong(r"amax: its memory overlaps that of out\[0\]", amax=inside[:1])
    wrong(r"amax: its memory overlaps that of row_sums\[1\]", amax=sums[1][2:])
    wrong(r"amax: its memory overlaps that of residual\[1\]", amax=residual[1][2, 39:40])
    wrong(r"out\[0\]: its memory overlaps that of alpha", alpha=inside[:1])
    wrong(r"row_sums\[0\]: its memory overlaps that of beta", beta=sums[0][:1], c=[one.copy() for one in out])
    wrong(r"amax: its memory overlaps that of alpha", alpha=given["amax"])
    call(a, b, out=out, **{**given, "alpha": np.ones(1, np.float32)})
    assert library.seen != ()


def test_pairs_of_columns_make_one_of_each_result():
    library = Library()
    library.functions["run"] = lambda args, stream: 0
    plan = mmagen.plan({**SPEC, "epilogue": [{"gated": "silu"}, {"cast": "f16"}]})
    about = plan.facts.description
    call = Kernel(Entry("lists", Path("none"), about, as_c(library.functions, about)), devices=(CPU,))
    a, b = inputs()
    assert [one.shape for one in call(a, b)] == [(m, n // 2) for m, n, _ in SHAPES]
    with pytest.raises(mmagen.ArgumentError, match=r"b\[0\]: 23 columns"):
        call(a, [b[0][:, :23], *b[1:]])


@pytest.mark.nvcc
@pytest.mark.more
def test_a_compiled_kernel_emulates_lists():
    call = mmagen.compile({**SPEC, "atom": "SM90_64x32x16_F32BF16BF16_SS", "epilogue": {"out": "bf16"}}, arch="sm_90a")
    rng, kind = np.random.default_rng(1), ml_dtypes.bfloat16
    a = [rng.integers(-2, 3, (m, k)).astype(kind) for m, _, k in SHAPES]
    b = [rng.integers(-2, 3, (k, n)).astype(kind) for _, n, k in SHAPES]
    c = [rng.integers(-2, 3, (m, n)).astype(kind) for m, n, _ in SHAPES]
    found = call.emulate(a, b, c, alpha=1, beta=2)
    for one, x, y, z in zip(found, a, b, c, strict=True):
        assert (one == (x.astype(float) @ y.astype(float) + 2 * z.astype(float)).astype(kind)).all()
    with pytest.raises(mmagen.ArgumentError, match=r"b\[0\]: shape"):
        call.emulate(a, b[1:] + b[:1])


@pytest.mark.nvcc
@pytest.mark.more
def test_a_compiled_kernel_emulates_lists_with_further_arguments():
    call = mmagen.compile(TENSORS, arch="sm_90a")
    a, b, given = *inputs(), tensors()
    rng = np.random.default_rng(2)
    for name in ("bias", "residual", "row_sums"):
        for one in given[name]:
            one[...] = rng.integers(-2, 3, one.shape)
    before = [one.copy() for one in given["row_sums"]]
    with pytest.raises(mmagen.ArgumentError, match=r"row_sums\[3\]: its memory overlaps that of row_sums\[0\]"):
        call.emulate(a, b, **given | {"row_sums": [*given["row_sums"][:3], given["row_sums"][0][8:17]]})
    found = call.emulate(a, b, **given)
    wanted = [
        x.astype(float) @ y.astype(float) + z + w for x, y, z, w in zip(a, b, given["bias"], given["residual"], strict=True)
    ]
    for one, x, sums, was in zip(found, wanted, given["row_sums"], before, strict=True):
        assert (one == x).all() and (sums == was + x.sum(axis=1)).all()
    assert given["amax"][0] == max(np.abs(x).max(initial=0) for x in wanted)
