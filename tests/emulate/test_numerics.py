"""The emulator's number formats and roundings, against numpy, ml_dtypes and rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arithmetic.numerics import FORMATS
from mmagen.emulate.errors import EmulationError
from tests.support.ptx import run

INDEPENDENT = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}
SMALLEST = {name: Fraction(2) ** (form.exponent_min - form.mantissa) for name, form in FORMATS.items()}


def all_codes(name):
    bits = FORMATS[name].bits
    return np.arange(1 << bits).astype({8: np.uint8, 16: np.uint16}[bits])


def nearest_places(exact: Fraction, name: str) -> tuple[Fraction, Fraction]:
    """The numbers of the format's unbounded grid on either side of a magnitude."""
    quotient = exact / SMALLEST[name] / 2 ** (FORMATS[name].mantissa + 1)
    unit = SMALLEST[name] * 2 ** math.floor(quotient).bit_length()
    below = exact // unit * unit
    return below, below + unit if below != exact else below


def rounded(exact: Fraction, name: str, rounding: str) -> float:
    """exact rounded, by the definition of each rounding; zero comes out positive."""
    form, negative = FORMATS[name], exact < 0
    below, above = nearest_places(abs(exact), name)
    middle = (below + above) / 2
    unit = above - below
    if rounding in ("rn", "rna"):
        even = unit == 0 or (below / unit) % 2 == 0
        up = abs(exact) > middle or (abs(exact) == middle and (rounding == "rna" or not even))
    else:
        up = rounding == ("rm" if negative else "rp")
    magnitude = above if up else below
    limit = Fraction(form.largest)
    if magnitude > limit:
        inward = rounding == "rz" or rounding == ("rp" if negative else "rm")
        return math.copysign(form.largest if inward else math.inf, -1 if negative else 1)
    return float(-magnitude if negative else magnitude)


def interesting(name: str, rng) -> np.ndarray:
    """float64 values that decide roundings: codes, middles, their neighbours, ends, and random ones."""
    form = FORMATS[name]
    exponents = rng.integers(form.exponent_min - form.mantissa - 2, math.frexp(form.largest)[1] + 2, 300)
    grid = rng.integers(0, 2 << form.mantissa, 300) + rng.choice([0.0, 0.25, 0.5, 0.75], 300)
    values = np.ldexp(grid, exponents - form.mantissa)
    values = np.concatenate((values, np.nextafter(values, np.inf), np.nextafter(values, 0)))
    ends = [form.largest, np.nextafter(form.largest, np.inf), form.largest * (1 + 2.0 ** -(form.mantissa + 2))]
    ends += [form.largest * (1 + 2.0 ** -(form.mantissa + 1)), 2 * form.largest, float(SMALLEST[name]) / 2, 0.0]
    values = np.concatenate((values, ends))
    return np.concatenate((values, -values))


@pytest.mark.parametrize("name", INDEPENDENT)
def test_every_code_has_its_value_and_comes_back(name):
    codes = all_codes(name)
    with np.errstate(invalid="ignore"):
        expected = codes.view(INDEPENDENT[name]).astype(np.float64)
    values = numerics.to_float64(codes, name)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(np.signbit(values)[~np.isnan(values)], np.signbit(expected)[~np.isnan(values)])
    back = numerics.from_float64(values, name)
    np.testing.assert_array_equal(back[~np.isnan(values)], codes[~np.isnan(values)])
    assert (back[np.isnan(values)] == FORMATS[name].nan).all()


@pytest.mark.parametrize("name", INDEPENDENT)
def test_rounding_to_nearest_agrees_with_the_libraries_next_to_every_code(name):
    codes = all_codes(name)
    values = numerics.to_float64(codes, name)
    values = np.unique(values[np.isfinite(values)]).astype(np.float32)
    middles = ((values[1:].astype(np.float64) + values[:-1]) / 2).astype(np.float32)
    around = np.concatenate([f(middles) for f in (lambda v: v, lambda v: np.nextafter(v, np.float32(np.inf)))])
    around = np.concatenate((around, np.nextafter(middles, np.float32(-np.inf)), np.float32([np.inf, -np.inf])))
    expected = around.astype(INDEPENDENT[name])
    result = numerics.to_float64(numerics.from_float64(around.astype(np.float64), name), name)
    np.testing.assert_array_equal(result, expected.astype(np.float64))


