"""Activation functions of epilogues, compiled by nvcc and emulated, against float64: the errors that docs/epilogue.md states."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from mmagen.core.process import capture
from mmagen.emulate import Output, ReadOnly, run_ptx
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.epilogue import gelu, sigmoid

pytestmark = pytest.mark.nvcc

_HEADERS = Path(__file__).resolve().parents[2] / "templates" / "runtime"
U = 2.0**-24
_THREADS = 256
_UNIT = """\
#include "mmagen/activations.cuh"
extern "C" __global__ void all(float const* x, float* erf, float* tanh, float* sigmoid, float* erf5, float* erf4) {
  int const i = blockIdx.x * blockDim.x + threadIdx.x;
  erf[i] = mmagen::detail::gelu_erf<6>(x[i]);
  erf5[i] = mmagen::detail::gelu_erf<5>(x[i]);
  erf4[i] = mmagen::detail::gelu_erf<4>(x[i]);
  tanh[i] = mmagen::detail::gelu_tanh(x[i]);
  sigmoid[i] = mmagen::detail::sigmoid(x[i]);
}
extern "C" __global__ void all_f64(double const* x, double* erf, double* tanh, double* sigmoid) {
  int const i = blockIdx.x * blockDim.x + threadIdx.x;
  erf[i] = mmagen::detail::gelu_erf<6>(x[i]);
  tanh[i] = mmagen::detail::gelu_tanh(x[i]);
  sigmoid[i] = mmagen::detail::sigmoid(x[i]);
}
"""


def _arguments():
    """Every 2^11th float of both signs up to 2^8 and a denormal, all around the minimum, and what is not finite."""
    bits = np.arange(0x00000001, 0x43800000, 2048, dtype=np.uint32)
    dense = np.arange(np.float32(0.7517).view(np.uint32), np.float32(0.7519).view(np.uint32), dtype=np.uint32)
    found = np.concatenate((bits, dense)).view(np.float32)
    found = np.concatenate((found, -found, np.array([0, np.inf, -np.inf, np.nan, 3e38, -3e38], np.float32)))
    return np.resize(found, -(-found.size // _THREADS) * _THREADS)


@pytest.fixture(scope="module", params=["sm_75", "sm_90a"])
def compiled_functions(request, tmp_path_factory):
    """The PTX of both kernels."""
    toolchain = find_toolchain(want=COMPILE)
    source = tmp_path_factory.mktemp("activations") / "all.cu"
    source.write_text(_UNIT)
    ptx = source.with_suffix(".ptx")
    folders = [f"-I{_HEADERS}", f"-I{toolchain.cutlass.path}"]
    command = [toolchain.nvcc.path, "-ptx", "-O3", "-std=c++17", "--expt-relaxed-constexpr", f"-arch={request.param}"]
    done = capture([*command, *folders, source, "-o", ptx], timeout_s=300)
    assert done.exit_code == 0, done.stderr
    return ptx.read_text()


def _run(ptx, entry, x, count):
    """The `count` functions of x that the kernel computes: gelu by erf, gelu by tanh, the sigmoid, and others."""
    outputs = [Output(x.shape, x.dtype) for _ in range(count)]
    launched = run_ptx(ptx, entry, [ReadOnly(x), *outputs], grid=x.size // _THREADS, block=_THREADS, checks=False)
    return [launched.arrays[place] for place in range(1, 1 + count)]


@pytest.fixture(scope="module")
def computed(compiled_functions):
    """x, then gelu by erf, gelu by tanh and the sigmoid of x, and gelu by erf with polynomials of degrees 5 and 4."""
    x = _arguments()
    return x, _run(compiled_functions, "all", x, 5)


def test_gelu_by_erf_is_within_6_u_x(computed):
    """The emulator's ex2 is exact. With the error that PTX allows it, 2^-22 of Q, at most 1/2, 2 u x are added."""
    x, (found, *_) = computed
    finite = np.isfinite(x)
    x, found = x[finite].astype(np.float64), found[finite]
    error = np.abs(found - gelu(x, "erf"))
    assert np.all(error <= 4 * U * np.abs(x) + 2.0**-126)
    assert np.max(error[x != 0] / np.abs(x[x != 0])) > 2 * U  # a test of nothing would see less


@pytest.mark.parametrize(("place", "degree"), [(3, 5), (4, 4)])
def test_gelu_for_fewer_bits_is_within_the_error_of_its_polynomial(computed, place, degree):
    """Relative to the result, up to where that is tiny: 6e-5 and 6.5e-4, an eighth and a sixth of the roundoff of f16 and bf16."""
    x, found = computed[0], computed[1][place]
    finite = np.isfinite(x)
    x, found = x[finite].astype(np.float64), found[finite]
    exact = gelu(x, "erf")
    error = np.abs(found - exact)
    of_value, of_argument = {5: (6e-5, 2.0**-28), 4: (6.5e-4, 2.0**-24)}[degree]
    assert np.all(error <= of_value * np.abs(exact) + (of_argument + 4 * U) * np.abs(x) + 2.0**-126)
    large = np.abs(exact) > 2.0**-6 * np.abs(x)
    assert np.max(error[large] / np.abs(exact[large])) > of_value / 2


def test_gelu_by_tanh_and_sigmoid_are_within_what_exp_allows(computed):
    x, (_, tanh, logistic, _, _) = computed
    finite = np.isfinite(x)
    x, tanh, logistic = x[finite].astype(np.float64), tanh[finite], logistic[finite]
    argument = np.minimum(1.6 * np.abs(x) * (1 + 0.08 * x * x), 128)
    least = 2.0**-126 * (1 + np.abs(x))
    assert np.all(np.abs(tanh - gelu(x, "tanh")) <= (4 * argument + 24) * U * np.abs(gelu(x, "tanh")) + least)
    argument = np.minimum(np.abs(x), 128)
    assert np.all(np.abs(logistic - sigmoid(x)) <= (4 * argument + 24) * U * sigmoid(x) + least)


def test_what_is_not_finite_stays_so(computed):
    x, (found, tanh, logistic, *short) = computed
    for one in short:
        assert np.all(np.isnan(one[np.isnan(x)])) and np.all(one[x == np.inf] == np.inf) and np.all(one[x == -np.inf] == 0)
    assert np.all(np.isnan(found[np.isnan(x)])) and np.all(np.isnan(tanh[np.isnan(x)]))
    assert np.all(found[x == np.inf] == np.inf) and np.all(tanh[x == np.inf] == np.inf)
    assert np.all(found[x == -np.inf] == 0) and np.all(logistic[x == -np.inf] == 0)
    assert math.isnan(logistic[np.isnan(x)][0])


def test_in_f64_they_are_as_near_as_its_roundings(compiled_functions):
    x = np.concatenate((np.linspace(-9, 9, 32 * _THREADS - 2), [0.0, 1e-300]))
    erf, tanh, logistic = _run(compiled_functions, "all_f64", x, 3)
    u = 2.0**-53
    slack = 2.0**-50  # of the reference itself
    assert np.all(np.abs(erf - gelu(x, "erf")) <= (6 * u + slack) * np.abs(x))
    argument = 1.6 * np.abs(x) * (1 + 0.08 * x * x)
    assert np.all(
        np.abs(tanh - gelu(x, "tanh")) <= ((4 * argument + 24) * u + slack) * np.abs(gelu(x, "tanh")) + slack * np.abs(x)
    )
    assert np.all(np.abs(logistic - sigmoid(x)) <= (4 * np.abs(x) + 24) * u * sigmoid(x) + slack * np.abs(x))
