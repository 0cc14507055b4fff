"""Forms in which a warp works as one: mma, mma.sp, ldmatrix, stmatrix, movmatrix; and cp.async."""

from __future__ import annotations

import re

import numpy as np

from tests.support.ptx_forms import WARP, Form, f32_codes, seeded

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s32": 32, "e4m3": 8, "e5m2": 8}
BITS |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
FLOATS = ("f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2")
_SMALL_BYTES = {"e4m3": [0, 0x38, 0x40, 0x44, 0x48], "e5m2": [0, 0x3C, 0x40, 0x42, 0x44]}
_SPECIAL = {
    "f16": [0x7C00, 0xFC00, 0x7E01, 1, 0x83FF, 0x7BFF],
    "bf16": [0x7F80, 0xFF80, 0x7FC1, 1, 0x807F, 0x7F7F],
    "tf32": [0x7F800000, 0xFF800000, 0x7FC00001, 0x2000, 0x807FE000, 0x7F7FFFFF],
    "f32": [0x7F800000, 0xFF800000, 0x7FC00001, 1, 0x807FFFFF, 0x7F7FFFFF],
    "f64": [0x7FF << 52, 0xFFF << 52, 0x7FF8000000000001, 1, 1 << 63, (0x7FF << 52) - 1],
    "e4m3": [0x7F, 0xFF, 0x7E, 1, 0x87, 0x80],
    "e5m2": [0x7C, 0xFC, 0x7D, 1, 0x83, 0x7B],
}
_PAIRS = np.array([0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110], np.uint64)
"""Chunks of sparsity metadata: two different places, the lower one first (PTX ISA 9.7.14.6.1)."""