@pytest.mark.parametrize("rounding", numerics.ROUNDINGS)
@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "f32", "e5m2"])
def test_every_rounding_follows_its_definition(name, rounding):
    values = interesting(name, np.random.default_rng(7))
    result = numerics.to_float64(numerics.from_float64(values, name, rounding), name)
    expected = np.array([rounded(Fraction(float(v)), name, rounding) for v in values])
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(values))


@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "e4m3", "e5m2"])
def test_satfinite_ends_at_the_largest_number(name):
    form = FORMATS[name]
    values = np.array([np.inf, -np.inf, 1e300, -form.largest * 1.2, form.largest, 1.0, np.nan])
    result = numerics.to_float64(numerics.from_float64(values, name, saturate=True), name)
    np.testing.assert_array_equal(result, [form.largest, -form.largest] * 2 + [form.largest, 1.0, np.nan])


def test_e4m3_has_no_infinity():
    codes = numerics.from_float64(np.array([np.inf, -1e9, 448.0, 464.0, 465.0]), "e4m3")
    assert [int(c) & 0x7F for c in codes] == [0x7F, 0x7F, 0x7E, 0x7E, 0x7F]


def test_tf32_ignores_the_low_bits():
    assert numerics.to_float64(np.array([0x3F801FFF], np.uint32), "tf32")[0] == 1.0


def test_tf32_to_nearest_away_is_integer_arithmetic():
    """On finite numbers the rounding of that name; NaN keeps its upper bits, as recorded on an H200."""
    values = interesting("tf32", np.random.default_rng(3))
    values = values[np.abs(values) < 2.0**127].astype(np.float32)
    expected = numerics.from_float64(values.astype(np.float64), "tf32", "rna")
    np.testing.assert_array_equal(numerics.tf32_ties_away(values.view(np.uint32)), expected)
    special = np.array([0x7F800000, 0x7F800001, 0xFFC12345, 0x7FC00000, 0x7F7FFFFF, 0x7FFFFFFF], np.uint32)
    expected = [0x7F800000, 0x7F800000, 0xFFC12000, 0x7FC00000, 0x7F800000, 0x7FFFE000]
    np.testing.assert_array_equal(numerics.tf32_ties_away(special), expected)
    finite = numerics.tf32_ties_away(special[[0, 4]], saturate=True)
    np.testing.assert_array_equal(numerics.to_float64(finite, "tf32"), [FORMATS["tf32"].largest] * 2)
    assert numerics.from_float64(np.array([np.nan]), "tf32", "rz")[0] == 0x7FFFE000


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_64_bit_integers_become_f64_rounded_as_they_say(rounding):
    rng = np.random.default_rng(9)
    edges = np.array([0, 1, 2**53 + 1, 2**54 + 2, 2**54 + 6, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 2**53 - 1], np.uint64)
    random = rng.integers(0, 2**64, 200, dtype=np.uint64) >> rng.integers(0, 12, 200, dtype=np.uint64)
    integers = np.concatenate((edges, random))
    for signed in (False, True):
        kind = "s64" if signed else "u64"
        body = f"ld.global.u64 %rd8, [%rd3]; cvt.{rounding}.f64.{kind} %fd1, %rd8; st.global.f64 [%rd4], %fd1;"
        result = run(body, threads=len(integers), data=integers)[0].view(np.float64)
        exact = integers.view(np.int64) if signed else integers
        np.testing.assert_array_equal(result, [rounded(Fraction(int(x)), "f64", rounding) for x in exact])


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_nan_becomes_zero_or_the_highest_bit(kind, source):
    """PTX ISA, "cvt": zero unless 64 bits are on either side; recorded on an H200 for most pairs."""
    bits = int(kind[1:])
    register, code = ("%f1", "0f7FC00000") if source == "f32" else ("%fd1", "0d7FF8000000000000")
    target = {16: "%rs1", 32: "%r9", 64: "%rd9"}[bits]
    body = f"mov.{source} {register}, {code}; cvt.rni.{kind}.{source} {target}, {register}; "
    result = run(body + f"st.global.u{bits} [%rd4], {target};", threads=1)[0].view(f"u{bits // 8}")[0]
    assert result == (1 << (bits - 1) if "64" in (kind[1:], source[1:]) else 0)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_relu_gives_no_negative_zero(kind):
    body = f"mov.f32 %f1, 0f80000000; cvt.rn.relu.{kind}.f32 %rs1, %f1; st.global.u16 [%rd4], %rs1;"
    assert run(body, threads=1)[0].view(np.uint16)[0] == 0


