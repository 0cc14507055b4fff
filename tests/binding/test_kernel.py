"""A kernel called with arrays: leading dimensions and batches from strides, and errors that name the argument."""

from __future__ import annotations

import copy
import ctypes
import pickle
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import mmagen
from mmagen.binding import driver
from mmagen.binding.errors import ArgumentError, DeviceError
from mmagen.binding.kernel import Kernel
from mmagen.binding.shared_library import Entry, entries_in
from mmagen.binding.tensors import CPU, tensor
from mmagen.host_runtime.arguments import Arguments
from mmagen.plan.facts import INTERFACE_VERSION

RNG = np.random.default_rng(1)


def ints(*shape: int) -> np.ndarray:
    return RNG.integers(-4, 5, shape).astype(np.float32)


def laid_out(values: np.ndarray, last_contiguous: bool) -> np.ndarray:
    """The same values with the last or the second last dimension contiguous."""
    return np.ascontiguousarray(values) if last_contiguous else np.ascontiguousarray(values.swapaxes(-1, -2)).swapaxes(-1, -2)


# For each layout, whether the last dimension of a (M,K) and of b (K,N) is contiguous.
LAYOUTS = {"TN": (True, False), "NT": (False, True), "NN": (False, False), "TT": (True, True)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("major", ["N", "M"])
def test_it_is_matmul_in_every_layout(layout, major, kernel):
    call = kernel(layout, major)
    a_last, b_last = LAYOUTS[layout]
    for m, n, k in ((5, 7, 3), (1, 1, 1), (1, 6, 4), (6, 1, 4), (4, 3, 1)):
        a, b = laid_out(ints(m, k), a_last), laid_out(ints(k, n), b_last)
        d = call(a, b)
        assert d.dtype == np.float32 and d.shape == (m, n) and (d == a @ b).all()
        assert m == 1 or n == 1 or d.strides[1 if major == "N" else 0] == 4


def test_batches_and_one_matrix_for_all(kernel):
    call = kernel()
    a, b = ints(3, 5, 4), laid_out(ints(3, 4, 6), False)
    assert (call(a, b) == a @ b).all()
    assert (call(a, b[0]) == a @ b[0]).all() and (call(a[0], b) == a[0] @ b).all()
    assert (call(a[:1], b) == a[:1] @ b).all() and call(a[:1], b[:1]).shape == (1, 5, 6)
    c = ints(5, 6)
    assert (call(a, b, c=c, beta=2) == a @ b + 2 * c).all()
    assert call(a[:0], b[:0]).shape == (0, 5, 6)


def test_strided_views_are_read_in_place(kernel):
    call = kernel()
    whole = ints(9, 20)
    a, b = whole[1:6, 3:10], laid_out(ints(12, 8), False)[2:9, :5]
    assert (call(a, b) == a @ b).all()
    batches = ints(6, 5, 7)
    every = batches[::2]
    assert (call(every, b) == every @ b).all()
    memory = ints(5, 11)
    out = memory[:, 2:7]
    before = memory.copy()
    assert call(a, b, out=out) is out and (out == a @ b).all()
    assert (memory[:, :2] == before[:, :2]).all() and (memory[:, 7:] == before[:, 7:]).all()


def test_the_elements_of_a_byte_are_counted_one_by_one():
    spec = {"mmagen": 1, "name": "it", "kernel": "gemm", "atom": "SM80_16x8x64_S32S4S4S32_TN", "tile": [32, 32, 128]}
    about = {**mmagen.plan(spec).facts.description, "mmagen": "0", "interface": INTERFACE_VERSION}
    calls: list[tuple[int, ...]] = []

    def run(arguments, stream):
        found = arguments.contents
        calls.append((found.m, found.n, found.k, found.lda, found.ldb, found.batch_stride_a))
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Arguments), ctypes.c_void_p)(run)
    call = Kernel(Entry("it", Path("none"), about, {"run": function}), devices=(CPU,))
    a, b = np.zeros((2, 5, 8), np.uint8), np.zeros((6, 8), np.uint8).T
    assert call(a, b).shape == (2, 5, 6)
    call._call(a, b, None, None, 1, 0, None, {})
    assert calls == [(5, 6, 16, 8, 8, 40)] * 2
    with pytest.raises(ArgumentError, match=r"b: shape \(7, 6\): 7 rows, but a has 16 columns .*, 2 to an element of b"):
        call(a, b[:7])


