"""The compiled caller knows the types of all kernels, and takes complex arrays unless they are conjugate views."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mmagen
from mmagen.binding import fast
from mmagen.binding.kernel import Kernel
from mmagen.binding.shared_library import Entry
from mmagen.binding.tensors import CPU
from mmagen.plan.plans import ProductPlan
from tests.binding.c_functions import as_c
from tests.binding.exchange import Array, exchange_of

SPECS = sorted((Path(__file__).resolve().parents[2] / "specs").glob("*.yaml"))
M, N, K = 5, 3, 4


@pytest.fixture(autouse=True)
def arrays(monkeypatch):
    if fast._module() is None:
        pytest.skip("no C compiler or no headers of Python")
    monkeypatch.setattr(fast, "_exchange_of", exchange_of)


def recorded(spec: Path | dict[str, Any]) -> tuple[Kernel, list[Any]]:
    """A kernel that computes nothing, and the structs of its calls."""
    about = mmagen.plan(spec).facts.description
    calls: list[Any] = []
    functions = {
        "run": lambda args, stream: calls.append(args) or 0,
        "workspace_bytes": lambda args, size: 0,
        "error_text": lambda: b"",
    }
    return Kernel(Entry("it", Path("none"), about, as_c(functions, about)), devices=(CPU,)), calls


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_every_kernel_has_a_compiled_caller(spec):
    plan = mmagen.plan(spec)
    if not isinstance(plan, ProductPlan) or "a" not in plan.facts.description:
        pytest.skip("it multiplies no matrices")
    assert recorded(spec)[0]._fast is not None


def complex_call() -> dict[str, np.ndarray]:
    """Of specs/sm80_gemm_c64.yaml, which has K contiguous in A and B, and N in D."""
    return {
        "a": np.zeros((M, K + 1), complex)[:, :K],
        "b": np.zeros((N, K), complex).T,
        "out": np.zeros((M, N + 2), complex)[:, :N],
        "c": np.zeros((M, N), complex),
    }


def test_complex_arrays_take_the_compiled_way():
    kernel, calls = recorded(SPECS[0].parent / "sm80_gemm_c64.yaml")
    kernel._call = None  # type: ignore[assignment]  # what the compiled caller leaves would fail
    given = {name: Array(value) for name, value in complex_call().items()}
    assert kernel(**given, alpha=2, beta=-1) is given["out"]
    args = calls[-1]
    assert (args.m, args.n, args.k, args.batch, args.alpha, args.beta) == (M, N, K, 1, 2, -1)
    assert [getattr(args, f"ld{name}") for name in "abcd"] == [K + 1, K, N, N + 2]
    addresses = [given[name].values.ctypes.data for name in ("a", "b", "c", "out")]
    assert [getattr(args, name) for name in "abcd"] == addresses
    batch = {name: Array(np.stack([value, value])) for name, value in complex_call().items() if name in ("a", "c", "out")}
    kernel(**batch, b=given["b"], beta=1)
    assert (calls[-1].batch, calls[-1].batch_stride_a, calls[-1].batch_stride_b) == (2, M * K, 0)


@pytest.mark.parametrize("name", ["a", "b", "c", "out"])
def test_what_is_no_plain_complex_array_is_left_to_python(name):
    """Above all a conjugate view, whose memory has other values; and parts of complex numbers, which look like strided reals."""
    kernel, calls = recorded(SPECS[0].parent / "sm80_gemm_c64.yaml")
    left = object()
    kernel._call = lambda *given: left  # type: ignore[method-assign]
    values = complex_call()
    usual = {key: Array(value) for key, value in values.items()}
    assert kernel(**usual, beta=1) is not left
    calls.clear()
    for wrong in (
        Array(values[name], conjugated=True),
        Array(values[name].astype(np.complex64)),
        Array(values[name].real),
        Array(np.zeros(values[name].shape)),
    ):
        assert kernel(**{**usual, name: wrong}, beta=1) is left
    assert not calls


def test_complex_scalars_are_left_to_python():
    kernel, calls = recorded(SPECS[0].parent / "sm80_gemm_c64.yaml")
    given = {name: Array(value) for name, value in complex_call().items()}
    address = np.full(1, 2.0)
    kernel(**given, alpha=Array(address), beta=0)
    assert calls[-1].alpha_device == address.ctypes.data
    for alpha in (2j, Array(np.zeros(1, complex)), Array(np.zeros(1, np.float32))):
        assert kernel._fast(*given.values(), alpha, 0, None, {}, None) is None
    assert len(calls) == 1 and ctypes.sizeof(kernel._struct) == calls[0].struct_size