def test_wide_registers_lose_what_lies_above_the_format():
    assert numerics.to_float64(np.array([0xFFFF3C00], np.uint32), "f16")[0] == 1.0
    assert numerics.to_float64(np.array([0xFFFF3F80], np.uint32), "bf16")[0] == 1.0
    assert numerics.to_float64(np.array([0xFF38], np.uint32), "e4m3")[0] == 1.0


def codes32(values):
    return np.asarray(values, np.float32).view(np.uint32)


def nasty_f32(rng, count):
    """Codes of f32: ends, subnormals, powers of two and their neighbours, mixed at random."""
    special = [0, 1, 0x7FFFFF, 0x800000, 0x800001, 0x7F7FFFFF, 0x7F7FFFFE, 0x3F800000, 0x3F800001, 0x3F7FFFFF]
    pool = np.array(special + [s | 0x80000000 for s in special], np.uint32)
    ends = rng.choice([0, 1, 2, 0x400000, 0x7FFFFF, 0x7FFFFE], count)
    near = (rng.integers(64, 190, count) << 23 | ends).astype(np.uint32)
    anything = rng.integers(0, 0x7F800000, count).astype(np.uint32) | rng.integers(0, 2, count).astype(np.uint32) << 31
    return np.choose(rng.integers(0, 3, count), (rng.choice(pool, count), near, anything))


def exact_fma(a, b, c, name):
    return [
        Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        for x, y, z in zip(*(numerics.to_float64(v, name) for v in (a, b, c)), strict=True)
    ]


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_fma_f32_is_rounded_once(rounding):
    rng = np.random.default_rng(11)
    a, b, c = (nasty_f32(rng, 4000) for _ in range(3))
    # Products that nearly cancel, and sums half-way between two numbers but for a far smaller addend.
    with np.errstate(over="ignore"):
        near = -(a[:2000].view(np.float32) * b[:2000].view(np.float32))
    c[:2000] = np.where(np.isfinite(near), near, 0).astype(np.float32).view(np.uint32)
    a[2000:3000], b[2000:3000] = codes32([1 + 2.0**-12] * 1000), codes32([1 + 2.0**-12] * 1000)
    c[2000:3000] = codes32(np.ldexp(rng.choice([-1.0, 1.0], 1000), rng.integers(-149, 3, 1000)))
    result = numerics.to_float64(numerics.fma(a, b, c, "f32", rounding), "f32")
    expected = [rounded(e, "f32", rounding) for e in exact_fma(a, b, c, "f32")]
    np.testing.assert_array_equal(result, expected)


def test_fma_f32_alone_takes_the_quick_way_and_is_right_too():
    rng = np.random.default_rng(12)
    a, b, c = (codes32(rng.standard_normal(4000)) for _ in range(3))
    for part in np.split(np.arange(4000), 100):
        result = numerics.to_float64(numerics.fma(a[part], b[part], c[part], "f32"), "f32")
        expected = [rounded(e, "f32", "rn") for e in exact_fma(a[part], b[part], c[part], "f32")]
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_fma_on_16_bit_formats_is_rounded_once(name):
    rng = np.random.default_rng(13)
    a, b, c = (rng.integers(0, 1 << 16, 4000).astype(np.uint16) for _ in range(3))
    finite = np.all([np.isfinite(numerics.to_float64(v, name)) for v in (a, b, c)], axis=0)
    a, b, c = a[finite], b[finite], c[finite]
    result = numerics.to_float64(numerics.fma(a, b, c, name), name)
    np.testing.assert_array_equal(result, [rounded(e, name, "rn") for e in exact_fma(a, b, c, name)])