def test_c_may_be_out(kernel):
    a, b = ints(4, 5), laid_out(ints(5, 6), False)
    c = ints(4, 6)
    expected = 3 * (a @ b) - c
    assert (kernel()(a, b, out=c, c=c, alpha=3, beta=-1) == expected).all()


def test_scalars_from_memory(kernel):
    a, b, c = ints(4, 5), laid_out(ints(5, 6), False), ints(4, 6)
    alpha, beta = np.array([2], np.float32), np.array(3, np.float32)
    assert (kernel()(a, b, c=c, alpha=alpha, beta=beta) == 2 * (a @ b) + 3 * c).all()


@pytest.mark.parametrize("two", [2, 2.0, np.float32(2), np.float16(2), np.int64(2), np.uint8(2), Fraction(2)])
def test_numbers_of_every_kind_are_scalars(two, kernel):
    a, b, c = ints(4, 5), laid_out(ints(5, 6), False), ints(4, 6)
    assert (kernel()(a, b, c=c, alpha=two, beta=two) == 2 * (a @ b) + 2 * c).all()


TILE = r"; this kernel computes one tile: a \(4,8\), b \(8,6\)"


@pytest.mark.parametrize(
    ("changed", "argument", "says"),
    [
        ({"a": np.ones((5, 8), np.float32)}, "a", rf"\(5,8\){TILE}"),
        ({"a": np.ones((4, 9), np.float32), "b": np.ones((6, 9), np.float32).T}, "a", rf"\(4,9\){TILE}"),
        ({"b": np.ones((7, 8), np.float32).T}, "b", rf"\(8,7\){TILE}"),
        ({"b": np.ones((2, 6, 8), np.float32).swapaxes(1, 2)}, "a", f"a batch of 2, with b{TILE}"),
        ({"alpha": 2}, "alpha", "it is 2; this kernel has alpha 1"),
        ({"alpha": np.ones(1, np.float32)}, "alpha", "it is an array; this kernel has alpha 1"),
        ({"beta": 0.5, "c": np.ones((4, 6), np.float32)}, "beta", r"it is 0\.5; this kernel has beta 0"),
    ],
)
def test_a_kernel_of_one_tile_names_what_is_another(changed, argument, says, kernel):
    """Its library says what its shape is, and not which argument differs."""
    call = kernel("TN", "N", shape=[4, 6, 8])
    given = {"a": np.ones((4, 8), np.float32), "b": np.ones((6, 8), np.float32).T}
    assert (call(**given) == 8).all()
    with pytest.raises(ArgumentError, match=rf"^{argument}: {says}$") as caught:
        call(**(given | changed))
    assert caught.value.argument == argument


def test_a_stream_of_another_device_is_refused(kernel):
    """Of torch, whose streams have a device with an index, and of CuPy, where -1 is whatever device is current."""
    call = kernel("TN", "N")
    a, b, out = np.ones((4, 3), np.float32), np.ones((3, 2), np.float32, order="F"), np.full((4, 2), 7, np.float32)
    for stream, refused in (
        (SimpleNamespace(cuda_stream=0, device=SimpleNamespace(index=1)), True),
        (SimpleNamespace(ptr=0, device_id=2), True),
        (SimpleNamespace(cuda_stream=0, device=SimpleNamespace(index=0)), False),
        (SimpleNamespace(ptr=0, device_id=-1), False),
    ):
        out[:] = 7
        if refused:
            with pytest.raises(
                ArgumentError, match=r"stream: it is of device [12], a on device 0; pass a stream of that device"
            ):
                call(a, b, out, stream=stream)
        else:
            call(a, b, out, stream=stream)
        assert (out == (7 if refused else 3)).all()


