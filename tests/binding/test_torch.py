"""torch's tensors through the compiled caller: it does what kernel.py does, and leaves to it what it must."""

from __future__ import annotations

import ctypes
import importlib.util
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import mmagen
from mmagen.binding.errors import ArgumentError
from mmagen.binding.kernel import Kernel
from mmagen.binding.shared_library import Entry
from mmagen.binding.tensors import CPU
from tests.binding.c_functions import as_c

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fast(kernel):
    call = kernel("TN", "N", workspace=True)
    assert call._fast is not None
    return call._fast


def ints(*shape: int):
    return torch.randint(-4, 5, shape).float()


def weights(*shape: int):
    """(..., K, N) with K contiguous."""
    return ints(*shape[:-2], shape[-1], shape[-2]).mT


def test_the_compiled_caller_computes_what_matmul_does(fast):
    dice = random.Random(1)
    for _ in range(200):
        m, n, k = (dice.choice([1, 2, 5, 16, 33]) for _ in range(3))
        batch = dice.choice([None, 1, 2, 3])
        a = ints(m, k) if batch is None or dice.random() < 0.3 else ints(dice.choice([1, batch]), m, k)
        b = weights(k, n) if batch is None or dice.random() < 0.3 else weights(dice.choice([1, batch]), k, n)
        if dice.random() < 0.3:
            a = ints(*a.shape[:-1], k + 3)[..., 1 : k + 1]
        wanted = a @ b
        c = ints(*wanted.shape)
        out = dice.choice([None, torch.empty(wanted.shape), torch.empty((*wanted.shape[:-1], n + 2))[..., :n]])
        alpha, beta = dice.choice([1, 2.0, -3]), dice.choice([0, 1, 0.5])
        d = fast(
            a, b, out, c if beta else None, alpha, beta, dice.choice([None, 0, 7, SimpleNamespace(cuda_stream=7)]), {}, None
        )
        assert d is not None and (out is None or d is out)
        assert torch.equal(d, alpha * wanted + (beta * c if beta else 0))


def test_a_column_major_d_is_made_with_its_strides(kernel):
    fast = kernel("TN", "M", workspace=True)._fast
    for shape in ((5, 7), (1, 7), (5, 1), (3, 5, 7)):
        a, b = ints(*shape[:-1], 4), weights(*shape[:-2], 4, shape[-1])
        d = fast(a, b, None, None, 1, 0, None, {}, None)
        assert d is not None and d.shape == shape and d.mT.is_contiguous() and torch.equal(d, a @ b)
        assert torch.equal(fast(a, b, d, d, 1, 1, None, {}, None), 2 * (a @ b))


def test_what_is_unusual_is_left_alone(fast):
    """None, and nothing was done: kernel.py computes it, or says what is wrong."""
    a, b, out = ints(4, 8), weights(8, 6), torch.zeros(4, 6)
    shared = ints(4, 20)
    cases = [
        (a.double(), b, out), (a, b.double(), out), (a, b[:7], out), (a[0], b, out), (a.mT.contiguous().mT, b, out),
        (a, b.contiguous(), out), (a[:0], b, out), (ints(1, 8).expand(4, 8), b, out), (a, b, torch.zeros(4, 7)),
        (a, b, torch.zeros(4, 6, dtype=torch.float64)), (a, b, torch.zeros(6, 4).mT), (shared[:, :8], b, shared[:, 6:12]),
        (torch.nn.Parameter(a), b, out), (a.numpy(), b, out), (a, b.numpy(), out), (a, b, out.numpy()), ([1], b, out),
        (ints(2, 4, 8), weights(3, 8, 6), None), (ints(2, 4, 8), b, torch.zeros(4, 6)), (torch.zeros(4, 16)[:, ::2], b, out),
        (torch.zeros(4, 8, dtype=torch.complex64).conj().imag, b, out), (a.to_sparse(), b, out),
        (torch._neg_view(a), b, out), (a.clone().requires_grad_(), b, out),
        (ints(77, 8), b, None),
    ]  # fmt: skip
    for one in cases:
        assert fast(*one, None, 1, 0, None, {}, None) is None, [getattr(value, "shape", value) for value in one]
    for more in (
        (None, 1, 1, None),
        (out, "1", 0, None),
        (out, 1, None, None),
        (None, 1, 0, "stream"),
        (None, 1, 0, -1),
        (ints(4, 5), 1, 1, None),
    ):
        assert fast(a, b, out, *more, {}, None) is None
    assert (out == 0).all() and (shared == shared).all()
    with torch.no_grad():
        assert fast(torch.nn.Parameter(a, requires_grad=False), b, None, None, 1, 0, None, {}, None) is not None