def float_of(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def test_fma_f64_is_rounded_once():
    rng = np.random.default_rng(14)
    mantissas = rng.choice([1.0, 1 + 2.0**-52, 2 - 2.0**-52, 1.5, 1 + 2.0**-26, 1 / 3], (3, 6000))
    usual, extreme = rng.integers(-60, 60, (3, 6000)), rng.integers(-1074, 1023, (3, 6000))
    exponents = np.where(rng.random((3, 6000)) < 0.8, usual, extreme)
    a, b, c = np.ldexp(mantissas * rng.choice([-1, 1], (3, 6000)), exponents)
    with np.errstate(all="ignore"):
        c[:2000] = np.where(np.isfinite(a[:2000] * b[:2000]), -(a[:2000] * b[:2000]), 0)
        c[2000:3000] = np.ldexp(a[2000:3000] * b[2000:3000], -53)
    c[~np.isfinite(c)] = 1.0
    expected = [float_of(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(numerics.fma_f64(a, b, c), expected)
    # Of usual sizes alone, for which no number is looked at by itself.
    near = (np.abs([a, b, c]).max(axis=0) < 2.0**100) & (np.abs([a, b]).min(axis=0) > 2.0**-100)
    assert 3000 < near.sum() < 6000
    np.testing.assert_array_equal(numerics.fma_f64(a[near], b[near], c[near]), np.array(expected)[near])


def test_fma_f64_of_numbers_that_f32_holds_broadcasts():
    rng = np.random.default_rng(15)
    a, b = (rng.uniform(-1, 1, shape).astype(np.float32).astype(np.float64) for shape in ((5, 1), (1, 7)))
    c = rng.uniform(-1, 1, (5, 7)) * 2.0 ** rng.integers(-60, 60, (5, 7))
    expected = [[float(Fraction(a[i, 0]) * Fraction(b[0, j]) + Fraction(c[i, j])) for j in range(7)] for i in range(5)]
    np.testing.assert_array_equal(numerics.fma_f64(a, b, c), expected)
    finer = a + 2.0**-40  # not of f32
    expected = [[float(Fraction(finer[i, 0]) * Fraction(b[0, j]) + Fraction(c[i, j])) for j in range(7)] for i in range(5)]
    np.testing.assert_array_equal(numerics.fma_f64(finer, b, c), expected)


def test_fma_of_zeros_infinities_and_nan():
    inf, nan = np.inf, np.nan
    cases = [(0, 5, -0.0, 0.0), (-0.0, 5, -0.0, -0.0), (inf, 0, 1, nan), (inf, 1, -inf, nan), (inf, 2, 1, inf)]
    cases += [(nan, 1, 1, nan), (1, 1, inf, inf), (0, 0, 1e-310, 1e-310), (1, 1, -1, 0.0)]
    a, b, c, expected = (np.array(column, np.float64) for column in zip(*cases, strict=True))
    result = numerics.fma_f64(a, b, c)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result[:2]), [False, True])
    codes = numerics.fma(codes32(a), codes32(b), codes32(c), "f32")
    expected = codes32(expected)
    expected[np.isnan(numerics.to_float64(expected, "f32"))] = 0x7FFFFFFF
    np.testing.assert_array_equal(codes, expected)


def test_exactly_cancelled_sums_are_minus_zero_only_when_rounding_down():
    one, minus = codes32([1.0]), codes32([-1.0])
    for rounding, expected in (("rn", 0), ("rz", 0), ("rp", 0), ("rm", 0x80000000)):
        assert numerics.fma(one, one, minus, "f32", rounding)[0] == expected
        assert numerics.add(one, minus, "f32", rounding)[0] == expected
    zero = codes32([0.0])
    assert numerics.add(zero, zero, "f32", "rm")[0] == 0


def test_add_and_mul_agree_with_numpy():
    rng = np.random.default_rng(15)
    a, b = nasty_f32(rng, 4000), nasty_f32(rng, 4000)
    with np.errstate(all="ignore"):
        total, product = (f(a.view(np.float32), b.view(np.float32)).view(np.uint32) for f in (np.add, np.multiply))
        wide = np.add(*(v.view(np.float32).astype(np.float64) for v in (a, b))).view(np.uint64)
    np.testing.assert_array_equal(numerics.add(a, b, "f32"), total)
    np.testing.assert_array_equal(numerics.mul(a, b, "f32"), product)
    widened = [v.view(np.float32).astype(np.float64).view(np.uint64) for v in (a, b)]
    np.testing.assert_array_equal(numerics.add(*widened, "f64"), wide)
    np.testing.assert_array_equal(numerics.mul(codes32([np.nan]), a[:1], "f32"), [0x7FFFFFFF])


@pytest.mark.parametrize("rounding", ["rz", "rm", "rp"])
def test_add_and_mul_with_directed_roundings(rounding):
    rng = np.random.default_rng(16)
    a, b = nasty_f32(rng, 2000), nasty_f32(rng, 2000)
    left, right = ([Fraction(float(x)) for x in v.view(np.float32)] for v in (a, b))
    for function, results in (
        (numerics.add, [x + y for x, y in zip(left, right, strict=True)]),
        (numerics.mul, [x * y for x, y in zip(left, right, strict=True)]),
    ):
        expected = [rounded(e, "f32", rounding) for e in results]
        np.testing.assert_array_equal(numerics.to_float64(function(a, b, "f32", rounding), "f32"), expected)


def test_ftz_flushes_inputs_and_results():
    smallest, normal, half = codes32([2.0**-149]), codes32([-(2.0**-126)]), codes32([0.5])
    assert numerics.mul(normal, half, "f32")[0] == 0x80400000
    assert numerics.mul(normal, half, "f32", ftz=True)[0] == 0x80000000
    assert numerics.add(smallest, smallest, "f32", ftz=True)[0] == 0
    assert numerics.fma(half, half, smallest, "f32", ftz=True)[0] == codes32([0.25])[0]


def test_sat_clamps_to_zero_and_one_and_loses_nan():
    values = codes32([-1.0, 0.25, 7.0, np.nan, -0.0])
    zero = codes32([0.0] * 5)
    np.testing.assert_array_equal(numerics.add(values, zero, "f32", sat=True), codes32([0, 0.25, 1, 0, 0]))


def test_truncated_f32():
    ends = [2.0**128 - 2.0**100, 2.0**128, -np.inf, np.nan, 2.0**-150]
    values = np.array([1 + 2.0**-24, -1 - 2.0**-23 - 2.0**-24, *ends])
    expected = [0x3F800000, 0xBF800001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FFFFFFF, 0]
    np.testing.assert_array_equal(numerics.truncated_f32(values), np.array(expected, np.uint32))


@pytest.mark.parametrize(
    "call",
    [
        lambda: numerics.to_float64(np.zeros(1, np.uint8), "ue8m0"),
        lambda: numerics.from_float64(np.zeros(1), "e3m2"),
        lambda: numerics.from_float64(np.zeros(1), "f16", "rs"),
        lambda: numerics.fma(*[np.zeros(1, np.uint64)] * 3, "f64", "rz"),
        lambda: numerics.add(*[np.zeros(1, np.uint64)] * 2, "f64", "rz"),
        lambda: numerics.mul(*[np.zeros(1, np.uint64)] * 2, "f64", sat=True),
    ],
)
def test_what_is_not_emulated_says_so(call):
    with pytest.raises(EmulationError, match=r"e3m2|ue8m0|\.rs|emulated with \.rn only"):
        call()


@pytest.mark.parametrize(
    ("name", "dtype", "shift"),
    [("e3m2", ml_dtypes.float6_e3m2fn, 0), ("e2m3", ml_dtypes.float6_e2m3fn, 0), ("e2m1", ml_dtypes.float4_e2m1fn, 2)],
)
def test_elements_of_4_and_6_bits_in_a_byte_are_those_of_ml_dtypes(name, dtype, shift):
    codes = np.arange(1 << ml_dtypes.finfo(dtype).bits, dtype=np.uint8)
    assert np.array_equal(numerics.to_float64(codes << shift, name), codes.view(dtype).astype(np.float64))