def test_the_stream_and_a_workspace_arrive(kernel):
    call = kernel(workspace=True)

    class Stream:
        cuda_stream = 0x70

    class Protocol:
        def __cuda_stream__(self):
            return (0, 0x90)

    a, b = ints(4, 128), laid_out(ints(128, 6), False)
    for given, wanted in ((0x50, 0x50), (Stream(), 0x70), (Protocol(), 0x90), (None, 0)):
        call(a, b, stream=given)
        assert call._text() == f"stream {wanted} workspace 4096"
    call(a[:, :8], b[:8])
    assert call._text() == "stream 0 workspace 0"


A, B = np.ones((4, 8), np.float32), laid_out(np.ones((8, 6), np.float32), False)
_FLIPPED = np.ones((6, 8), np.float32)[::-1]
_OUT = np.zeros((4, 6), np.float32)


@pytest.mark.parametrize(
    ("arguments", "argument", "says"),
    [
        ({"a": [[1.0]]}, "a", "has neither __dlpack__ nor"),
        ({"a": A.astype(np.float64)}, "a", "elements are f64; this kernel takes f32"),
        ({"b": B.astype(np.int32)}, "b", "elements are s32; this kernel takes f32"),
        ({"a": A[0]}, "a", "has 2 or 3 dimensions"),
        ({"b": B[:7]}, "b", "7 rows, but a has 8 columns"),
        ({"a": np.asfortranarray(A)}, "a", "with K contiguous; it has M contiguous: copy it with .mT.contiguous().mT"),
        ({"b": np.ascontiguousarray(B)}, "b", "with K contiguous; it has N contiguous"),
        ({"a": np.ones((4, 16), np.float32)[:, ::2]}, "a", "with K contiguous; make it contiguous first"),
        ({"a": np.ones((4, 8), np.float32)[:, ::-1]}, "a", "strides of 0 and below are not read"),
        ({"b": _FLIPPED.T}, "b", "negative strides"),
        ({"a": np.broadcast_to(A[:1], (4, 8))}, "a", "a stride of 0"),
        ({"a": np.lib.stride_tricks.as_strided(A, (4, 8), (4, 4))}, "a", "its lines overlap"),
        (
            {"a": np.ones((2, 4, 8), np.float32), "b": np.ones((3, 6, 8), np.float32).swapaxes(1, 2)},
            "b",
            "3 matrices, but a has 2",
        ),
        ({"out": np.zeros((4, 5), np.float32)}, "out", "shape (4, 5); a @ b is (4, 6)"),
        ({"out": np.zeros((4, 6))}, "out", "elements are f64"),
        ({"out": np.zeros((6, 4), np.float32).T}, "out", "writes it with N contiguous; pass another array, with N contiguous"),
        ({"out": np.zeros((4, 6), np.float32)[::-1]}, "out", "negative strides; pass another array, with N contiguous"),
        ({"out": np.broadcast_to(np.zeros(6, np.float32), (4, 6))}, "out", "read-only"),
        ({"beta": 1}, "c", "it is None, but beta is not 0"),
        ({"beta": 1, "c": np.zeros((4, 5), np.float32)}, "c", "a @ b is (4,6)"),
        ({"beta": 1, "c": np.zeros((4, 6), np.float16)}, "c", "elements are f16"),
        ({"alpha": np.ones(2, np.float32)}, "alpha", "pass a number, or one element of f32"),
        ({"alpha": np.ones(1)}, "alpha", "of f64; pass a number"),
        ({"beta": "1"}, "beta", "it is '1'; this kernel takes a real number"),
        ({"alpha": None}, "alpha", "it is None; this kernel takes a real number"),
        ({"alpha": 2j}, "alpha", "it is 2j; this kernel takes a real number"),
        ({"alpha": np.complex64(2)}, "alpha", "this kernel takes a real number"),
        ({"alpha": [2.0]}, "alpha", "it is [2.0]; this kernel takes a real number"),
        ({"alpha": 10**400}, "alpha", "larger than any f64"),
        ({"alpha": object()}, "alpha", "has neither __dlpack__"),
        ({"stream": "default"}, "stream", "is no CUDA stream"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_taken_is_named(arguments, argument, says, kernel):
    given = {"a": A, "b": B, "out": _OUT, **arguments}
    before = _OUT.copy()
    with pytest.raises(ArgumentError) as caught:
        kernel()(**given)
    assert caught.value.argument == argument and says in str(caught.value) and str(caught.value).startswith(f"{argument}: ")
    assert (before == _OUT).all(), "memory is untouched"
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, mmagen.UsageError)


def test_an_out_that_overlaps_is_refused(kernel):
    memory = ints(4, 40)
    a, b = memory[:, :8], laid_out(ints(8, 6), False)
    for out, what in ((memory[:, 4:10], "a"), (memory[:, 20:26], "a")):
        with pytest.raises(ArgumentError, match=rf"out: its memory overlaps that of {what}"):
            kernel()(a, b, out=out)
    a = ints(4, 8)
    c = ints(5, 6)
    with pytest.raises(ArgumentError, match=r"overlaps that of c; .* out itself can be passed"):
        kernel()(a, b, out=c[:4], c=c[1:], beta=1)
    for scalar in ("alpha", "beta"):
        whole = ints(8, 6)
        with pytest.raises(ArgumentError, match=f"out: its memory overlaps that of {scalar}"):
            kernel()(a, b, out=whole[:4], c=c[:4], **{scalar: whole[3, 5:]})
        kernel()(a, b, out=whole[:4], c=c[:4], **{scalar: whole[4, :1]})
    twice = np.lib.stride_tricks.as_strided(ints(40), (2, 4, 6), (8, 24, 4))
    with pytest.raises(ArgumentError, match="elements share memory"):
        kernel()(np.stack([a, a]), b, out=twice)


def test_host_memory_is_refused_by_a_kernel_of_a_gpu(library):
    (entry,) = entries_in(library()).values()
    with pytest.raises(ArgumentError, match=r"a: it is in the memory of CPU device 0; this kernel reads GPU memory"):
        Kernel(entry)(A, B)


def test_what_the_library_refuses_is_an_exception(kernel):
    with pytest.raises(DeviceError, match="no driver: this machine has no CUDA driver") as device:
        kernel()(ints(77, 4), laid_out(ints(4, 2), False))
    assert device.value.cuda_error == 35 and isinstance(device.value, RuntimeError)
    with pytest.raises(ArgumentError, match=r"^a: lda is 4; a line") as argument:
        kernel()(ints(78, 4), laid_out(ints(4, 2), False))
    assert argument.value.argument == "a"
    assert kernel().can_run() == "" and kernel().can_run(m=77).startswith("no driver")


class Interface:
    """An array with __cuda_array_interface__ alone."""

    def __init__(self, array: np.ndarray, **changes: object):
        self.array = array
        data = (array.ctypes.data, False)
        about = {"shape": array.shape, "typestr": array.dtype.str, "data": data, "strides": array.strides, "version": 3}
        self.__cuda_array_interface__ = about | changes


def test_the_cuda_array_interface_is_read(library, monkeypatch):
    waited = []
    monkeypatch.setattr("mmagen.binding.kernel.wait_for", waited.append)
    (entry,) = entries_in(library()).values()
    call = Kernel(entry)  # such arrays are on a GPU by definition
    a, b, out = ints(4, 8), laid_out(ints(8, 6), False), np.zeros((4, 6), np.float32)
    call(Interface(a), Interface(b), out=Interface(out))
    assert (out == a @ b).all()
    call(Interface(a, strides=None), Interface(b), out=Interface(out), alpha=2)
    assert (out == 2 * a @ b).all() and waited == [0, 0], "such a library does not wait for a stream that it does not know"
    call(Interface(a), Interface(b), out=Interface(out), stream=7)
    assert waited == [0, 0]
    for changes, says in (
        ({"mask": a}, "a mask"),
        ({"strides": (33, 4)}, "not multiples of its 4-byte"),
        ({"typestr": ">f4"}, "elements are >f4"),
        ({"data": None}, "cannot be read"),
    ):
        with pytest.raises(ArgumentError, match=f"^a: .*{says}"):
            call(Interface(a, **changes), Interface(b), out=Interface(out))
    with pytest.raises(ArgumentError, match=r"^out: it is read-only"):
        call(Interface(a), Interface(b), out=Interface(out, data=(out.ctypes.data, True)))
    with pytest.raises(ArgumentError, match=r"^out: .*Interface cannot allocate arrays; pass out"):
        call(Interface(a), Interface(b))


class Driver:
    """libcuda, as far as it is called: memory above 1000 is of device 1; no device but 0 and 1."""

    def __init__(self):
        self.calls: list[str] = []

    def cuInit(self, flags):
        return 0

    def cuPointerGetAttribute(self, to, which, address):
        to._obj.value = 1
        return 0 if which == 9 and address.value > 1000 else 1

    def cuDeviceGet(self, to, device):
        to._obj.value = device
        return 0 if device < 2 else 101

    def __getattr__(self, name):
        return lambda *_: self.calls.append(name) or 0


def test_the_device_of_arrays_without_a_library_is_made_the_current_one(library, monkeypatch):
    cuda = Driver()
    monkeypatch.setattr("mmagen.binding.driver.driver", lambda: cuda)
    monkeypatch.setattr("mmagen.binding.kernel.wait_for", lambda _: cuda.calls.append("waited"))
    (entry,) = entries_in(library()).values()
    a, b, out = ints(4, 8), laid_out(ints(8, 6), False), np.zeros((4, 6), np.float32)
    assert tensor("a", Interface(a), 0).device == 1
    Kernel(entry)(Interface(a), Interface(b), out=Interface(out))
    retained, pushed, popped = "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"
    assert cuda.calls == [retained, pushed, "waited", popped, "cuDevicePrimaryCtxRelease_v2"] and (out == a @ b).all()
    cuda.calls.clear()
    with pytest.raises(ArgumentError), driver.current(1):
        raise ArgumentError("a", "x")
    with driver.current(7):
        pass
    assert cuda.calls == [retained, pushed, popped, "cuDevicePrimaryCtxRelease_v2"]
    assert driver.device_of(8) is None


class Foreign:
    """An array of a library whose transposes are copies."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**asked)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_a_transpose_of_an_array_whose_library_has_only_copies(kernel, monkeypatch):
    monkeypatch.setattr(Foreign, "__module__", "jaxlib.arrays")
    a, b = ints(2, 4, 8), ints(2, 6, 8)
    right = mmagen.transposed(Foreign(b))
    out = np.zeros((2, 4, 6), np.float32)
    kernel("TN")(Foreign(a), right, out=Foreign(out))
    assert (out == a @ b.swapaxes(1, 2)).all()
    assert mmagen.transposed(right).array is b and mmagen.transposed(a).base is a
    with pytest.raises(ArgumentError, match=r"^b: shape \(8,\): a transposed matrix"):
        kernel("TN")(Foreign(a), mmagen.transposed(Foreign(b[0, 0])), out=Foreign(out))
    with pytest.raises(ArgumentError, match=r"^array: builtins.int cannot be transposed"):
        mmagen.transposed(5)
    with pytest.raises(ArgumentError, match=r"^array: numpy\.ndarray cannot be .* array of two or more dimensions"):
        mmagen.transposed(b[0, 0])


def test_copies_are_the_kernel_and_other_processes_open_its_library(kernel, library):
    call = kernel()
    assert copy.deepcopy({"layer": call})["layer"] is call is copy.copy(call)
    opened = mmagen.open(library("TN", "N"))
    again = pickle.loads(pickle.dumps(opened))
    assert again is not opened and again.name == opened.name and again.description == opened.description
    assert again.can_run(1, 2, 3) == opened.can_run(1, 2, 3)


def test_the_export_keeps_memory_alive_and_frees_it_once(kernel):
    """A thousand calls leave no references behind."""
    a, b, out = ints(4, 8), laid_out(ints(8, 6), False), np.zeros((4, 6), np.float32)
    count = ctypes.c_ssize_t.from_address(id(a)).value
    for _ in range(1000):
        kernel()(a, b, out=out)
    assert ctypes.c_ssize_t.from_address(id(a)).value == count