def elements(kind: str, mode: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Codes of matrix elements, uint64.

    mode: small (integers up to 4, whose sums are exact), normal, wide (exponents from -12 to 12), special (normal, with
    one in 64 an infinity, a NaN, a subnormal number or the largest one). Integers: small, or their whole range.
    """
    small = mode == "small" and kind != "b1"
    if kind not in FLOATS:
        values = rng.integers(-4, 5, shape) if small else rng.integers(0, 2**62, shape)
        if kind[0] == "u" and small:
            values = np.abs(values)
        return values.astype(np.uint64) & np.uint64(2 ** BITS[kind] - 1)
    if kind in _SMALL_BYTES:
        signs = rng.integers(0, 2, shape) << 7
        finite = 0x77 if kind == "e4m3" else 0x60
        codes = np.array(_SMALL_BYTES[kind])[rng.integers(0, 5, shape)] if small else rng.integers(0, finite, shape)
        codes = (codes | signs).astype(np.uint64)
    else:
        scale = 2.0 ** rng.integers(-12, 13, shape) if mode == "wide" else 1.0
        codes = _codes(rng.integers(-4, 5, shape) if small else rng.standard_normal(shape) * scale, kind)
    if mode == "special":
        chosen = rng.integers(0, 64, shape) == 0
        codes = np.where(chosen, rng.choice(np.array(_SPECIAL[kind], np.uint64), shape), codes)
    return codes


def _codes(values: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f64":
        return values.astype(np.float64).view(np.uint64)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint64)
    return (f32_codes(values) >> (16 if kind == "bf16" else 0)).astype(np.uint64)


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Registers from elements [threads, count]: [threads, registers], uint64, low elements in low bits."""
    per = max(1, 32 // bits)
    shifts = np.arange(per, dtype=np.uint64) * np.uint64(bits)
    return (codes.reshape(len(codes), -1, per) << shifts).sum(axis=2, dtype=np.uint64)


def mma_form(opcode: str, target: int, version: str = "8.0", selector: int = 0) -> Form:
    """An mma or mma.sp instruction on random fragments: a few warps, each with inputs of another character."""
    sparse = opcode.startswith("mma.sp")
    m, n, k = (int(size) for size in re.search(r"m(\d+)n(\d+)k(\d+)", opcode).groups())
    types = [word for word in opcode.split(".") if word in BITS]
    volta = (m, n, k) == (8, 8, 4) and types[1] == "f16"
    sizes = (m * n, m * k // (2 if sparse else 1), k * n, m * n)
    per_thread = [8, 4, 4, 8] if volta else [size // WARP for size in sizes]
    counts = [count * BITS[kind] // max(32, BITS[kind]) for count, kind in zip(per_thread, types, strict=True)]
    modes = ("small", "normal", "wide", "special") if types[1] in FLOATS else ("small", "normal")
    name = f"{opcode} selector {selector}" if sparse else opcode
    rng, parts = seeded(name), []
    for mode in modes:
        operands = [
            packed(elements(kind, mode, (WARP, count), rng), BITS[kind])
            for kind, count in zip(types[1:], per_thread[1:], strict=True)
        ]
        if sparse:
            operands.append(_metadata(types[1], rng))
        parts.append(np.concatenate(operands, axis=1))
    registers = [_register(kind) for kind in types]
    inputs = [r for r, count in zip(registers[1:], counts[1:], strict=True) for _ in range(count)]
    data = np.concatenate(parts)
    return Form(
        name,
        _mma_body(opcode, counts, sparse, selector),
        (*inputs, *(["b32"] if sparse else [])),
        (registers[0],) * counts[0],
        data if "f64" in types else data.astype(np.uint32),
        target,
        version,
        opcode=opcode,
        counts=tuple(counts),
        selector=selector,
        exact_warps=(0,) if types[1] in FLOATS else None,
    )


def _register(kind: str) -> str:
    return kind if kind in ("f32", "f64") else "b32"


def _metadata(kind: str, rng: np.random.Generator) -> np.ndarray:
    choices = np.array([0b0100, 0b1110], np.uint64) if kind == "tf32" else _PAIRS
    return packed(choices[rng.integers(0, len(choices), (WARP, 8))], 4)


def _mma_body(opcode: str, counts: list[int], sparse: bool, selector: int) -> str:
    starts = np.cumsum([0, *counts[1:]])
    results = ", ".join(f"%o{r}" for r in range(counts[0]))
    operands = ["{" + ", ".join(f"%i{s + r}" for r in range(c)) + "}" for s, c in zip(starts, counts[1:], strict=False)]
    tail = f", %i{starts[-1]}, {selector}" if sparse else ""
    return f"{opcode} {{{results}}}, {', '.join(operands)}{tail};"


def _dense() -> list[Form]:
    majors = [f"{a}.{b}" for a in ("row", "col") for b in ("row", "col")]
    sums = ("f16.f16.f16.f16", "f32.f16.f16.f32", "f32.f16.f16.f16")
    forms = [(f"m8n8k4.{major}.{types}", 70) for major in majors for types in sums]
    forms += [(f"m16n8k8.row.col.{d}.f16.f16.{d}", 75) for d in ("f16", "f32")]
    forms += [(f"m16n8k16.row.col.{d}.f16.f16.{d}", 80) for d in ("f16", "f32")]
    forms += [(f"m16n8k{k}.row.col.f32.bf16.bf16.f32", 80) for k in (8, 16)]
    forms += [(f"m16n8k{k}.row.col.f32.tf32.tf32.f32", 80) for k in (4, 8)]
    forms += [("m8n8k4.row.col.f64.f64.f64.f64", 80)]
    forms += [(f"m16n8k{k}.row.col.f64.f64.f64.f64", 90) for k in (4, 8, 16)]
    forms += [(f"m8n8k16.row.col{s}.s32.{t}8.s8.s32", 75) for s in ("", ".satfinite") for t in "su"]
    forms += [(f"m16n8k16.row.col.s32.{t}8.u8.s32", 80) for t in "su"]
    forms += [(f"m16n8k32.row.col{s}.s32.{a}8.{b}8.s32", 80) for s in ("", ".satfinite") for a in "su" for b in "su"]
    forms += [(f"m8n8k32.row.col.s32.{t}4.s4.s32", 75) for t in "su"]
    forms += [(f"m16n8k{k}.row.col.s32.{a}4.{b}4.s32", 80) for k in (32, 64) for a, b in ("ss", "us")]
    forms += [("m8n8k128.row.col.s32.b1.b1.s32.xor.popc", 75)]
    forms += [(f"m16n8k{k}.row.col.s32.b1.b1.s32.{o}.popc", 80) for k in (128, 256) for o in ("xor", "and")]
    made = [mma_form(f"mma.sync.aligned.{words}", target) for words, target in forms]
    eights = [(a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    wide = [mma_form(f"mma.sync.aligned.m16n8k32.row.col.f32.{a}.{b}.f32", 89, "8.4") for a, b in eights]
    late = [f"m16n8k32.row.col.f16.{a}.{a}.f16" for a in ("e4m3", "e5m2")]
    late += [f"m16n8k16.row.col.{d}.e4m3.e5m2.{d}" for d in ("f16", "f32")]
    return [*made, *wide, *(mma_form(f"mma.sync.aligned.{words}", 89, "8.7") for words in late)]


def _sparse() -> list[Form]:
    quarter = [f"m16n8k16.row.col.{d}.f16.f16.{d}" for d in ("f16", "f32")]
    quarter += ["m16n8k16.row.col.f32.bf16.bf16.f32", "m16n8k8.row.col.f32.tf32.tf32.f32"]
    half = [f"m16n8k32.row.col.{d}.f16.f16.{d}" for d in ("f16", "f32")]
    half += ["m16n8k32.row.col.f32.bf16.bf16.f32", "m16n8k16.row.col.f32.tf32.tf32.f32"]
    half += ["m16n8k32.row.col.satfinite.s32.s8.u8.s32", "m16n8k64.row.col.s32.s4.u4.s32"]
    whole = ["m16n8k64.row.col.s32.u8.s8.s32", "m16n8k128.row.col.s32.u4.s4.s32"]
    groups = ((quarter, (0, 1, 3)), (half, (0, 1)), (whole, (0,)))
    forms = [(words, selector) for group, selectors in groups for words in group for selector in selectors]
    plain = [mma_form(f"mma.sp.sync.aligned.{words}", 80, selector=selector) for words, selector in forms]
    ordered = [f"mma.sp::ordered_metadata.sync.aligned.{group[-1]}" for group in (quarter, half, whole)]
    made = [*plain, *(mma_form(opcode, 80, "8.5") for opcode in ordered)]
    return [*made, mma_form("mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32", 89, "8.4")]


def matrix_forms() -> list[Form]:
    """mma and mma.sp."""
    return [*_dense(), *_sparse()]


_PLACE = "mov.u32 %t0, room;\nmad.lo.s32 %t1, %lane, 16, %t0;\n"
_FILL = "st.shared.v4.b32 [%t1], {%i0, %i1, %i2, %i3};\nbar.sync 0;\nadd.s32 %t2, %t0, %i4;\n"
_CLEAR = "mov.u32 %t3, 0;\nst.shared.v4.b32 [%t1], {%t3, %t3, %t3, %t3};\nbar.sync 0;\nadd.s32 %t2, %t0, %i4;\n"
_READ = "ld.shared.v4.b32 {%o0, %o1, %o2, %o3}, [%t1];"


def _rows(name: str, warps: int) -> np.ndarray:
    """Sixteen random bytes a thread, and a row of the warp's 512 bytes, each row once: [threads, 5]."""
    rng = seeded(name)
    words = rng.integers(0, 2**32, (warps * WARP, 4), dtype=np.uint64)
    rows = np.concatenate([rng.permutation(WARP) * 16 for _ in range(warps)]).astype(np.uint64)
    return np.concatenate((words, rows[:, None]), axis=1).astype(np.uint32)


def _shared_form(opcode: str, count: int, body: str, outputs: int, target: int) -> Form:
    return Form(
        opcode,
        _PLACE + body,
        ("b32",) * 5,
        ("b32",) * outputs,
        _rows(opcode, 2),
        target,
        shared=512,
        opcode=opcode,
        counts=(count,),
    )


def memory_forms() -> list[Form]:
    """ldmatrix, stmatrix, movmatrix and cp.async with and without a source size."""
    forms = []
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            words = f"sync.aligned.m8n8.x{count}{trans}.shared.b16"
            results, sources = ("{" + ", ".join(f"%{letter}{r}" for r in range(count)) + "}" for letter in "oi")
            loading = f"{_FILL}ldmatrix.{words} {results}, [%t2];"
            forms.append(_shared_form(f"ldmatrix.{words}", count, loading, count, 75))
            storing = f"{_CLEAR}stmatrix.{words} [%t2], {sources};\nbar.sync 0;\n{_READ}"
            forms.append(_shared_form(f"stmatrix.{words}", count, storing, 4, 90))
    opcode = "movmatrix.sync.aligned.m8n8.trans.b16"
    data = _rows(opcode, 2)[:, :1]
    forms.append(Form(opcode, f"{opcode} %o0, %i0;", ("b32",), ("b32",), data, 75, opcode=opcode, counts=(1,)))
    return [*forms, *_copies()]


def _copies() -> list[Form]:
    forms = []
    poison = "mov.u32 %t3, 0xAAAAAAAA;\nst.shared.v4.b32 [%t1], {%t3, %t3, %t3, %t3};\n"
    for kind, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        for partial in (False, True):
            opcode = f"cp.async.{kind}.shared.global"
            name = f"{opcode} {size}" + (" src-size" if partial else "")
            data = _rows(name, 2)
            data[:, 4] = seeded(name).integers(0, size + 1, len(data))
            copying = f"{opcode} [%t1], [%in], {size}{', %i4' if partial else ''};\n"
            body = f"{_PLACE}{poison}{copying}cp.async.commit_group;\ncp.async.wait_group 0;\n{_READ}"
            forms.append(Form(name, body, ("b32",) * 5, ("b32",) * 4, data, shared=512))
    return forms
