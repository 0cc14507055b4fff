"""What arithmetic instructions compute, against Python's integers and numpy's floats."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.support.ptx import run

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
EDGES = (0, 1, 2, 3, 5, 31, 32, 33, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, M32)


def s32(x: int) -> int:
    return (x & M32) - ((x & 0x80000000) << 1)


def s64(x: int) -> int:
    return (x & M64) - ((x & (1 << 63)) << 1)


def pairs() -> np.ndarray:
    """uint32[n, 2]: all pairs of edge values, and random ones."""
    edges = [(a, b) for a in EDGES for b in EDGES]
    random = np.random.default_rng(7).integers(0, 1 << 32, (151, 2))
    return np.array(edges + random.tolist(), dtype=np.uint32)


def compute(instruction: str, inputs: np.ndarray) -> list[int]:
    """%r4 (or %rd9) as integers, of an instruction over %r2 and %r3 (%f2, %f3 are the same bits)."""
    wide = "%rd9" in instruction
    body = f"""
        ld.global.v2.u32 {{%r2, %r3}}, [%rd3]; mov.b32 %f2, %r2; mov.b32 %f3, %r3;
        {instruction}
        st.global.{"u64" if wide else "u32"} [%rd4], {"%rd9" if wide else "%r4"};
    """
    out, report = run(body, threads=len(inputs), data=inputs, out_bytes=8 * len(inputs))
    assert not report.findings
    return [int(x) & (M64 if wide else M32) for x in (out.view("u8") if wide else out.view("u4")[::2])]


def trunc_div(a: int, b: int) -> int:
    return -1 if b == 0 else int(Fraction(a, b))


def bfe(a: int, start: int, length: int, signed: bool) -> int:
    start, length = start & 255, length & 255
    if length == 0:
        return 0
    top = min(start + length - 1, 31)
    sign = (a >> top) & 1 if signed else 0
    return sum(((a >> (i + start)) & 1 if i < length and i + start < 32 else sign) << i for i in range(32))


def prmt(a: int, b: int, selector: int) -> int:
    pool = (b << 32 | a).to_bytes(8, "little")
    result = 0
    for n in range(4):
        nibble = selector >> 4 * n & 15
        byte = pool[nibble & 7]
        result |= ((0xFF if byte & 0x80 else 0) if nibble & 8 else byte) << 8 * n
    return result


def dot(a: int, b: int, signed_a: bool, signed_b: bool) -> int:
    values = [[x - 256 * (x > 127) if s else x for x in v.to_bytes(4, "little")] for v, s in ((a, signed_a), (b, signed_b))]
    return sum(x * y for x, y in zip(*values, strict=True))


INTEGERS = {
    "add.s32 %r4, %r2, %r3;": lambda a, b: a + b,
    "add.sat.s32 %r4, %r2, %r3;": lambda a, b: max(-(1 << 31), min((1 << 31) - 1, s32(a) + s32(b))),
    "sub.u32 %r4, %r2, %r3;": lambda a, b: a - b,
    "mul.lo.s32 %r4, %r2, %r3;": lambda a, b: a * b,
    "mul.hi.u32 %r4, %r2, %r3;": lambda a, b: a * b >> 32,
    "mul.hi.s32 %r4, %r2, %r3;": lambda a, b: s32(a) * s32(b) >> 32,
    "mul.wide.u32 %rd9, %r2, %r3;": lambda a, b: a * b,
    "mul.wide.s32 %rd9, %r2, %r3;": lambda a, b: s32(a) * s32(b),
    "mad.lo.s32 %r4, %r2, %r3, %r2;": lambda a, b: a * b + a,
    "mad.hi.s32 %r4, %r2, %r3, 5;": lambda a, b: (s32(a) * s32(b) >> 32) + 5,
    "cvt.u64.u32 %rd8, %r2; mad.wide.u32 %rd9, %r2, %r3, %rd8;": lambda a, b: a * b + a,
    "mul24.lo.s32 %r4, %r2, %r3;": lambda a, b: (s32(a << 8) >> 8) * (s32(b << 8) >> 8),
    "div.s32 %r4, %r2, %r3;": lambda a, b: trunc_div(s32(a), s32(b)),
    "div.u32 %r4, %r2, %r3;": lambda a, b: trunc_div(a, b),
    "rem.s32 %r4, %r2, %r3;": lambda a, b: s32(a) - s32(b) * trunc_div(s32(a), s32(b)) if b else a,
    "rem.u32 %r4, %r2, %r3;": lambda a, b: a % b if b else a,
    "and.b32 %r4, %r2, %r3;": lambda a, b: a & b,
    "or.b32 %r4, %r2, %r3;": lambda a, b: a | b,
    "xor.b32 %r4, %r2, %r3;": lambda a, b: a ^ b,
    "not.b32 %r4, %r2;": lambda a, b: ~a,
    "cnot.b32 %r4, %r2;": lambda a, b: int(a == 0),
    "shl.b32 %r4, %r2, %r3;": lambda a, b: a << min(b, 32),
    "shr.u32 %r4, %r2, %r3;": lambda a, b: a >> min(b, 32),
    "shr.s32 %r4, %r2, %r3;": lambda a, b: s32(a) >> min(b, 32),
    "shr.s32 %r4, %r2, 7;": lambda a, b: s32(a) >> 7,
    "shf.l.wrap.b32 %r4, %r2, %r3, 5;": lambda a, b: (b << 32 | a) << 5 >> 32,
    "shf.r.wrap.b32 %r4, %r2, %r3, %r2;": lambda a, b: (b << 32 | a) >> (a & 31),
    "shf.r.clamp.b32 %r4, %r2, %r3, %r2;": lambda a, b: (b << 32 | a) >> min(a, 32),
    "min.s32 %r4, %r2, %r3;": lambda a, b: min(s32(a), s32(b)),
    "max.u32 %r4, %r2, %r3;": lambda a, b: max(a, b),
    "abs.s32 %r4, %r2;": lambda a, b: abs(s32(a)),
    "neg.s32 %r4, %r2;": lambda a, b: -a,
    "sad.s32 %r4, %r2, %r3, %r2;": lambda a, b: abs(s32(a) - s32(b)) + a,
    "popc.b32 %r4, %r2;": lambda a, b: a.bit_count(),
    "clz.b32 %r4, %r2;": lambda a, b: 32 - a.bit_length(),
    "brev.b32 %r4, %r2;": lambda a, b: int(f"{a:032b}"[::-1], 2),
    "bfind.u32 %r4, %r2;": lambda a, b: a.bit_length() - 1,
    "bfe.u32 %r4, %r2, %r3, 9;": lambda a, b: bfe(a, b, 9, False),
    "bfe.s32 %r4, %r2, 4, %r3;": lambda a, b: bfe(a, 4, b, True),
    "bfi.b32 %r4, %r2, %r3, 8, 12;": lambda a, b: (b & ~0xFFF00) | (a & 0xFFF) << 8,
    "prmt.b32 %r4, %r2, %r3, 0x5410;": lambda a, b: prmt(a, b, 0x5410),
    "prmt.b32 %r4, %r2, %r3, %r2;": lambda a, b: prmt(a, b, a),
    "lop3.b32 %r4, %r2, %r3, 0x0F0F3355, 0xE8;": lambda a, b: (a & b) | (a & 0x0F0F3355) | (b & 0x0F0F3355),
    "lop3.b32 %r4, %r2, %r3, %r3, 0;": lambda a, b: 0,
    "dp4a.s32.s32 %r4, %r2, %r3, %r2;": lambda a, b: dot(a, b, True, True) + a,
    "dp4a.u32.s32 %r4, %r2, %r3, 0;": lambda a, b: dot(a, b, False, True),
    "selp.b32 %r4, %r2, %r3, 1;": lambda a, b: a,
    "setp.lt.s32 %p1, %r2, %r3; selp.u32 %r4, 1, 0, %p1;": lambda a, b: int(s32(a) < s32(b)),
    "setp.hi.u32 %p1, %r2, %r3; selp.u32 %r4, 1, 0, %p1;": lambda a, b: int(a > b),
    "setp.eq.s32 %p2, %r2, 1; setp.ge.or.s32 %p1|%p3, %r2, %r3, %p2; selp.u32 %r4, 1, 0, %p3;": lambda a, b: int(
        s32(a) < s32(b) or a == 1
    ),
    "set.lt.u32.s32 %r4, %r2, %r3;": lambda a, b: -int(s32(a) < s32(b)),
    "slct.b32.s32 %r4, %r2, 9, %r3;": lambda a, b: a if s32(b) >= 0 else 9,
    "cvt.u16.u32 %rs1, %r2; cvt.u32.u16 %r4, %rs1;": lambda a, b: a & 0xFFFF,
    "cvt.u16.u32 %rs1, %r2; cvt.s32.s16 %r4, %rs1;": lambda a, b: (a & 0x7FFF) - (a & 0x8000),
    "cvt.s32.s8 %r4, %r2;": lambda a, b: (a & 0x7F) - (a & 0x80),
    "cvt.sat.s8.s32 %r5, %r2; and.b32 %r4, %r5, 255;": lambda a, b: max(-128, min(127, s32(a))) & 255,
    "cvt.s64.s32 %rd9, %r2;": lambda a, b: s32(a),
    "cvt.pack.sat.s8.s32.b32 %r4, %r2, %r3, 0;": lambda a, b: (
        (max(-128, min(127, s32(a))) & 255) << 8 | max(-128, min(127, s32(b))) & 255
    ),
    "mov.b64 %rd9, {%r2, %r3};": lambda a, b: b << 32 | a,
    "mov.b64 %rd8, {%r2, %r3}; mov.b64 {%r5, %r4}, %rd8;": lambda a, b: b,
    "mov.b32 {%rs1, %rs2}, %r2; mov.b32 %r4, {%rs2, %rs1};": lambda a, b: a << 16 | a >> 16,
    "mov.b64 %rd8, {%r2, %r3}; neg.s64 %rd7, %rd8; shr.s64 %rd9, %rd7, 3;": lambda a, b: s64(-(b << 32 | a)) >> 3,
    "mov.b64 %rd8, {%r2, %r3}; mul.hi.u64 %rd9, %rd8, %rd8;": lambda a, b: (b << 32 | a) ** 2 >> 64,
    "mov.b64 %rd8, {%r2, %r3}; div.s64 %rd9, %rd8, 7;": lambda a, b: trunc_div(s64(b << 32 | a), 7),
    "mov.b64 %rd8, {%r2, %r3}; bfi.b64 %rd9, %rd8, %rd8, 32, 32;": lambda a, b: a << 32 | a,
    "cvt.u64.u32 %rd8, %r2; clz.b64 %r4, %rd8;": lambda a, b: 64 - a.bit_length(),
}


@pytest.mark.parametrize("instruction", INTEGERS)
def test_integers(instruction):
    inputs = pairs()
    mask = M64 if "%rd9" in instruction else M32
    expected = [INTEGERS[instruction](int(a), int(b)) & mask for a, b in inputs]
    assert compute(instruction, inputs) == expected


FLOATS = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        3.14159,
        1e-40,
        1e38,
        -1e38,
        65504.0,
        65520.0,
        448.0,
        500.0,
        2.0**31,
        -(2.0**31),
        math.inf,
        -math.inf,
        math.nan,
        1 + 2 ** (-23),
        16777217.0,
        300.7,
        -129.2,
    ],
    dtype=np.float32,
)


def float_pairs() -> np.ndarray:
    random = (np.random.default_rng(3).standard_normal((80, 2)) * 10).astype(np.float32)
    grid = np.array([(a, b) for a in FLOATS for b in FLOATS], dtype=np.float32)
    return np.concatenate([grid, random])


def bits32(x) -> int:
    value = np.float32(x)
    return 0x7FFFFFFF if np.isnan(value) else int(value.view(np.uint32))


def to_int(x: np.float32, how, low: int, high: int) -> int:
    if np.isnan(x):
        return 0
    return low if x <= low else high if x >= high else int(how(float(x)))


def fma(a, b, c) -> int:
    if all(np.isfinite(x) for x in (a, b, c)):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if exact:
            return bits32(_nearest32(exact))
    return bits32(np.float32(float(a) * float(b) + float(c)))


def _nearest32(exact: Fraction) -> np.float32:
    """Rounding by comparison with the neighbours of a first guess."""
    with np.errstate(over="ignore"):
        guess = np.float32(float(exact))
    if not np.isfinite(guess):
        return guess
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    near = [x for x in near if np.isfinite(x)]
    return min(near, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))


FLOAT_OPS = {
    "add.f32 %f4, %f2, %f3; mov.b32 %r4, %f4;": lambda a, b: bits32(a + b),
    "sub.rn.f32 %f4, %f2, %f3; mov.b32 %r4, %f4;": lambda a, b: bits32(a - b),
    "mul.f32 %f4, %f2, %f3; mov.b32 %r4, %f4;": lambda a, b: bits32(a * b),
    "fma.rn.f32 %f4, %f2, %f3, %f2; mov.b32 %r4, %f4;": lambda a, b: fma(a, b, a),
    "fma.rn.f32 %f4, %f2, %f3, 0f33800001; mov.b32 %r4, %f4;": lambda a, b: fma(a, b, np.uint32(0x33800001).view(np.float32)),
    "div.rn.f32 %f4, %f2, %f3; mov.b32 %r4, %f4;": lambda a, b: bits32(a / b),
    "sqrt.rn.f32 %f4, %f2; mov.b32 %r4, %f4;": lambda a, b: bits32(np.sqrt(a)),
    "neg.f32 %f4, %f2; abs.f32 %f5, %f4; mov.b32 %r4, %f5;": lambda a, b: int(a.view(np.uint32)) & 0x7FFFFFFF,
    "max.f32 %f4, %f2, %f3; mov.b32 %r4, %f4;": lambda a, b: bits32(
        max((x for x in (a, b) if not np.isnan(x)), key=lambda x: (x, not np.signbit(x)), default=np.nan)
    ),
    "min.NaN.f32 %f4, %f2, %f3; mov.b32 %r4, %f4;": lambda a, b: bits32(
        np.nan if np.isnan(a) or np.isnan(b) else min((a, b), key=lambda x: (x, not np.signbit(x)))
    ),
    "setp.lt.f32 %p1, %f2, %f3; selp.u32 %r4, 1, 0, %p1;": lambda a, b: int(a < b),
    "setp.neu.f32 %p1, %f2, %f3; selp.u32 %r4, 1, 0, %p1;": lambda a, b: int(a != b),
    "setp.ne.f32 %p1, %f2, %f3; selp.u32 %r4, 1, 0, %p1;": lambda a, b: int(a < b or a > b),
    "setp.geu.f32 %p1, %f2, %f3; selp.u32 %r4, 1, 0, %p1;": lambda a, b: int(not a < b),
    "setp.num.f32 %p1, %f2, %f3; selp.u32 %r4, 1, 0, %p1;": lambda a, b: int(not (np.isnan(a) or np.isnan(b))),
    "cvt.rzi.s32.f32 %r4, %f2;": lambda a, b: to_int(a, math.trunc, -(1 << 31), (1 << 31) - 1) & M32,
    "cvt.rni.s32.f32 %r4, %f2;": lambda a, b: to_int(a, round, -(1 << 31), (1 << 31) - 1) & M32,
    "cvt.rni.sat.s8.f32 %r5, %f2; and.b32 %r4, %r5, 255;": lambda a, b: to_int(a, round, -128, 127) & 255,
    "cvt.rzi.u32.f32 %r4, %f2;": lambda a, b: to_int(a, math.trunc, 0, M32),
    "cvt.rn.f16.f32 %rs1, %f2; cvt.u32.u16 %r4, %rs1;": lambda a, b: (
        0x7FFF if np.isnan(a) else int(a.astype(np.float16).view(np.uint16))
    ),
    "cvt.rn.f16.f32 %rs1, %f2; cvt.f32.f16 %f4, %rs1; mov.b32 %r4, %f4;": lambda a, b: bits32(a.astype(np.float16)),
    "cvt.f64.f32 %fd1, %f2; cvt.rn.f32.f64 %f4, %fd1; mov.b32 %r4, %f4;": lambda a, b: bits32(a),
    "cvt.rn.f16x2.f32 %r4, %f2, %f3;": lambda a, b: _half(a) << 16 | _half(b),
}


def _half(x: np.float32) -> int:
    return 0x7FFF if np.isnan(x) else int(x.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("instruction", FLOAT_OPS)
def test_floats(instruction):
    inputs = float_pairs()
    with np.errstate(all="ignore"):
        expected = [FLOAT_OPS[instruction](a, b) for a, b in inputs]
    assert compute(instruction, inputs) == expected


@pytest.mark.parametrize(
    "instruction, value, expected",
    [
        ("cvt.rn.f32.s32 %f4, %r2; mov.b32 %r4, %f4;", 16777217, bits32(16777216.0)),
        ("cvt.rz.f32.u32 %f4, %r2; mov.b32 %r4, %f4;", M32, 0x4F7FFFFF),
        ("cvt.rn.bf16.f32 %rs1, %f2; cvt.u32.u16 %r4, %rs1;", 0x3F808000, 0x3F80),
        ("cvt.rn.bf16x2.f32 %r4, %f2, %f2;", 0x3F818000, 0x3F823F82),
        ("cvt.rn.satfinite.e4m3x2.f32 %rs1, %f2, %f2; cvt.u32.u16 %r4, %rs1;", bits32(1000.0), 0x7E7E),
        ("cvt.rn.satfinite.e5m2x2.f32 %rs1, %f2, %f2; cvt.rn.f16x2.e5m2x2 %r4, %rs1;", bits32(3.0), 0x42004200),
        ("mov.b32 %r5, %r2; add.rn.f16x2 %r4, %r5, %r5;", 0x3C004000, 0x40004400),
        ("fma.rn.bf16x2 %r4, %r2, %r2, %r2;", 0x3F804000, 0x400040C0),
        ("add.rz.f32 %f4, %f2, 0f33000000; mov.b32 %r4, %f4;", 0x3F800000, 0x3F800000),
        ("add.rp.f32 %f4, %f2, 0f33000000; mov.b32 %r4, %f4;", 0x3F800000, 0x3F800001),
        ("mul.ftz.f32 %f4, %f2, 0f3F000000; mov.b32 %r4, %f4;", 0x00800000, 0),
        ("add.sat.f32 %f4, %f2, %f2; mov.b32 %r4, %f4;", 0x3F800000, 0x3F800000),
        ("mov.f32 %f4, %f2; mov.b32 %r4, %f4;", 0x7FA12345, 0x7FA12345),
    ],
)
def test_single_values(instruction, value, expected):
    assert compute(instruction, np.array([[value, 0]], dtype=np.uint32)) == [expected]


def test_doubles():
    data = np.array([1.5, -2.25, 1e300, 3.0])
    out, _ = run("ld.global.f64 %fd1, [%rd3]; fma.rn.f64 %fd2, %fd1, %fd1, 0d3FF0000000000000; st.global.f64 [%rd4], %fd2;",
                 threads=4, data=data)  # fmt: skip
    with np.errstate(over="ignore"):
        assert (out.view("f8") == data * data + 1).all()
