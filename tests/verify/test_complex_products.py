"""The judge of complex products on the CPU: what it accepts, and that it refuses what is wrong."""

import numpy as np
import pytest

from mmagen.families import plan
from mmagen.spec.model import Problem, Spec
from mmagen.verify.emulated.compare import as_real, compare
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import values

PLAN = plan(
    Spec.model_validate(
        {
            "mmagen": 1,
            "name": "g",
            "kernel": "gemm",
            "atom": "SM90_16x8x4_C64C64C64C64_TN",
            "layout": "NT",
            "tile": [32, 32, 8],
            "atoms_layout": [1, 2, 1],
            "epilogue": {"major": "M"},
        }
    )
)
PROBLEM = Problem(shape=(9, 20, 33), batch=2, alpha=2, beta=-1)


def test_a_complex_b_as_a_real_matrix():
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-1, 1, (2, rows, 7, 2)) for rows in (3, 5))
    product = (a @ [1, 1j]) @ (b @ [1, 1j]).swapaxes(1, 2)
    got = a.reshape(2, 3, 14) @ as_real(b.reshape(2, 5, 14)).swapaxes(1, 2)
    assert got.shape == (2, 3, 10)
    assert np.allclose(got[..., 0::2], product.real) and np.allclose(got[..., 1::2], product.imag)


def _judged(distribution, make):
    data = operands(PLAN, PROBLEM, distribution, 3)
    a, b, c = data.a.view, data.b.view, data.c.view
    data.d.view[...] = make(a, b, c)
    return compare(PLAN, PROBLEM, data, np.ones((1, 1), bool), distribution)


def _right(a, b, c):
    return 2 * (a @ b.swapaxes(1, 2)) - c


@pytest.mark.parametrize("distribution", ["uniform", "small_int"])
def test_a_right_product_is_within_the_bound(distribution):
    found = _judged(distribution, _right)
    assert not found.reason and found.max_abs_err <= found.bound < 1e-12
    assert (found.bound > 0) == (distribution == "uniform")


WRONG = {
    "zeros": lambda a, b, c: 0 * c,
    "sums of zero": lambda a, b, c: -c,
    "a conjugate A": lambda a, b, c: _right(a.conj(), b, c),
    "a conjugate B": lambda a, b, c: _right(a, b.conj(), c),
    "a conjugate C": lambda a, b, c: _right(a, b, c.conj()),
    "exchanged parts": lambda a, b, c: 1j * _right(a, b, c).conj(),
    "real parts alone": lambda a, b, c: _right(a, b, c).real,
    "k one short": lambda a, b, c: _right(a[..., :-1], b[..., :-1], c),
    "sums in f32": lambda a, b, c: 2 * (a @ b.swapaxes(1, 2)).astype(np.complex64).astype(np.complex128) - c + 1e-9,
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("distribution", ["uniform", "small_int"])
def test_a_wrong_product_is_refused(distribution, name):
    found = _judged(distribution, WRONG[name])
    assert found.incorrect and "elements wrong" in found.reason


def test_a_message_has_the_place_of_the_part():
    def one_wrong(a, b, c):
        d = _right(a, b, c)
        d[1, 4, 6] += 1e-3j
        return d

    found = _judged("uniform", one_wrong)
    assert found.incorrect == 1 and "at (batch,m,n,part): (1, 4, 6, 1)" in found.reason


def test_both_parts_are_drawn():
    data = operands(PLAN, PROBLEM, "small_int", 3)
    drawn = values(data.a)
    assert drawn.shape == (2, 9, 66) and (drawn != 0).all() and (drawn < 0).any()
    assert (drawn[:, 1::2] > 0).all()  # odd rows: sums as long as they may be
