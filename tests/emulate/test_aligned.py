"""Sums of 8-bit floats lose the bits that Hopper's tensor cores do not keep, whatever else the operands hold."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate.arithmetic import aligned, wgmma

SMALL = 2.0**-7  # its square, 2^-14, is one bit below the last bit kept beside 1
FORM = wgmma.parse(("mma_async", "sync", "aligned", "m64n8k32", "f32", "e4m3", "e4m3"))


def operands(groups: int = 2):
    """A and B: each sum has one product of 1 and 31 products too small to be kept beside it."""
    a, b = np.full((groups, wgmma.M, FORM.k), SMALL), np.full((groups, FORM.n, FORM.k), SMALL)
    a[..., 0] = b[..., 0] = 1
    return a, b


def product(a, b, before=None):
    """D as floats; before: the accumulator's values."""
    start = None if before is None else before.astype(np.float32).view(np.uint32)
    return wgmma.multiply(FORM, a, b, start).view(np.float32)


def test_addends_far_below_the_largest_are_lost():
    a, b = operands()
    assert aligned.KEPT == 13 and (product(a, b) == 1).all()
    a[..., 0] = 0  # nothing is large
    assert (product(a, b) == 31 * SMALL**2).all()
    assert (product(a, b, np.ones((2, wgmma.M, FORM.n))) == 1).all()  # the accumulator is
    assert (product(0 * a, b, np.full((2, wgmma.M, FORM.n), 0.5)) == 0.5).all()
    large = np.full((2, wgmma.M, FORM.n), 2.0**19)
    assert (product(np.ones_like(a), np.ones_like(b), large) == large).all()  # integers, which lie below its last bit


@pytest.mark.parametrize("what", [np.nan, np.inf])
@pytest.mark.parametrize("place", ["a", "b", "before"])
def test_what_is_not_finite_reaches_its_own_sums_alone(what, place):
    a, b = operands()
    before = np.zeros((2, wgmma.M, FORM.n))
    reached = np.zeros(before.shape, bool)
    if place == "a":
        a[0, 3, 5], reached[0, 3] = what, True
    elif place == "b":
        b[0, 2, 5], reached[0, :, 2] = what, True
    else:
        before[0, 3, 2], reached[0, 3, 2] = what, True
    found = product(a, b, before)
    assert (found[~reached] == 1).all()
    assert (np.isnan(found[reached]) if np.isnan(what) else found[reached] == np.inf).all()


def test_nan_in_one_group_does_not_change_others():
    a, b = operands(4)
    a[2:] = b[3] = np.nan
    found = product(a, b)
    assert (found[:2] == 1).all() and np.isnan(found[2:]).all()


def test_integers_are_exact():
    a, b = operands()
    a[...], b[...] = 3.0, -2.0
    a[1, 0, 0] = np.nan
    found = product(a, b, np.full((2, wgmma.M, FORM.n), 100.0))
    assert (found[0] == 100 - 6 * FORM.k).all() and np.isnan(found[1, 0]).all() and (found[1, 1:] == found[0, 1:]).all()