def test_a_gradient_is_refused_and_without_one_a_parameter_is_taken(kernel):
    a, b = torch.nn.Parameter(ints(4, 8)), weights(8, 6)
    with pytest.raises(ArgumentError, match=r"a: it requires a gradient, .* pass it \.detach\(\)ed"):
        kernel()(a, b)
    with torch.no_grad():
        assert torch.equal(kernel()(a, b), a @ b)
    with pytest.raises(ArgumentError, match=r"^a: it is no plain strided tensor"):
        kernel()(a.detach().to_sparse(), b)
    with pytest.raises(ArgumentError, match=r"^a: its elements are torch\.complex64"):
        kernel()(a.detach().to(torch.complex64), b)
    with pytest.raises(ArgumentError, match=r"^a: it is in the memory of DLPack device type -1"):
        kernel()(a.detach().to("meta"), b)


def test_column_major_results_are_torchs(kernel):
    a, b = ints(2, 4, 8), weights(8, 6)
    d = kernel("TN", "M")(a, b)
    assert torch.equal(d, a @ b) and d.stride() == (24, 1, 4)


def test_calls_leave_no_references(kernel):
    a, b, out = ints(4, 128), weights(128, 6), torch.zeros(4, 6)
    call = kernel("TN", "N", workspace=True)
    counts = [sys.getrefcount(one) for one in (a, b, out, None)]
    for _ in range(500):
        call(a, b, out)
        call(a, b)
        call(a, b, out.numpy())
    assert [sys.getrefcount(one) for one in (a, b, out)] == counts[:3]


def test_numpy_beside_torch(kernel):
    a, b = ints(4, 8), weights(8, 6)
    out = torch.zeros(4, 6).numpy()
    assert kernel()(a, b.numpy(), out=out) is out and (torch.from_numpy(out) == a @ b).all()


def test_the_custom_op_is_compiled(kernel):
    """The example, with the compiler's front ends, which need no GPU."""
    spec = importlib.util.spec_from_file_location("torch_custom_op", ROOT / "examples/torch_custom_op.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    op = example.custom_op("host_gemm", kernel())
    a, weight = ints(5, 8), ints(6, 8)

    def layer(a, weight):
        return torch.relu(op(a, weight.T)) * 2

    wanted = torch.relu(a @ weight.T) * 2
    assert torch.equal(layer(a, weight), wanted)
    assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(a, weight), wanted)
    for given in ((a, weight.T), (ints(3, 5, 8), weight.T), (a, weights(3, 8, 6)), (ints(1, 5, 8), weights(3, 8, 6))):
        torch.library.opcheck(op, given, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("major", ["N", "M"])
def test_results_of_lists_are_made_by_torch(major, monkeypatch):
    """Where groups have matrices of their own, some of them without rows or columns."""
    memory = torch.zeros(1 << 16, dtype=torch.uint8)
    functions = (None, lambda size, stream: memory.data_ptr(), lambda address: None, 0, 0)
    monkeypatch.setattr("mmagen.binding.fast._no_functions", lambda: functions)
    spec = ROOT / "specs/sm90_gemm_bf16_pointers.yaml"
    about = mmagen.plan({**yaml.safe_load(spec.read_text()), "epilogue": {"out": "bf16", "major": major}}).facts.description
    pointers: list[int] = []

    def run(args, stream):
        pointers[:] = (ctypes.c_uint64 * args.batch).from_address(args.d)
        return 0

    library = as_c({"run": run, "workspace_bytes": lambda args, size: 0}, about)
    call = Kernel(Entry("lists", Path("none"), about, library), devices=(CPU,))
    shapes = [(70, 24, 64), (0, 8, 8), (9, 0, 8), (9, 16, 0), (1, 8, 24)]
    a = [torch.zeros(m, k, dtype=torch.bfloat16) for m, _, k in shapes]
    b = [torch.zeros(n, k, dtype=torch.bfloat16).mT for _, n, k in shapes]
    found = call._fast(a, b, None, None, 1, 0, None, {}, None)
    assert [one.shape for one in found] == [(m, n) for m, n, _ in shapes]
    assert [one.data_ptr() for one in found] == pointers
    assert all((one if major == "N" else one.mT).is_contiguous() and one.dtype == torch.bfloat16 for one in found)
    counts = [sys.getrefcount(one) for one in (*a, *b)]
    for _ in range(100):
        call._fast(a, b, None, None, 1, 0, None, {}, None)
        assert call._fast(a, [*b[:4], b[0]], None, None, 1, 0, None, {}, None) is None
    assert [sys.getrefcount(one) for one in (*a, *b)] == counts
