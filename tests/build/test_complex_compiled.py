"""The judge of complex products that projects carry, emulated; and a compiled kernel called with arrays of complex numbers."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

import mmagen
from mmagen.core.templates import templates_folder
from mmagen.emulate import Device
from mmagen.host_runtime.compile import compile_program
from mmagen.host_runtime.program import run_program

pytestmark = pytest.mark.nvcc

M, N, K = 5, 37, 19


class Case(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("m", "n", "k", "positive")),
        *((name, ctypes.c_double) for name in ("alpha", "beta")),
        *((name, ctypes.c_longlong) for name in ("incorrect", "first")),
        *((name, ctypes.c_double) for name in ("max_abs_err", "bound")),
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("complex")
    (folder / "mmagen").symlink_to(templates_folder() / "runtime" / "test")
    return compile_program([Path(__file__).with_name("complex_judge.cu")], "sm_80", folder, flags=[f"-I{folder}"])


def _drawn(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)


A, B, C = _drawn(M, K), _drawn(N, K), _drawn(M, N)


def _judged(program, d: np.ndarray, alpha: float = 2.0, beta: float = -1.0) -> Case:
    memory = Device()
    stored = [memory.array(np.ascontiguousarray(x).view(np.float64)) for x in (A, B.T, C, d)]
    run = run_program(program, "judge", [*stored, bytes(Case(M, N, K, 0, alpha, beta))], memory=memory)
    assert run.ok, run.findings
    return Case.from_buffer_copy(run.outputs[-1])


def test_the_projects_judge_accepts_a_right_product(program):
    found = _judged(program, 2 * (A @ B.T) - C)
    assert not found.incorrect and 0 < found.max_abs_err <= found.bound < 1e-12


WRONG = {
    "zeros": lambda: 0 * C,
    "a conjugate A": lambda: 2 * (A.conj() @ B.T) - C,
    "a conjugate B": lambda: 2 * (A @ B.conj().T) - C,
    "a conjugate C": lambda: 2 * (A @ B.T) - C.conj(),
    "exchanged parts": lambda: 1j * (2 * (A @ B.T) - C).conj(),
    "one product of parts missing": lambda: 2 * (A @ B.T) - C - 2j * np.outer(A.imag[:, 0], B.real[:, 0]),
}


@pytest.mark.parametrize("name", WRONG)
def test_it_refuses_a_wrong_one(program, name):
    assert _judged(program, WRONG[name]()).incorrect >= M * N


def test_it_says_which_part_is_wrong(program):
    d = 2 * (A @ B.T) - C
    d[3, 4] += 1e-6j
    found = _judged(program, d)
    assert (found.incorrect, found.first) == (1, (3 * N + 4) * 2 + 1)
    assert found.max_abs_err == pytest.approx(1e-6)


@pytest.mark.parametrize("positive", [0, 1])
def test_inputs_have_two_parts_that_differ(program, positive):
    memory = Device()
    a = memory.array(np.zeros(2 * M * K))
    assert run_program(program, "fill", [a, bytes(Case(M, N, K, positive))], memory=memory).ok
    drawn = a.read().reshape(M, K, 2)
    assert (drawn != 0).all() and (abs(drawn) <= 4).all() and (drawn == np.rint(drawn)).all()
    assert (drawn[..., 0] != drawn[..., 1]).mean() > 0.5 and (drawn < 0).any()
    assert (drawn[1::2] > 0).all() == bool(positive)


SPEC = {
    "mmagen": 1,
    "name": "small_c64",
    "kernel": "gemm",
    "atom": "SM80_8x8x4_C64C64C64C64_TN",
    "layout": "TN",
    "tile": [16, 16, 4],
    "atoms_layout": [1, 1, 1],
}


def test_a_compiled_kernel_takes_complex_arrays():
    kernel = mmagen.compile(SPEC, arch="sm_80")
    assert np.allclose(kernel.emulate(A, B.T, C, alpha=2, beta=-1), 2 * (A @ B.T) - C, rtol=0, atol=1e-13)
    assert kernel.emulate(A, B.T).dtype == np.complex128
    with pytest.raises(mmagen.ArgumentError, match="a: its elements are complex64; this kernel takes complex128"):
        kernel.emulate(A.astype(np.complex64), B.T)
    with pytest.raises(mmagen.ArgumentError, match=r"alpha: it is 1j; this kernel takes a real number"):
        kernel.emulate(A, B.T, alpha=1j)
