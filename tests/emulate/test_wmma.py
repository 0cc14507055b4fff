"""wmma: loads, products and stores in every shape, type and layout, against numpy; the forms as nvcc writes them, too."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mmagen.emulate import Device, EmulationError, Output, run_ptx
from mmagen.emulate.ptx.wmma import product_of, transfer_of
from mmagen.host_runtime.compile import compile_program
from mmagen.host_runtime.program import run_program

SQUARE = [(16, 16, 16), (8, 32, 16), (32, 8, 16)]
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64}
NUMPY |= {"s8": np.int8, "u8": np.uint8, "s32": np.int32}
FORMS = [
    *((shape, ("f16", d, c)) for shape in SQUARE for d in ("f16", "f32") for c in ("f16", "f32")),
    *((shape, ("bf16", "f32", "f32")) for shape in SQUARE),
    *((shape, (kind, "s32", "s32")) for shape in SQUARE for kind in ("s8", "u8")),
    ((16, 16, 8), ("tf32", "f32", "f32")),
    ((8, 8, 4), ("f64", "f64", "f64")),
]
PADDING = 128  # elements between the lines of every matrix: 16 bytes or more in every type


def registers(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"%{prefix}{n}" for n in range(count)) + "}"


def program(shape, types, layouts, words=("", "")) -> str:
    """D = A * B + C of one warp; layouts: of A, B, C and D. words: of the product, before .sync and at the end."""
    kind, d, c = types
    size = "m{}n{}k{}".format(*shape)
    a, b = (transfer_of(("load", x, "sync", "aligned", y, size, "global", kind)) for x, y in zip("ab", layouts, strict=False))
    start = transfer_of(("load", "c", "sync", "aligned", layouts[2], size, "global", c))
    end = transfer_of(("store", "d", "sync", "aligned", layouts[3], size, "global", d))
    wide = "b64" if kind == "f64" else "b32"
    names = f"{d}.{c}" if kind == "f16" else f"{d}.{kind}.{kind}.{c}"
    counts = {"a": a, "b": b, "c": start, "d": end}
    declared = "".join(f".reg .{wide} %{x}<{one.fragment.registers}>; " for x, one in counts.items())
    return f"""
