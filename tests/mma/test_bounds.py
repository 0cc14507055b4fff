"""Error bounds: no right kernel exceeds them, and what is wrong does (docs/error-bounds.md)."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate.arithmetic import mma, numerics
from mmagen.emulate.arithmetic.fragments import fragment_of, gather_index
from mmagen.mma.accumulation import Accumulation, loosest
from mmagen.mma.bounds import drift, path_of
from mmagen.verify.emulated.formats import decode, encode
from tests.emulate.test_recorded import ENTRIES, FORMS
from tests.support.ptx_replay import inputs_of, outputs_of

SIZE = 24
# What tensor cores do: (type of A and B, bits of the alignment, products aligned at once, format of the sum).
HARDWARE = {
    "Volta": ("f16", 23, 4, "f32"),
    "Volta f16": ("f16", 23, 4, "f16"),
    "Ampere": ("bf16", 24, 8, "f32"),
    "Ampere f16": ("f16", 24, 8, "f16"),
    "Ampere tf32": ("tf32", 24, 4, "f32"),
    "Hopper": ("f16", 25, 16, "f32"),
    "Hopper tf32": ("tf32", 25, 8, "f32"),
    "Hopper f16": ("f16", 25, 16, "f16"),
    "Ada e4m3": ("e4m3", 13, 16, "few"),
    "Hopper e4m3": ("e4m3", 13, 32, "few"),
    "Hopper e5m2": ("e5m2", 13, 32, "few"),
    "Hopper e4m3 f16": ("e4m3", 13, 32, "f16"),
}
KEPT = {"f32": 23, "f16": 10, "few": 13}
DEPTHS = [1, 3, 16, 40, 256, 2048, pytest.param(16384, marks=pytest.mark.more)]


def summed(a, b, aligned: int, chunk: int, sums: str, total=None):
    """A B^T as a tensor core adds: a [m, k], b [n, k]; total: the accumulators before."""
    total = np.zeros((len(a), len(b))) if total is None else total
    for first in range(0, a.shape[1], chunk):
        left, right = a[:, None, first : first + chunk], b[None, :, first : first + chunk]
        powers = np.frexp(left)[1] + np.frexp(right)[1] - 2
        powers = np.where((left == 0) | (right == 0), -200, powers)
        largest = np.maximum(powers.max(axis=2), np.where(total == 0, -200, np.frexp(total)[1] - 1))
        unit = np.ldexp(1.0, largest - aligned)
        exact = np.trunc(left * right / unit[..., None]).sum(axis=2) + np.trunc(total / unit)
        total = rounded(exact * unit, sums)
    return total


def rounded(x, sums: str):
    if sums == "f16":
        return numerics.to_float64(numerics.from_float64(x, "f16"), "f16")
    codes = numerics.truncated_f32(x)
    return numerics.to_float64(codes & np.uint32(0xFFFFFC00) if sums == "few" else codes, "f32")


def inputs(word: str, k: int, positive: bool, seed: int):
    rng = np.random.default_rng(seed)
    drawn = rng.uniform(-1, 1, (2, SIZE, k))
    if positive:
        drawn[:, 1::2] = np.abs(drawn[:, 1::2])
    return [decode(encode(x, word)) for x in drawn]


def symmetric(positive: bool):
    both = np.zeros((SIZE, SIZE), bool)
    both[1::2, 1::2] = positive
    return ~both


@pytest.mark.parametrize("k", DEPTHS)
@pytest.mark.parametrize("name", HARDWARE)
def test_no_tensor_core_exceeds_its_bound(name, k):
    word, aligned, chunk, sums = HARDWARE[name]
    a, b = inputs(word, k, False, k)
    of = Accumulation(aligned, chunk, KEPT[sums], nearest=sums == "f16")
    exact, magnitude, path = path_of(of, a, b)
    error = np.abs(summed(a, b, aligned, chunk, sums) - exact)
    assert (error <= drift(of, k, path, magnitude, True)).all()


@pytest.mark.parametrize("k", DEPTHS)
@pytest.mark.parametrize("tile", [64, 128])
@pytest.mark.parametrize("word", ["e4m3", "e5m2"])
def test_promoted_sums_stay_within_their_bound(word, tile, k):
    a, b = inputs(word, k, True, k)
    of = Accumulation(13, 32, 13, nearest=False, promoted=tile)
    exact, magnitude, path = path_of(of, a, b)
    total = np.zeros_like(exact)
    for first in range(0, k, tile):
        part = slice(first, first + tile)
        total = decode(encode(total + summed(a[:, part], b[:, part], 13, 32, "few"), "f32"))
    error, bound = np.abs(total - exact), drift(of, k, path, magnitude, symmetric(True))
    assert (error <= bound).all()
    ones = ~symmetric(True)  # where all products have one sign
    if k >= 256:
        # Sums of a single tile are no better than fast ones; of several, none of them hides in the bound.
        assert bound[ones].max() < 50 * error[ones].max() and (bound[ones] < exact[ones] * tile / k).all()


RECORDED = [
    (f"mma.sync.aligned.m16n8k{k}.row.col.f32.{word}.{word}.f32", k)
    for word, depths in (("f16", (8, 16)), ("bf16", (8, 16)), ("tf32", (4, 8)))
    for k in depths
]


@pytest.mark.parametrize(("opcode", "k"), RECORDED)
def test_an_h200_keeps_25_bits_of_16_bit_products(opcode, k):
    """Bit for bit; the warps of ordinary numbers, and of widely spread ones."""
    form, entry = FORMS[opcode], ENTRIES[opcode]
    given, recorded = inputs_of(form, entry["input"]), outputs_of(form, entry["output"])
    parsed = mma.parse(tuple(opcode.split(".")[1:]))
    a, b, c, d = (
        matrices(table[:, first : first + count], parsed.layouts[n], shape)
        for n, table, first, count, shape in (
            (1, given, 0, form.counts[1], (16, k)),
            (2, given, form.counts[1], form.counts[2], (k, 8)),
            (3, given, sum(form.counts[1:3]), form.counts[3], (16, 8)),
            (0, recorded, 0, form.counts[0], (16, 8)),
        )
    )
    for warp in (1, 2):
        left, right = (mma.values_of(x[warp], parsed.types[1]) for x in (a, b))
        found = summed(left, right.T, 25, k, "f32", numerics.to_float64(c[warp], "f32"))
        np.testing.assert_array_equal(found, numerics.to_float64(d[warp], "f32"))


def matrices(registers, layout, shape):
    """Codes [warp, row, column] of a fragment from [thread, register]."""
    bits = fragment_of(*layout).bits
    table = np.ascontiguousarray(registers.reshape(-1, 32, registers.shape[1]).transpose(0, 2, 1)).astype(np.uint32)
    packed = table.reshape(len(table), -1).view(f"u{bits // 8}")
    return packed.take(gather_index(*layout), axis=1).reshape(-1, *shape)


@pytest.mark.parametrize(("turns", "shuffled"), [(2, False), (1, True)])
def test_other_orders_stay_within_their_bound(turns, shuffled):
    """The last k tile first, and every other k block in accumulators of its own."""
    k, tile = 1000, 64
    a, b = inputs("f16", k, False, 5)
    of = Accumulation(25, 16, 10, nearest=True, turns=turns, shuffled=shuffled)
    exact, magnitude, path = path_of(of, a, b)
    places = np.arange(k)
    if shuffled:
        slices = [places[places // 16 % 2 == n] for n in (0, 1)]
        total = rounded(sum(summed(a[:, one], b[:, one], 25, 16, "f16") for one in slices), "f16")
    else:
        order = np.roll(places, k % tile)
        total = summed(a[:, order], b[:, order], 25, 16, "f16")
    assert (np.abs(total - exact) <= drift(of, k, path, magnitude, True)).all()


def test_the_loosest_of_several_kernels_holds_for_each():
    several = [
        Accumulation(25, 16, 23, nearest=False),
        Accumulation(0, 1, 23, nearest=True, turns=2),
        Accumulation(24, 8, 23, nearest=False, shuffled=True),
    ]
    a, b = inputs("f16", 300, False, 2)
    common = loosest(several)
    assert common == Accumulation(24, 1, 23, nearest=False, turns=2, shuffled=True)
    for of in several:
        assert (bound_of(of, a, b) <= bound_of(common, a, b)).all()
    assert loosest([Accumulation(13, 32, 13, False, promoted=p) for p in (64, 128)]).promoted == 0


def bound_of(of: Accumulation, a, b):
    _, magnitude, path = path_of(of, a, b)
    return drift(of, a.shape[1], path, magnitude, True)
