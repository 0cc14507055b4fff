"""The emulator's matrix instructions against the PTX manual's formulas, tensor-layouts and plain matrix products."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from tensor_layouts import atoms_nv
from tensor_layouts.atoms import MMAAtom

from mmagen.emulate.arithmetic.fragments import fragment_a, fragment_b, fragment_c, fragment_of, positions
from mmagen.emulate.arithmetic.matrix_moves import ldmatrix, movmatrix, stmatrix
from mmagen.emulate.arithmetic.mma import BITS, Form, mma, parse
from mmagen.emulate.errors import EmulationError

WARPS = 3

# PTX ISA 9.7.14.5.2 to 9.7.14.5.13, as printed: g is groupID, t is threadID_in_group. Keys: shape, bits of an element.
MANUAL_A = {
    (8, 4, 64): lambda g, t, i: (g, t),
    (8, 16, 8): lambda g, t, i: (g, t * 4 + i),
    (8, 32, 4): lambda g, t, i: (g, t * 8 + i),
    (8, 128, 1): lambda g, t, i: (g, t * 32 + i),
    (16, 4, 32): lambda g, t, i: (g if i == 0 else g + 8, t),
    (16, 4, 64): lambda g, t, i: (g if i == 0 else g + 8, t),
    (16, 8, 16): lambda g, t, i: (g if i in (0, 1) else g + 8, t * 2 + (i & 1)),
    (16, 8, 32): lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4),
    (16, 8, 64): lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4),
    (16, 16, 16): lambda g, t, i: (g if 0 <= i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + (0 if i < 4 else 8)),
    (16, 16, 64): lambda g, t, i: (g if i % 2 == 0 else g + 8, i * 2 + t if i % 2 == 0 else i * 2 - 2 + t),
    (16, 16, 8): lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3)),
    (16, 32, 4): lambda g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7)),
    (16, 32, 8): lambda g, t, i: (g if 0 <= i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (0 if i < 8 else 16)),
    (16, 64, 4): lambda g, t, i: (g if 0 <= i < 8 or 16 <= i < 24 else g + 8, t * 8 + (i & 7) + (0 if i < 16 else 32)),
    (16, 128, 1): lambda g, t, i: (g if i < 32 else g + 8, t * 32 + (i & 31)),
    (16, 256, 1): lambda g, t, i: (
        g if 0 <= i < 32 or 64 <= i < 96 else g + 8,
        t * 32 + (i & 31) + (0 if i < 64 else 128),
    ),
}
MANUAL_B = {
    (4, 64): lambda g, t, i: (t, g),
    (16, 8): lambda g, t, i: (t * 4 + i, g),
    (128, 1): lambda g, t, i: (t * 32 + i, g),
    (4, 32): lambda g, t, i: (t, g),
    (8, 16): lambda g, t, i: (t * 2 + i, g),
    (8, 32): lambda g, t, i: (t if i == 0 else t + 4, g),
    (8, 64): lambda g, t, i: (t if i == 0 else t + 4, g),
    (16, 16): lambda g, t, i: (t * 2 + (i & 1) + (0 if i < 2 else 8), g),
    (16, 64): lambda g, t, i: (t + i * 4, g),
    (32, 4): lambda g, t, i: (t * 8 + (i & 7), g),
    (32, 8): lambda g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g),
    (64, 4): lambda g, t, i: (t * 8 + (i & 7) + (0 if i < 8 else 32), g),
    (256, 1): lambda g, t, i: (t * 32 + (i & 31) + (0 if i < 32 else 128), g),
}
MANUAL_C = {
    8: lambda g, t, i: (g, t * 2 + i),
    16: lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
}


def places(formula, count):
    return np.array([[formula(lane >> 2, lane % 4, i) for i in range(count)] for lane in range(32)])


@pytest.mark.parametrize("m, k, bits", MANUAL_A)
def test_a_lies_as_the_manual_prints(m, k, bits):
    fragment = fragment_a(m, k, bits)
    expected = places(MANUAL_A[m, k, bits], m * k // 32)
    np.testing.assert_array_equal(np.stack((fragment.row, fragment.column), -1), expected)


@pytest.mark.parametrize("k, bits", MANUAL_B)
def test_b_lies_as_the_manual_prints(k, bits):
    fragment = fragment_b(8, k, bits)
    expected = places(MANUAL_B[k, bits], 8 * k // 32)
    np.testing.assert_array_equal(np.stack((fragment.row, fragment.column), -1), expected)


@pytest.mark.parametrize("m", MANUAL_C)
def test_c_lies_as_the_manual_prints(m):
    fragment = fragment_c(m, 8, 32)
    np.testing.assert_array_equal(np.stack((fragment.row, fragment.column), -1), places(MANUAL_C[m], m * 8 // 32))


ATOMS = {
    name: atom
    for name, atom in vars(atoms_nv).items()
    if isinstance(atom, MMAAtom) and re.match(r"SM(70|75|80|89)_", name) and "mma.sync" in atom.ptx
}
# CUTLASS before 4.5, and tensor-layouts after it, have a B layout here that is not a bijection.
WRONG_B = {"SM80_16x8x32_S32S4S4S32_TN"}


@pytest.mark.parametrize("name", ATOMS)
def test_layouts_agree_with_tensor_layouts(name):
    atom = ATOMS[name]
    form = parse(tuple(atom.ptx.split(".")[1:]))
    m, n, k = atom.shape_mnk
    assert (form.m, form.n, form.k) == (m, n, k)
    lanes = [atom.thr_id(thread) for thread in range(8)] if form.matrices == 4 else range(32)
    operands = [("a", atom.a_layout, form.layouts[1], m), ("b", atom.b_layout, form.layouts[2], n)]
    for which, layout, ours, rows in [*operands, ("c", atom.c_layout, form.layouts[0], m)]:
        if which == "b" and name in WRONG_B:
            continue
        fragment = fragment_of(*ours)
        for thread, lane in enumerate(lanes):
            for i in range(fragment.count):
                row, column = int(fragment.row[lane, i]), int(fragment.column[lane, i])
                row, column = (column, row) if which == "b" else (row, column)
                assert layout(thread, i) == row + column * rows, (which, lane, i)


def dense_forms():
    majors = [f"{a}.{b}" for a in ("row", "col") for b in ("row", "col")]
    volta = [("f16", "f16"), ("f32", "f32"), ("f32", "f16")]
    forms = [f"m8n8k4.{major}.{d}.f16.f16.{c}" for major in majors for d, c in volta]
    forms += [f"m16n8k{k}.row.col.{d}.f16.f16.{d}" for k in (8, 16) for d in ("f16", "f32")]
    forms += [f"m16n8k{k}.row.col.f32.bf16.bf16.f32" for k in (8, 16)]
    forms += [f"m16n8k{k}.row.col.f32.tf32.tf32.f32" for k in (4, 8)]
    forms += [f"{s}.row.col.f64.f64.f64.f64" for s in ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16")]
    for width, shapes in ((8, ("m8n8k16", "m16n8k16", "m16n8k32")), (4, ("m8n8k32", "m16n8k32", "m16n8k64"))):
        pairs = [(f"{a}{width}", f"{b}{width}") for a in "su" for b in "su"]
        forms += [f"{s}.row.col{sat}.s32.{a}.{b}.s32" for s in shapes for a, b in pairs for sat in ("", ".satfinite")]
    single = ("m8n8k128", "m16n8k128", "m16n8k256")
    bits = [f"{shape}.row.col.s32.b1.b1.s32.{o}.popc" for shape in single for o in ("xor", "and")]
    fp8 = [(a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    forms += bits + [f"m16n8k{k}.row.col.{d}.{a}.{b}.{d}" for k in (16, 32) for a, b in fp8 for d in ("f16", "f32")]
    return [f"sync.aligned.{form}" for form in forms]


def sparse_forms():
    forms = [f"m16n8k{k}.row.col.{d}.f16.f16.{d}" for k in (16, 32) for d in ("f16", "f32")]
    forms += [f"m16n8k{k}.row.col.f32.bf16.bf16.f32" for k in (16, 32)]
    forms += [f"m16n8k{k}.row.col.f32.tf32.tf32.f32" for k in (8, 16)]
    forms += [f"m16n8k{k}.row.col{sat}.s32.s8.u8.s32" for k in (32, 64) for sat in ("", ".satfinite")]
    forms += [f"m16n8k{k}.row.col.s32.u4.s4.s32" for k in (64, 128)]
    return [f"{sp}.sync.aligned.{f}" for sp in ("sp", "sp::ordered_metadata") for f in forms] + [
        "sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32"
    ]


RANGES = {"u8": (0, 256), "s8": (-128, 128), "u4": (0, 16), "s4": (-8, 8), "b1": (0, 2), "e5m2": (-8, 9)}
CODES = {
    "f16": lambda v: v.astype(np.float16).view(np.uint16),
    "bf16": lambda v: v.astype(np.float32).view(np.uint32) >> 16,
    "tf32": lambda v: v.astype(np.float32).view(np.uint32) | 0x1ABC,  # the low 13 bits must not matter
    "f32": lambda v: v.astype(np.float32).view(np.uint32),
    "f64": lambda v: v.astype(np.float64).view(np.uint64),
    "s32": lambda v: v.astype(np.int32).view(np.uint32),
}


def codes_of(values, name):
    """Codes of small integers, written without the emulator's own conversions."""
    if name in ("e4m3", "e5m2"):
        return values.astype({"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[name]).view(np.uint8)
    return CODES[name](values) if name in CODES else values.astype(np.int64) & ((1 << BITS[name]) - 1)


def registers_of(matrices, name, layout):
    """A warp's fragment from its matrices [w, products, rows, columns], element by element."""
    fragment, codes = fragment_of(*layout), codes_of(matrices, name)
    taken = codes[:, fragment.matrix[:, None], fragment.row, fragment.column].astype(np.uint64)  # [w, lane, i]
    if fragment.bits == 64:
        return [taken[:, :, i] for i in range(fragment.count)]
    per = 32 // fragment.bits
    shifts = np.arange(per, dtype=np.uint64) * np.uint64(fragment.bits)
    words = (taken.reshape(*taken.shape[:2], -1, per) << shifts).sum(axis=-1).astype(np.uint32)
    return [np.ascontiguousarray(words[:, :, r]) for r in range(words.shape[2])]


def integers(rng, name, shape):
    low, high = RANGES.get(name, (-4, 5))
    return rng.integers(low, high, shape).astype(np.float64)


def product(form: Form, left, right, start):
    if form.operation == "xor":
        return start + (left[..., :, :, None] != right[..., None, :, :]).sum(axis=-2)
    return start + left @ right


@pytest.mark.parametrize("text", dense_forms())
def test_every_dense_form_multiplies_small_integers_exactly(text):
    form, rng = parse(tuple(text.split("."))), np.random.default_rng(len(text))
    left = integers(rng, form.types[1], (WARPS, form.matrices, form.m, form.k))
    right = integers(rng, form.types[2], (WARPS, form.matrices, form.k, form.n))
    start = rng.integers(-9, 10, (WARPS, form.matrices, form.m, form.n)).astype(np.float64)
    operands = [
        registers_of(values, name, layout)
        for values, name, layout in zip((left, right, start), form.types[1:], form.layouts[1:], strict=True)
    ]
    result = mma(tuple(text.split(".")), *operands)
    expected = registers_of(product(form, left, right, start), form.types[0], form.layouts[0])
    np.testing.assert_array_equal(np.stack(result), np.stack(expected))
    assert all(register.dtype == expected[0].dtype and register.shape == (WARPS, 32) for register in result)


def random_pattern(rng, form):
    """Which columns hold A's packed elements, and the 4-bit index of each chunk: [w, 16, K/2], [w, 16, chunks]."""
    bits = BITS[form.types[1]]
    if bits == 32:
        second = rng.integers(0, 2, (WARPS, 16, form.k // 2))
        return np.arange(form.k // 2) * 2 + second, np.where(second, 0b1110, 0b0100)
    pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
    group = 2 if bits == 4 else 1
    chosen = pairs[rng.integers(0, 6, (WARPS, 16, form.k // (4 * group)))]
    starts = (np.arange(form.k // (4 * group))[:, None] * 4 + chosen) * group
    columns = (starts[..., None] + np.arange(group)).reshape(WARPS, 16, form.k // 2)
    return columns, chosen[..., 0] | chosen[..., 1] << 2


def metadata_of(nibbles, bits, selector):
    """The metadata register, lane by lane, from the figures of PTX ISA 9.7.14.6.2; other lanes hold noise."""
    chunks = nibbles.shape[2]
    words = np.full((WARPS, 32), 0x5A5A5A5A, np.uint64)
    lanes = chunks // 4
    for group in range(8):
        for j in range(lanes):
            if bits >= 16:
                low, high = (nibbles[:, group + 8 * half, 4 * j : 4 * j + 4] for half in (0, 1))
                parts = np.concatenate((low, high), axis=1)
            else:
                parts = nibbles[:, group + 8 * (j % 2), 8 * (j // 2) : 8 * (j // 2) + 8]
            word = (parts.astype(np.uint64) << (4 * np.arange(8, dtype=np.uint64))).sum(axis=1)
            words[:, 4 * group + selector * lanes + j] = word
    return words.astype(np.uint32), lanes


@pytest.mark.parametrize("text", sparse_forms())
@pytest.mark.parametrize("last", (False, True))
def test_every_sparse_form_multiplies_small_integers_exactly(text, last):
    form, rng = parse(tuple(text.split("."))), np.random.default_rng(len(text))
    packed = integers(rng, form.types[1], (WARPS, 1, 16, form.k // 2))
    right = integers(rng, form.types[2], (WARPS, 1, form.k, 8))
    start = rng.integers(-9, 10, (WARPS, 1, 16, 8)).astype(np.float64)
    columns, nibbles = random_pattern(rng, form)
    lanes = metadata_of(nibbles, BITS[form.types[1]], 0)[1]
    selector = 4 // lanes - 1 if last else 0
    left = np.zeros((WARPS, 1, 16, form.k))
    for w, row in np.ndindex(WARPS, 16):
        left[w, 0, row, columns[w, row]] = packed[w, 0, row]
    operands = [
        registers_of(values, name, layout)
        for values, name, layout in zip((packed, right, start), form.types[1:], form.layouts[1:], strict=True)
    ]
    words = metadata_of(nibbles, BITS[form.types[1]], selector)[0]
    result = mma(tuple(text.split(".")), *operands, metadata=words, selector=selector)
    expected = registers_of(left @ right + start, form.types[0], form.layouts[0])
    np.testing.assert_array_equal(np.stack(result), np.stack(expected))


@pytest.mark.parametrize("total", ("f16", "f32"))
def test_what_the_metadata_leave_out_is_not_multiplied(total):
    """A's zeros times an infinity would be NaN; A's own zeros are multiplied."""
    words = tuple(f"sp.sync.aligned.m16n8k16.row.col.{total}.f16.f16.{total}".split("."))
    a = [np.zeros((1, 32), np.uint32) for _ in range(2)]
    b = [np.zeros((1, 32), np.uint32) for _ in range(2)]
    b[0][0, 0] = 0x7C000000  # row 1, column 0
    c = [np.zeros((1, 32), np.uint32)] * (4 if total == "f32" else 2)
    metadata = np.full((1, 32), 0xEEEEEEEE, np.uint32)  # columns 2 and 3 of each four
    metadata[0, 4] = 0x44444444  # rows 1 and 9: columns 0 and 1
    result = np.stack(mma(words, a, b, c, metadata=metadata))
    expected = np.zeros_like(result)
    expected[:: len(c) // 2, 0, 4] = 0x7FFFFFFF if total == "f32" else 0x7FFF  # rows 1 and 9, column 0
    np.testing.assert_array_equal(result, expected)


def test_satfinite_clamps_and_its_absence_wraps():
    ones = [np.full((1, 32), 0x01010101, np.uint32)] * 2
    top = [np.full((1, 32), 0x7FFFFFFF, np.uint32)] * 4
    plain = ("sync", "aligned", "m16n8k16", "row", "col", "s32", "s8", "s8", "s32")
    wrapped = mma(plain, ones, ones[:1], top)
    clamped = mma((*plain[:5], "satfinite", *plain[5:]), ones, ones[:1], top)
    assert (np.stack(wrapped) == 0x8000000F).all() and (np.stack(clamped) == 0x7FFFFFFF).all()


def test_float_sums_end_truncated_and_half_sums_to_nearest_even():
    def run(total, c_code, a_code):
        a = [np.zeros((1, 32), np.uint32) for _ in range(4)]
        a[0][0, 0] = a_code  # row 0, column 0
        b = [np.zeros((1, 32), np.uint32) for _ in range(2)]
        b[0][0, 0] = 0x3C00  # row 0, column 0: one
        count = 4 if total == "f32" else 2
        c = [np.full((1, 32), c_code, np.uint32) for _ in range(count)]
        return int(mma(("sync", "aligned", "m16n8k16", "row", "col", total, "f16", "f16", total), a, b, c)[0][0, 0])

    assert run("f32", 0x4B800000, 0x3E00) == 0x4B800000  # 2^24 + 1.5: truncated to 2^24
    assert run("f32", 0xCB800000, 0xBE00) == 0xCB800000
    assert run("f16", 0x68006800, 0x3E00) & 0xFFFF == 0x6801  # 2048 + 1.5 = 2049.5: to 2050
    assert run("f16", 0x68006800, 0x3C00) & 0xFFFF == 0x6800  # 2049: tie, to even 2048
    assert run("f32", 0x7F800000, 0xFC00) == 0x7FFFFFFF  # infinity less infinity


@pytest.mark.parametrize(
    "text",
    [
        "sync.aligned.m16n8k16.row.row.f32.f16.f16.f32",
        "sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
        "sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
        "sync.aligned.m16n8k8.row.col.f16.bf16.bf16.f16",
        "sync.aligned.m16n8k16.row.col.f32.f16.f16.f16",
        "sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32",
        "sync.aligned.m16n8k32.row.col.s32.s8.s4.s32",
        "sync.aligned.m16n8k128.row.col.s32.b1.b1.s32",
        "sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.f32.e4m3.e4m3.f32",
        "sync.aligned.m16n8k32.row.col.f32.e2m1.e4m3.f32",
        "sync.aligned.m16n8k16.row.col.f32.f16.f16",
        "sp.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        "sync.aligned.row.col.f32.f16.f16.f32",
        "sp",
    ],
)
def test_what_ptx_does_not_have_is_refused_with_its_text(text):
    with pytest.raises(EmulationError, match=re.escape(text)):
        mma(tuple(text.split(".")), [], [], [])


def test_a_wrong_number_of_registers_is_refused():
    zero = np.zeros((1, 32), np.uint32)
    with pytest.raises(EmulationError, match="b has 1 registers, not 2"):
        mma(("sync", "aligned", "m16n8k16", "row", "col", "f32", "f16", "f16", "f32"), [zero] * 4, [zero], [zero] * 4)


def test_sparse_needs_metadata_and_a_selector_in_range():
    zero = np.zeros((1, 32), np.uint32)
    words = ("sp", "sync", "aligned", "m16n8k32", "row", "col", "f32", "f16", "f16", "f32")
    with pytest.raises(EmulationError, match="metadata"):
        mma(words, [zero] * 4, [zero] * 4, [zero] * 4)
    with pytest.raises(EmulationError, match="selector is 2, not below 2"):
        mma(words, [zero] * 4, [zero] * 4, [zero] * 4, metadata=zero, selector=2)


@pytest.mark.parametrize("count", (1, 2, 4))
@pytest.mark.parametrize("trans", (False, True))
def test_ldmatrix_and_stmatrix_move_rows_where_the_manual_says(count, trans):
    rng = np.random.default_rng(count)
    shared = rng.integers(0, 256, 4096, dtype=np.uint8)
    addresses = (rng.permutation(256)[: WARPS * 32].reshape(WARPS, 32) * 16).astype(np.uint32)

    def load(at):
        return shared[at[..., None] + np.arange(16)]

    registers = ldmatrix(load, addresses, count, trans)
    for w, q, lane in np.ndindex(WARPS, count, 32):
        elements = []
        for j in range(2):
            row, column = lane // 4, 2 * (lane % 4) + j
            row, column = (column, row) if trans else (row, column)
            elements.append(shared[addresses[w, 8 * q + row] + 2 * column :][:2].view(np.uint16)[0])
        assert registers[q][w, lane] == int(elements[0]) | int(elements[1]) << 16

    written = np.zeros_like(shared)

    def store(at, data):
        written[at[..., None] + np.arange(16)] = data

    stmatrix(store, addresses, registers, trans)
    used = addresses[:, : 8 * count]
    np.testing.assert_array_equal(load(used), written[used[..., None] + np.arange(16)])
    if trans and count == 1:
        np.testing.assert_array_equal(movmatrix(registers[0]), ldmatrix(load, addresses, 1, False)[0])


@pytest.mark.parametrize("count", (0, 3, 8))
def test_other_counts_of_matrices_are_refused(count):
    zero = np.zeros((1, 32), np.uint32)
    with pytest.raises(EmulationError, match=f"ldmatrix: .x{count}"):
        ldmatrix(lambda at: at, zero, count, False)
    with pytest.raises(EmulationError, match=f"stmatrix: .x{count}"):
        stmatrix(lambda at, data: None, zero, [zero] * count, False)


def test_positions_follow_registers_then_lanes_then_bits():
    assert positions(fragment_a(16, 16, 16))[5].tolist() == [10, 11, 74, 75, 138, 139, 202, 203]