.version 8.5
.target sm_90
.address_size 64
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
  {declared} .reg .b64 %p<4>; .reg .b32 %ld;
  ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [c]; ld.param.u64 %p3, [d];
  wmma.load.a.sync.aligned.{layouts[0]}.{size}.global.{kind} {registers("a", a.fragment.registers)}, [%p0], {a.extent + PADDING};
  wmma.load.b.sync.aligned.{layouts[1]}.{size}.global.{kind} {registers("b", b.fragment.registers)}, [%p1], {b.extent + PADDING};
  mov.u32 %ld, {start.extent + PADDING};
  wmma.load.c.sync.aligned.{layouts[2]}.{size}.global.{c} {registers("c", start.fragment.registers)}, [%p2], %ld;
  wmma.mma{words[0]}.sync.aligned.{layouts[0]}.{layouts[1]}.{size}.{names}{words[1]} {registers("d", end.fragment.registers)},
    {registers("a", a.fragment.registers)}, {registers("b", b.fragment.registers)}, {registers("c", start.fragment.registers)};
  wmma.store.d.sync.aligned.{layouts[3]}.{size}.global.{d} [%p3], {registers("d", end.fragment.registers)},
    {end.extent + PADDING};
  ret;
}}
"""


def stored(matrix: np.ndarray, layout: str) -> np.ndarray:
    """As it lies in memory, with padding behind each line that is no number of the matrix."""
    lines = matrix if layout == "row" else matrix.T
    return np.pad(np.ascontiguousarray(lines), ((0, 0), (0, PADDING)), constant_values=np.array(77).astype(matrix.dtype))


def integers(rng, shape, kind) -> np.ndarray:
    low = 0 if kind == "u8" else -4
    return rng.integers(low, 5, shape).astype(NUMPY[kind])


@pytest.mark.parametrize("layouts", [("row", "col", "row", "row"), ("col", "row", "col", "row"), ("row", "row", "row", "col")])
@pytest.mark.parametrize("shape, types", FORMS)
def test_a_product_is_numpys(shape, types, layouts):
    (m, n, k), (kind, d, c) = shape, types
    rng = np.random.default_rng(7)
    a, b, start = integers(rng, (m, k), kind), integers(rng, (k, n), kind), integers(rng, (m, n), c)
    expected = a.astype(np.float64) @ b.astype(np.float64) + start.astype(np.float64)
    lines = (m, n) if layouts[3] == "row" else (n, m)
    out = np.full((lines[0], lines[1] + PADDING), 55).astype(NUMPY[d])
    given = [stored(one, layout) for one, layout in zip((a, b, start), layouts, strict=False)]
    launched = run_ptx(program(shape, types, layouts), arguments=[*given, out], grid=1, block=32)
    assert launched.ok, launched.findings
    result = launched.arrays[3]
    of_d = result[:, : lines[1]] if layouts[3] == "row" else result[:, : lines[1]].T
    assert (of_d.astype(np.float64) == expected).all()
    assert (result[:, lines[1] :].astype(np.float64) == 55).all(), "padding is not written"


@pytest.mark.parametrize("kind", ["s4", "u4", "b1.xor", "b1.and"])
def test_elements_of_less_than_a_byte(kind):
    kind, _, operation = kind.partition(".")
    bits, k = (4, 32) if kind[1] == "4" else (1, 128)
    rng = np.random.default_rng(3)
    low, high = {"s4": (-8, 8), "u4": (0, 16), "b1": (0, 2)}[kind]
    a, b = (rng.integers(low, high, (8, k)) for _ in "ab")  # b: its columns
    start = rng.integers(-9, 9, (8, 8)).astype(np.int32)

    def packed(matrix):
        lines = np.pad(matrix, ((0, 0), (0, PADDING))).astype(np.int64) & ((1 << bits) - 1)
        one = (lines[..., None] >> np.arange(bits)) & 1
        return np.packbits(one.reshape(8, -1).astype(np.uint8), axis=1, bitorder="little")

    by_bit = {"xor": lambda: (a[:, None, :] ^ b[None]).sum(-1), "and": lambda: (a[:, None, :] & b[None]).sum(-1)}
    expected = (by_bit[operation]() if operation else a @ b.T) + start
    text = program(
        (8, 8, k), (kind, "s32", "s32"), ("row", "col", "row", "row"), (f".{operation}.popc" if operation else "", "")
    )
    given = [packed(a), packed(b), stored(start, "row"), np.zeros((8, 8 + PADDING), np.int32)]
    launched = run_ptx(text, arguments=given, grid=1, block=32)
    assert launched.ok and (launched.arrays[3][:, :8] == expected).all()


def test_sums_of_integers_wrap_or_are_clamped():
    shape, types, layouts = (16, 16, 16), ("s8", "s32", "s32"), ("row", "col", "row", "row")
    ones, start = np.ones((16, 16 + PADDING), np.int8), np.full((16, 16 + PADDING), 2**31 - 1, np.int32)
    for word, expected in (("", -(2**31) + 15), (".satfinite", 2**31 - 1)):
        launched = run_ptx(program(shape, types, layouts, ("", word)), arguments=[ones, ones, start, start], grid=1, block=32)
        assert (launched.arrays[3][:, :16] == expected).all()


def test_a_product_that_is_told_another_layout_computes_something_else():
    shape, types = (16, 16, 16), ("f16", "f32", "f32")
    text = program(shape, types, ("row", "col", "row", "row")).replace("mma.sync.aligned.row", "mma.sync.aligned.col")
    a = stored(np.arange(256).reshape(16, 16).astype(np.float16), "row")
    b, start = stored(np.eye(16, dtype=np.float16), "col"), stored(np.zeros((16, 16), np.float32), "row")
    launched = run_ptx(text, arguments=[a, b, start, start], grid=1, block=32)
    assert (launched.arrays[3][:, :16] != a[:, :16]).any()


def test_wrong_addresses_and_divergence_are_found():
    text = program((16, 16, 16), ("f16", "f32", "f32"), ("row", "col", "row", "row"))
    pitch = 16 + PADDING
    a, c = np.zeros((16, pitch), np.float16), np.zeros((16, pitch), np.float32)

    def kinds(changed: str, *arguments, block: int = 32) -> set[str]:
        return {one.kind for one in run_ptx(changed, arguments=arguments, grid=1, block=block).findings}

    assert not kinds(text, a, a, c, c)
    assert "global_out_of_bounds" in kinds(text, a[:15], a, c, c)
    assert "uninitialised_global" in kinds(text, Output((16, pitch), np.float16), a, c, c)
    assert "misaligned" in kinds(text.replace("[%p0]", "[%p0+4]"), np.zeros((17, pitch), np.float16), a, c, c)
    one_lane = f"mov.u32 %ld, %tid.x; shr.u32 %ld, %ld, 4; shl.b32 %ld, %ld, 2; add.u32 %ld, %ld, {pitch};"
    other = text.replace(f"mov.u32 %ld, {pitch};", one_lane)
    assert other != text and kinds(other, a, a, np.zeros((16, pitch + 4), np.float32), c) == {"warp_divergence"}
    assert "warp_divergence" in kinds(text, a, a, c, c, block=24)


def test_threads_are_ordered_before_a_load_from_shared_memory():
    """Each thread of two warps writes a part of a matrix that both load."""
    text = """
