"""Arrays of CuPy and JAX on a GPU: matrices, batches, strides, streams, and the order of what these libraries do themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mmagen

pytestmark = [pytest.mark.nvcc, pytest.mark.gpu]

ROOT = Path(__file__).resolve().parents[2]
# One of each layout of the operands and of D.
SPECS = ("fma_gemm_f32", "sm80_gemm_f16_col_d", "sm90_gemm_bf16_tn", "sm90_gemm_bf16_library", "sm90_gemm_e4m3")
PROBLEMS = ((64, 48, 32, None), (70, 56, 40, None), (1, 64, 128, None), (128, 96, 64, 3), (513, 776, 1032, None))


@pytest.fixture(scope="module")
def compiled():
    known: dict[str, mmagen.Kernel] = {}

    def made(spec: str) -> mmagen.Kernel:
        if spec not in known:
            known[spec] = mmagen.compile(ROOT / f"specs/{spec}.yaml")
        if why := known[spec].can_run(128, 128, 128):
            pytest.skip(why)
        return known[spec]

    return made


@pytest.fixture(params=("cupy", "jax"))
def xp(request, monkeypatch):
    """The module of arrays. JAX has as much memory as it needs, not all that is free."""
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return pytest.importorskip("cupy") if request.param == "cupy" else pytest.importorskip("jax.numpy")


def dtype_of(word: str):
    from mmagen.verify.emulated.formats import storage

    return np.dtype(storage(word))


def operand(xp, about, values, last: str):
    """`values` (..., rows, columns) on the GPU, with the kernel's contiguous mode."""
    typed = values.astype(dtype_of(about["type"]))
    if about["contiguous"] == last:
        return xp.asarray(typed)
    return mmagen.transposed(xp.asarray(np.ascontiguousarray(typed.swapaxes(-1, -2))))


def host(array) -> np.ndarray:
    if hasattr(array, "array"):  # the transpose of a JAX array
        return host(array.array).swapaxes(-1, -2)
    return np.asarray(array.get() if hasattr(array, "get") else array).astype(np.float32)


def integers(dice, *shape: int) -> np.ndarray:
    return dice.integers(-2, 3, shape).astype(np.float32)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("spec", SPECS)
def test_a_call_equals_numpy(spec, problem, xp, compiled):
    kernel = compiled(spec)
    if xp.__name__ == "cupy" and spec == "sm90_gemm_e4m3":
        pytest.skip("CuPy has no 8-bit floats")
    m, n, k, batch = problem
    head = () if batch is None else (batch,)
    dice = np.random.default_rng(1)
    a, b = integers(dice, *head, m, k), integers(dice, *head, k, n)
    about = kernel.description
    d = kernel(operand(xp, about["a"], a, "K"), operand(xp, about["b"], b, "N"))
    # Sums of small integers are exact but for their rounding to D's type.
    assert np.array_equal(host(d), (a @ b).astype(dtype_of(about["d"]["type"])).astype(np.float32))


def test_what_the_library_does_before_and_after_is_in_order(xp, compiled):
    """Long work that makes the operands, the kernel, and a sum that needs its result."""
    kernel = compiled("sm90_gemm_bf16_tn")
    size = 4096
    ones = xp.ones((size, size), dtype_of("bf16"))
    for _ in range(3):
        a = ones
        for _ in range(20):
            a = a * 2 - a
        d = kernel(a, mmagen.transposed(a))
        total = (d - size).astype(np.float32).sum()
        assert float(total) == 0


def test_cupy_strides_and_streams(compiled):
    cupy = pytest.importorskip("cupy")
    kernel = compiled("sm80_gemm_bf16_tn")
    dice = np.random.default_rng(2)
    a, b = integers(dice, 3, 70, 40), integers(dice, 3, 40, 50)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        wide = cupy.zeros((3, 70, 48), dtype_of("bf16"))
        wide[..., :40] = cupy.asarray(a.astype(wide.dtype))
        right = operand(cupy, kernel.description["b"], b, "N")
        d = kernel(wide[..., :40], right)
        twice = kernel(wide[..., :40], right, c=d, beta=1)
        assert np.array_equal(host(twice), 2 * (a @ b))
    explicit = kernel(wide[..., :40], right, stream=stream)
    stream.synchronize()
    assert np.array_equal(host(explicit), a @ b)
    with pytest.raises(mmagen.ArgumentError, match="a: shape"):
        kernel(wide[..., ::-1], right)


def test_jax_needs_transposed_for_a_column_major_operand(compiled):
    jnp = pytest.importorskip("jax.numpy")
    kernel = compiled("sm90_gemm_bf16_tn")
    a = jnp.ones((64, 64), dtype_of("bf16"))
    with pytest.raises(mmagen.ArgumentError, match=r"in JAX mmagen.transposed"):
        kernel(a, a)
    assert float(kernel(a, mmagen.transposed(a)).sum()) == 64**3
