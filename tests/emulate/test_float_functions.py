"""Arithmetic on all 16-bit floats against numpy and ml_dtypes; functions, directed roundings and comparisons at their edges."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.support.ptx_lanes import each

ALL = np.arange(1 << 16, dtype=np.uint16)
TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
# -0, -1.5, largest, smallest subnormal, -infinity, NaN, by f16 and bf16
PARTNERS = {
    "f16": (0x8000, 0xBE00, 0x7BFF, 1, 0xFC00, 0x7E01),
    "bf16": (0x8000, 0xBFC0, 0x7F7F, 1, 0xFF80, 0x7FC1),
}
F32 = np.array(
    [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x3F800001, 0x40490FDB, 0x7E800000, 0x7E800001, 0x7F000000, 0x7F7FFFFF, 0x7F800000,
     0x7FC00001, 0x34000000, 0x4B800001, 0x00400000, 0x3EAAAAAB, 0x447A0000],
    dtype=np.uint32,
)  # fmt: skip
F32 = np.concatenate((F32, F32 | 0x80000000))


def canonical(values: np.ndarray, kind: str) -> np.ndarray:
    return np.where(np.isnan(values.astype(np.float64)), np.uint16(0x7FFF), values.astype(TYPES[kind]).view(np.uint16))


@pytest.mark.parametrize("kind", TYPES)
def test_sums_products_and_fma_of_halves(kind):
    a = ALL.view(TYPES[kind])
    for code in PARTNERS[kind]:
        b = np.array([code], np.uint16).view(TYPES[kind])
        with np.errstate(all="ignore"):
            expected = {"add": a + b, "sub": a - b, "mul": a * b}
            wide = a.astype(np.float64) * b.astype(np.float64) + 1.0
        partner = np.array([code], np.uint16)
        for name, values in expected.items():
            got = each(f"{name}.{kind} %o, %a, %b;", "b16", ("b16", ALL), ("b16", partner))
            np.testing.assert_array_equal(got, canonical(values, kind), err_msg=f"{name} {code:#x}")
        if kind == "bf16":
            continue  # ml_dtypes rounds float64 twice; test_numerics has bf16's fma
        one = np.array([0x3C00], np.uint16)
        got = each(f"fma.rn.{kind} %o, %a, %b, %c;", "b16", ("b16", ALL), ("b16", partner), ("b16", one))
        with np.errstate(all="ignore"):
            exact = np.abs(wide) < 2.0**40  # float64 holds these sums
            np.testing.assert_array_equal(got[exact], canonical(wide.astype(TYPES[kind]), kind)[exact])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["min", "max"])
def test_smaller_and_larger_halves(name, kind):
    with np.errstate(invalid="ignore"):
        a = ALL.view(TYPES[kind]).astype(np.float64)
        key = np.where(np.isnan(a), 0, np.where(ALL & 0x8000, -(ALL & 0x7FFF).astype(int) - 1, ALL.astype(int)))
    for code in PARTNERS[kind]:
        b = float(np.array([code], np.uint16).view(TYPES[kind])[0])
        other = -(code & 0x7FFF) - 1 if code & 0x8000 else code
        first = key < other if name == "min" else key > other
        chosen = np.where(first, ALL, np.uint16(code))
        chosen = np.where(np.isnan(a), np.uint16(0x7FFF if b != b else code), np.where(b != b, ALL, chosen))
        partner = ("b16", np.array([code], np.uint16))
        np.testing.assert_array_equal(each(f"{name}.{kind} %o, %a, %b;", "b16", ("b16", ALL), partner), chosen)
        got = each(f"{name}.NaN.{kind} %o, %a, %b;", "b16", ("b16", ALL), partner)
        np.testing.assert_array_equal(got, np.where(np.isnan(a) | (b != b), 0x7FFF, chosen))
        got = each(f"{name}.xorsign.abs.{kind} %o, %a, %b;", "b16", ("b16", ALL), partner)
        magnitude = np.minimum(ALL & 0x7FFF, code & 0x7FFF) if name == "min" else np.maximum(ALL & 0x7FFF, code & 0x7FFF)
        signed = magnitude | ((ALL ^ code) & 0x8000)
        usable = ~np.isnan(a) & (b == b)
        np.testing.assert_array_equal(got[usable], signed[usable])


@pytest.mark.parametrize("name, function", [("ex2.approx", np.exp2), ("tanh.approx", np.tanh)])
def test_functions_of_halves(name, function):
    with np.errstate(all="ignore"):
        expected = {kind: canonical(function(ALL.view(t).astype(np.float64)).astype(t), kind) for kind, t in TYPES.items()}
    np.testing.assert_array_equal(each(f"{name}.f16 %o, %a;", "b16", ("b16", ALL)), expected["f16"])
    pair = each(f"{name}.f16x2 %o, %a;", "b32", ("b32", ALL.astype(np.uint32) << 16 | ALL[::-1]))
    np.testing.assert_array_equal(pair >> 16, expected["f16"])
    np.testing.assert_array_equal(pair & 0xFFFF, expected["f16"][::-1])
    ftz = ".ftz" if name.startswith("ex2") else ""
    got = each(f"{name}{ftz}.bf16 %o, %a;", "b16", ("b16", ALL))
    tiny = (expected["bf16"] & 0x7F80 == 0) | (ALL & 0x7F80 == 0)
    np.testing.assert_array_equal(got[~tiny], expected["bf16"][~tiny])


# Directed roundings, by their definition


def _exact(name: str, values: tuple[float, ...]) -> Fraction | None:
    """The exact result; None where it is special, or a square root."""
    if not all(map(math.isfinite, values)):
        return None
    a, *rest = map(Fraction, values)
    if name == "rcp":
        return 1 / a if a else None
    if name == "div":
        return a / rest[0] if rest[0] else None
    return {"add": lambda: a + rest[0], "mul": lambda: a * rest[0], "fma": lambda: a * rest[0] + rest[1]}[name]()


def _holds(result: float, exact: Fraction, how: str, after: type[np.floating]) -> bool:
    """Whether a result is what the rounding of an exact number gives."""
    if how == "rz":
        how = "rm" if exact > 0 else "rp"
    toward = -math.inf if how == "rm" else math.inf
    if math.isinf(result):
        return result == toward and (exact > 0) == (result > 0) and abs(exact) > float(np.finfo(after).max)
    if how == "rm":
        above = float(np.nextafter(after(result), after(math.inf)))
        return Fraction(result) <= exact and (math.isinf(above) or exact < Fraction(above))
    below = float(np.nextafter(after(result), after(-math.inf)))
    return Fraction(result) >= exact and (math.isinf(below) or exact > Fraction(below))


@pytest.mark.parametrize("how", ["rz", "rm", "rp"])
@pytest.mark.parametrize("kind, name, count", [
    ("f32", "div", 2), ("f32", "rcp", 1), ("f64", "add", 2), ("f64", "mul", 2), ("f64", "fma", 3), ("f64", "div", 2),
    ("f64", "rcp", 1)])  # fmt: skip
def test_directed_roundings(kind, name, count, how):
    rng = np.random.default_rng(3)
    after = np.float32 if kind == "f32" else np.float64
    with np.errstate(all="ignore"):
        pool = F32.view(np.float32).astype(after)
    if kind == "f64":
        extremes = np.array([2.0**-1074, -(2.0**-1022), 1.7e308, -1.7e308, 2.0**-540, 1 / 3])
        pool = np.concatenate((pool[np.isfinite(pool)], extremes))
    operands = [rng.choice(pool, 800) for _ in range(count)]
    given = [(kind, x.view(f"u{x.itemsize}")) for x in operands]
    got = each(f"{name}.{how}.{kind} %o, {', '.join(('%a', '%b', '%c')[:count])};", f"b{kind[1:]}", *given).view(after)
    checked = 0
    for result, *values in zip(got.tolist(), *(x.tolist() for x in operands), strict=True):
        exact = _exact(name, tuple(values))
        if exact:
            with np.errstate(over="ignore"):
                right = _holds(result, exact, how, after)
            assert right, (values, result)
            checked += 1
    assert checked > 200


def test_directed_square_roots():
    values = np.array([2.0, 3.0, 4.0, 1e-300, 5e-324, 1.7e308, 0.1])
    for how in ("rz", "rm", "rp"):
        got = each(f"sqrt.{how}.f64 %o, %a;", "b64", ("f64", values.view(np.uint64))).view(np.float64).tolist()
        for x, root in zip(values.tolist(), got, strict=True):
            other = math.nextafter(root, -math.inf if how == "rp" else math.inf)
            low, high = sorted((Fraction(root) ** 2, Fraction(other) ** 2))
            assert Fraction(root) ** 2 == Fraction(x) or low < Fraction(x) < high
    roots = each("sqrt.rp.f32 %o, %a;", "b32", ("f32", np.array([0x40000000, 0x40800000, 0xBF800000], np.uint32)))
    assert roots.tolist() == [0x3FB504F4, 0x40000000, 0x7FFFFFFF]


def test_exact_zeros_are_negative_when_rounded_down():
    one, minus = (np.array([x]).view(np.uint64) for x in (1.0, -1.0))
    for how, expected in (("rm", 1 << 63), ("rp", 0), ("rz", 0)):
        assert each(f"add.{how}.f64 %o, %a, %b;", "b64", ("f64", one), ("f64", minus)).tolist() == [expected]
        assert each(f"fma.{how}.f64 %o, %a, %b, %a;", "b64", ("f64", one), ("f64", minus)).tolist() == [expected]


# Approximations at special values

INF, MINUS_INF, NAN, TINY, LARGE = 0x7F800000, 0xFF800000, 0x7FFFFFFF, 0x00000005, 0x7F000000


@pytest.mark.parametrize(
    "instruction, operands, expected",
    [
        ("rcp.approx.f32 %o, %a;", (TINY,), INF),
        ("rcp.approx.ftz.f32 %o, %a;", (0x80400000,), MINUS_INF),
        ("rcp.approx.ftz.f32 %o, %a;", (LARGE,), 0),
        ("rcp.rn.f32 %o, %a;", (LARGE,), 0x00400000),
        ("rsqrt.approx.ftz.f32 %o, %a;", (TINY,), INF),
        ("rsqrt.approx.f32 %o, %a;", (0x80000000,), MINUS_INF),
        ("rsqrt.approx.f32 %o, %a;", (0xBF800000,), NAN),
        ("sqrt.approx.ftz.f32 %o, %a;", (0x80400000,), 0x80000000),
        ("lg2.approx.ftz.f32 %o, %a;", (TINY,), MINUS_INF),
        ("lg2.approx.f32 %o, %a;", (0xBF800000,), NAN),
        ("ex2.approx.f32 %o, %a;", (MINUS_INF,), 0),
        ("ex2.approx.ftz.f32 %o, %a;", (0xC3000000,), 0),
        ("ex2.approx.f32 %o, %a;", (0xC3000000,), 0x00200000),
        ("sin.approx.f32 %o, %a;", (INF,), NAN),
        ("tanh.approx.f32 %o, %a;", (INF,), 0x3F800000),
        ("div.approx.f32 %o, %a, %b;", (0x3F800000, 0x7E800001), 0),
        ("div.approx.f32 %o, %a, %b;", (0xBF800000, 0x7F000000), 0x80000000),
        ("div.approx.f32 %o, %a, %b;", (INF, 0x7F000000), NAN),
        ("div.approx.f32 %o, %a, %b;", (0x40000000, 0x7E800000), 0x01000000),
        ("div.full.f32 %o, %a, %b;", (0x7F000000, 0x7F000000), 0x3F800000),
        ("div.rn.ftz.f32 %o, %a, %b;", (TINY, TINY), NAN),
        ("mad.rn.f32 %o, %a, %b, %a;", (0x40000000, 0x40400000), 0x41000000),
        ("min.xorsign.abs.f32 %o, %a, %b;", (0xC0000000, 0x40400000), 0xC0000000),
        ("max.xorsign.abs.f32 %o, %a, %b;", (0xC0000000, 0xC0400000), 0x40400000),
        ("slct.ftz.f32.f32 %o, %a, %b, %b;", (0x3F800000, 0x80000001), 0x3F800000),
        ("slct.f32.f32 %o, %a, %b, %b;", (0x3F800000, 0x80000001), 0x80000001),
        ("setp.eq.ftz.f32 %p1, %a, %b; selp.f32 %o, %a, %b, %p1;", (TINY, 0x00000007), TINY),
        ("setp.eq.f32 %p1, %a, %b; selp.f32 %o, %a, %b, %p1;", (TINY, 0x00000007), 0x00000007),
        ("testp.subnormal.f32 %p1, %a; testp.normal.f32 %p2, %b; and.pred %p1, %p1, %p2; selp.f32 %o, %a, %b, %p1;",
         (TINY, 0x3F800000), TINY),
    ],
)  # fmt: skip
def test_special_values(instruction, operands, expected):
    got = each(instruction, "f32", *(("f32", np.array([x], np.uint32)) for x in operands))
    assert got.tolist() == [expected], f"{got[0]:#x}"


def test_f64_reciprocals_have_their_upper_half():
    values = np.array([3.0, 2.0**-1030, -0.0, 4.0])
    got = each("rcp.approx.ftz.f64 %o, %a;", "b64", ("f64", values.view(np.uint64)))
    assert got.tolist() == [0x3FD5555500000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x3FD0000000000000]


# Comparisons of halves and pairs


def test_comparisons_with_values_as_results():
    a, b = np.array([0x3C00, 0x7E00, 0xBC00], np.uint16), np.array([0x3C00, 0x3C00, 0x3C00], np.uint16)
    halves = ("b16", a), ("b16", b)
    assert each("set.eq.f16.f16 %o, %a, %b;", "b16", *halves).tolist() == [0x3C00, 0, 0]
    assert each("set.neu.u32.f16 %o, %a, %b;", "b32", *halves).tolist() == [0, 0xFFFFFFFF, 0xFFFFFFFF]
    body = "setp.lt.f16 %p1, %a, 0x0000; set.eq.or.f32.f16 %o, %a, %b, %p1;".replace("0x0000", "%b")
    assert each(body, "f32", *halves).tolist() == [0x3F800000, 0, 0x3F800000]
    pairs = ("b32", np.array([0x3C004000], np.uint32)), ("b32", np.array([0x40003C00], np.uint32))
    assert each("set.gt.f16x2.f16x2 %o, %a, %b;", "b32", *pairs).tolist() == [0x00003C00]
    assert each("set.lt.u32.bf16x2 %o, %a, %b;", "b32", *pairs).tolist() == [0xFFFF0000]
    body = "setp.gt.f16x2 %p1|%p2, %a, %b; selp.b32 %r2, 1, 0, %p1; selp.b32 %r3, 2, 0, %p2; or.b32 %o, %r2, %r3;"
    assert each(body, "b32", *pairs).tolist() == [1]


# Integers


@pytest.mark.parametrize(
    "instruction, operands, expected",
    [
        ("add.s16x2 %o, %a, %b;", (0x7FFFFFFF, 0x00010001), 0x80000000),
        ("min.s16x2 %o, %a, %b;", (0x00058000, 0xFFFF0001), 0xFFFF8000),
        ("max.s16x2.relu %o, %a, %b;".replace("s16x2.relu", "relu.s16x2"), (0xFFFE0005, 0xFFFF0001), 0x00000005),
        ("max.u16x2 %o, %a, %b;", (0xFFFE0005, 0x00010009), 0xFFFE0009),
        ("bmsk.clamp.b32 %o, %a, %b;", (4, 8), 0xFF0),
        ("bmsk.wrap.b32 %o, %a, %b;", (36, 33), 0x10),
        ("bmsk.clamp.b32 %o, %a, %b;", (4, 99), 0xFFFFFFF0),
        ("szext.wrap.s32 %o, %a, %b;", (0x0000008F, 8), 0xFFFFFF8F),
        ("szext.clamp.u32 %o, %a, %b;", (0xFFFFFF8F, 8), 0x8F),
        ("szext.clamp.s32 %o, %a, %b;", (0x80000001, 40), 0x80000001),
        ("fns.b32 %o, %a, %b, 2;", (0b1011000, 2), 4),
        ("fns.b32 %o, %a, %b, -1;", (0b1011000, 5), 4),
        ("fns.b32 %o, %a, %b, 0;", (0b1011000, 4), 4),
        ("fns.b32 %o, %a, %b, 5;", (0b1011000, 0), 0xFFFFFFFF),
        ("mad.hi.sat.s32 %o, %a, %b, %b;", (0x7FFFFFFF, 0x7FFFFFFF), 0x7FFFFFFF),
        ("mad.hi.s32 %o, %a, %b, %b;", (0x7FFFFFFF, 0x7FFFFFFF), 0xBFFFFFFE),
    ],
)
def test_integers(instruction, operands, expected):
    got = each(instruction, "b32", *(("b32", np.array([x], np.uint32)) for x in operands))
    assert got.tolist() == [expected], f"{got[0]:#x}"