.version 8.5
.target sm_80
.address_size 64
.visible .entry two(.param .u64 d)
{
  .shared .align 32 .b8 tile[512];
  .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .b32 %a<8>; .reg .b32 %c<8>; .reg .b32 %z;
  ld.param.u64 %rd0, [d];
  mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 3; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2;
  mov.u32 %z, 0; st.shared.v2.u32 [%r1], {%z, %z};
  bar.sync 0;
  wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, [tile];
  wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}, [tile];
  ret;
}
"""
    d = np.zeros(1, np.float32)
    assert run_ptx(text, arguments=[d], grid=1, block=64).ok
    found = run_ptx(text.replace("bar.sync 0;", ""), arguments=[d], grid=1, block=64).findings
    assert {one.kind for one in found} == {"shared_race"}


@pytest.mark.parametrize(
    "words",
    [
        "load.a.sync.aligned.row.m16n16k16.global.f32",
        "load.a.sync.aligned.row.m16n16k8.global.f16",
        "load.a.sync.aligned.col.m8n8k32.global.s4",
        "load.c.sync.aligned.row.m8n8k4.global.f32",
        "store.a.sync.aligned.row.m16n16k16.global.f16",
        "load.a.sync.aligned.row.m16n16k16.local.f16",
    ],
)
def test_transfers_that_ptx_lacks_are_refused(words):
    with pytest.raises(EmulationError, match=r"wmma\."):
        transfer_of(tuple(words.split(".")))


@pytest.mark.parametrize(
    "words",
    [
        "mma.sync.aligned.row.col.m16n16k16.f32.f64",
        "mma.sync.aligned.row.col.m16n16k16.f16.bf16.bf16.f16",
        "mma.sync.aligned.row.row.m8n8k32.s32.s4.s4.s32",
        "mma.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
        "mma.xor.popc.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32",
        "mma.sync.aligned.row.col.m16n16k16.f32.f16.satfinite",
        "mma.sync.aligned.row.col.m16n16k16.s32.s8.u8.s32",
    ],
)
def test_products_that_ptx_lacks_are_refused(words):
    with pytest.raises(EmulationError, match=r"wmma\."):
        product_of(tuple(words.split(".")))


SOURCE = r"""
#include <mma.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
using namespace nvcuda::wmma;

template <int kM, int kN, int kK, class T, class Sum, class Raw, class LayoutA, class LayoutB>
__global__ void product(Raw const* a, Raw const* b, Sum* d) {
  fragment<matrix_a, kM, kN, kK, T, LayoutA> fragment_a;
  fragment<matrix_b, kM, kN, kK, T, LayoutB> fragment_b;
  fragment<accumulator, kM, kN, kK, Sum> sums;
  fill_fragment(sums, Sum(1));
  load_matrix_sync(fragment_a, a, std::is_same_v<LayoutA, row_major> ? kK : kM);
  load_matrix_sync(fragment_b, b, std::is_same_v<LayoutB, row_major> ? kN : kK);
  for (int i = 0; i < fragment_a.num_elements; ++i) { fragment_a.x[i] = fragment_a.x[i] + fragment_a.x[i]; }
  mma_sync(sums, fragment_a, fragment_b, sums);
  store_matrix_sync(d, sums, kN, mem_row_major);
}

template <int kM, int kN, int kK, class T, class Sum, class Raw>
void all(void* a, void* b, void* d, int layouts) {
  auto const* x = static_cast<Raw const*>(a);
  auto const* y = static_cast<Raw const*>(b);
  auto* z = static_cast<Sum*>(d);
  if (layouts == 0) { product<kM, kN, kK, T, Sum, Raw, row_major, col_major><<<1, 32>>>(x, y, z); }
  if (layouts == 1) { product<kM, kN, kK, T, Sum, Raw, col_major, row_major><<<1, 32>>>(x, y, z); }
}

template <class T, class Sum>
void square(void* a, void* b, void* d, int shape, int layouts) {
  if (shape == 0) { all<16, 16, 16, T, Sum, T>(a, b, d, layouts); }
  if (shape == 1) { all<8, 32, 16, T, Sum, T>(a, b, d, layouts); }
  if (shape == 2) { all<32, 8, 16, T, Sum, T>(a, b, d, layouts); }
}

extern "C" int run(void* a, void* b, void* d, int kind, int shape, int layouts) {
  if (kind == 0) { square<__half, float>(a, b, d, shape, layouts); }
  if (kind == 1) { square<__half, __half>(a, b, d, shape, layouts); }
  if (kind == 2) { square<__nv_bfloat16, float>(a, b, d, shape, layouts); }
  if (kind == 3) { square<signed char, int>(a, b, d, shape, layouts); }
  if (kind == 4) { square<unsigned char, int>(a, b, d, shape, layouts); }
  if (kind == 5) { all<16, 16, 8, precision::tf32, float, float>(a, b, d, layouts); }
  if (kind == 6) { all<8, 8, 4, double, double, double>(a, b, d, layouts); }
  return cudaGetLastError();
}
"""
KINDS = [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("s8", "s32"), ("u8", "s32"), ("tf32", "f32"), ("f64", "f64")]


@pytest.mark.nvcc
def test_what_nvcc_makes_of_the_cpp_interface(tmp_path):
    source = tmp_path / "wmma.cu"
    source.write_text(SOURCE)
    made = compile_program([source], "sm_80", tmp_path / "made")
    rng = np.random.default_rng(11)
    for kind, (of_inputs, of_sums) in enumerate(KINDS):
        shapes = {"tf32": [(16, 16, 8)], "f64": [(8, 8, 4)]}.get(of_inputs, SQUARE)
        for number, (m, n, k) in enumerate(shapes):
            for layouts, (by_rows_a, by_rows_b) in enumerate(((True, False), (False, True))):
                a, b = integers(rng, (m, k), of_inputs), integers(rng, (k, n), of_inputs)
                device = Device()
                given = (a if by_rows_a else a.T, b if by_rows_b else b.T, np.zeros((m, n), NUMPY[of_sums]))
                buffers = [device.array(np.ascontiguousarray(one), name) for one, name in zip(given, "abd", strict=True)]
                done = run_program(made, "run", [*buffers, kind, number, layouts], memory=device)
                assert done.ok, (of_inputs, of_sums, m, n, k, done)
                expected = 2 * a.astype(np.float64) @ b.astype(np.float64) + 1
                assert (buffers[2].read().astype(np.float64) == expected).all(), (of_inputs, of_sums, m, n, k)
