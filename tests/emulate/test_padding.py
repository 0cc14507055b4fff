"""What lies between the rows of a matrix, between the matrices of a batch, and around them: nobody may access it."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from mmagen.emulate import GlobalMemory, Rows, TensorMap, launch, parse
from mmagen.verify.emulated.matrix import empty
from tests.emulate.test_tma import DONE, SETUP, WAIT, copy_out, load
from tests.support.ptx import kernel, kinds
from tests.support.ptx_hopper import text

# Four matrices of three rows of 20 bytes in lines of 32 bytes.
ROWS = Rows(0, 20, (3, 4), (32, 112))
STORE = "st.global.u32 [%rd2], %r9;"


def outcome(body, rows=ROWS, data=None, outside=""):
    """(what was written, the findings) of one thread on such matrices."""
    memory = GlobalMemory()
    given = memory.allocate("a", np.full(448, 7, np.uint8) if data is None else data, writable=False, rows=rows)
    out = memory.allocate("d", size=448, rows=rows)
    module = parse(kernel(body, outside=outside), "k.ptx")
    report = launch(module, "k", grid=1, block=1, params=struct.pack("<QQ", given, out), memory=memory)
    return memory.read_rows("d"), report.findings


@pytest.mark.parametrize(
    "body",
    [
        "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1]; ld.global.u32 %r6, [%rd1+16];",
        "ld.global.u32 %r6, [%rd1+48]; ld.global.u8 %rs1, [%rd1+83]; ld.global.u32 %r6, [%rd1+128];",
        "mov.u32 %r9, 1; st.global.u32 [%rd2+160], %r9; st.global.u32 [%rd2+352], %r9;",
        "mov.u32 %r2, 4; cp.async.ca.shared.global [smem], [%rd1+16], 16, %r2; cp.async.wait_all;",
        "mov.u32 %r2, 0; cp.async.ca.shared.global [smem], [%rd1+32], 16, %r2; cp.async.wait_all;",
    ],
)
def test_rows_may_be_accessed_to_their_last_byte(body):
    assert outcome(body, outside=".shared .align 16 .b8 smem[64];")[1] == []


@pytest.mark.parametrize(
    ("body", "place"),
    [
        # The value is never used.
        (
            "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+16];",
            "a[16], of which 12 bytes lie in padding, 0 bytes past the end of row 0",
        ),
        ("ld.global.u32 %r2, [%rd1+56];", "a[56], 4 bytes past the end of row 1 of matrix 0 (20 bytes)"),
        ("ld.global.u32 %r2, [%rd1+220];", "a[220], 24 bytes past the end of row 2 of matrix 1 (20 bytes)"),
        ("mov.u32 %r9, 1; st.global.u32 [%rd2+20], %r9;", "d[20], 0 bytes past the end of row 0 of matrix 0"),
        ("cp.async.ca.shared.global [smem], [%rd1+16], 16; cp.async.wait_all;", "12 bytes lie in padding"),
        ("mov.u32 %r2, 8; cp.async.ca.shared.global [smem], [%rd1+16], 16, %r2; cp.async.wait_all;", "a[20], 0 bytes past"),
        ("ld.global.u32 %r2, [%rd1+448];", "past the end of a"),
        ("ld.global.u32 %r2, [%rd1+-4];", "before a"),
    ],
)
def test_padding_may_not_be_accessed(body, place):
    body = f".loc 1 12 1\n{body}"
    (_, written), findings = outcome(body, outside='.shared .align 16 .b8 smem[64];\n.file 1 "include/mine.cuh"')
    assert {f.kind for f in findings} == {"global_out_of_bounds"} and place in findings[0].message
    assert (findings[0].file, findings[0].line) == ("include/mine.cuh", 12) and findings[0].ptx_line > 0
    assert not written.any()


@pytest.mark.parametrize(("kind", "isnan"), [(np.float16, True), (np.float32, True), (np.int8, False)])
def test_what_is_read_there_is_a_nan_or_not_zero(kind, isnan):
    (contents, _), findings = outcome(f"ld.global.u32 %r9, [%rd1+20]; {STORE}")
    value = contents[0, :4].view(kind)
    assert findings and (np.isnan(value).all() if isnan else (value == -1).all())


def test_contents_stay_while_memory_grows():
    """Beyond the addresses that it has at first, too; where most of an allocation is padding, that takes none."""
    memory = GlobalMemory()
    for n, rows in enumerate((None, Rows(0, 20, (2,), (1 << 26,)), None, Rows(8, 4, (3,), (1 << 34,)), None)):
        size = rows.starts()[-1] + rows.width if rows else 100
        memory.allocate(f"{n}", size=int(size), rows=rows)
        memory.store(memory.allocations[f"{n}"].address + (8 if rows else 0), bytes([n + 1]) * 4)
    for n, place in enumerate(memory.allocations.values()):
        first = 8 if 0 < n < 4 and n % 2 else 0
        assert memory.load(place.address + first, 4) == bytes([n + 1]) * 4
        (contents, written) = memory.read_rows(f"{n}")
        assert written.sum() == 4 and (contents[~written] == 0xFF).all()


def test_bytes_before_a_misaligned_matrix_are_padding():
    rows = Rows(4, 20, (3,), (32,))
    assert outcome("ld.global.u32 %r2, [%rd1+4];", rows)[1] == []
    (finding,) = outcome("ld.global.u32 %r2, [%rd1];", rows)[1]
    assert "a[0], 4 bytes before its first row" in finding.message


@pytest.mark.parametrize("contiguous", [True, False])
def test_matrices_are_poison_between_their_rows_and_batches(contiguous):
    matrix = empty("f16", 3, 5, 2, contiguous, pad=4, offset=1)
    matrix.view[...] = 1
    inner, outer = (5, 3) if contiguous else (3, 5)
    assert matrix.batch_stride > outer * matrix.ld
    assert matrix.rows_of_memory == Rows(2, 2 * inner, (outer, 2), (2 * matrix.ld, 2 * matrix.batch_stride))
    starts = matrix.rows_of_memory.starts()
    rows = (starts[:, None] + np.arange(2 * inner)).reshape(-1)
    padding = np.delete(matrix.memory, rows)
    assert (padding == 0xFF).all() and (matrix.memory[rows].view(np.float16) == 1).all()


# Two matrices of 40 rows of 64 elements, one behind the other: nothing between them is out of bounds.
SHAPE, SIZE = (2, 40, 64), 64 * 16 * 2


def copied(extents, at=(0, 0, 0), strides=(128, 5120), pad=0):
    tensor = np.zeros((2, 40, 64 + pad), np.uint16)
    memory = GlobalMemory()
    given = memory.allocate("a", tensor, writable=False, rows=Rows(0, 128, (40, 2), (128 + 2 * pad, 40 * (128 + 2 * pad))))
    out = memory.allocate("d", size=SIZE)
    params = TensorMap(given, 2, extents, strides, (64, 16, 1), 128).encode() + struct.pack("<2Q", given, out)
    ptx = parse(text(SETUP + load(SIZE, at) + WAIT + copy_out(SIZE) + DONE), "probe.ptx")
    return launch(ptx, "probe", grid=1, block=128, dynamic_smem=16384 + 64, params=params, memory=memory)


@pytest.mark.parametrize("at", [(0, 0, 0), (0, 39, 1), (48, 0, 0)])
def test_a_tensor_map_of_the_whole_matrix(at):
    assert copied((64, 40, 2), at).findings == []
    assert copied((50, 33, 1), (*at[:2], 0)).findings == []


@pytest.mark.parametrize(
    ("extents", "word"),
    [
        ((65, 40, 2), "rows of 130 bytes; those of a have 128"),
        ((64, 41, 2), "of 41 rows, 128 bytes apart; a has 40"),
        ((64, 40, 3), "of 3 matrices, 5120 bytes apart; a has 2"),
    ],
)
def test_a_tensor_map_that_is_too_large(extents, word):
    """Found with the first copy, wherever its box lies."""
    report = copied(extents)
    assert kinds(report) == {"global_out_of_bounds"} and word in report.findings[0].message


def test_a_box_over_padding():
    """Of a map with another stride, which is not made of the matrix's rows."""
    report = copied((64, 40, 1), strides=(144, 5760), pad=4)
    assert kinds(report) == {"global_out_of_bounds"} and "past the end of row 1" in report.findings[0].message


# Three rows of 16 bytes, 2^30 + 64 bytes apart, of which each thread copies one.
FAR = Rows(0, 16, (3,), ((1 << 30) + 64,))
ROW = "mov.u32 %r2, 1073741888; {multiply} add.s64 %rd6, %rd1, %rd7; add.s64 %rd8, %rd2, %rd7;"
COPY = "ld.global.u32 %r4, [%rd6]; st.global.u32 [%rd8], %r4;"


@pytest.mark.parametrize(
    ("multiply", "wraps"),
    [
        ("mul.wide.u32 %rd7, %r1, %r2;", False),
        ("mul.lo.u32 %r3, %r1, %r2; cvt.u64.u32 %rd7, %r3;", False),
        ("mul.lo.s32 %r3, %r1, %r2; cvt.s64.s32 %rd7, %r3;", True),
        ("mul.lo.u32 %r3, %r1, %r2; and.b32 %r3, %r3, 0x7fffffff; cvt.u64.u32 %rd7, %r3;", True),
    ],
)
def test_offsets_of_32_bits_are_found_in_rows_that_are_far_apart(multiply, wraps):
    memory = GlobalMemory()
    size = 2 * FAR.strides[0] + 16
    given, out = memory.allocate("a", size=size, rows=FAR), memory.allocate("d", size=size, rows=FAR)
    module = parse(
        kernel("mov.u32 %r4, %r1; " + (ROW + "st.global.u32 [%rd6], %r1;" + COPY).format(multiply=multiply)), "k.ptx"
    )
    report = launch(module, "k", grid=1, block=3, params=struct.pack("<QQ", given, out), memory=memory)
    copied = memory.read_rows("d")[0][:, :4].copy().view(np.uint32)[:, 0]
    assert kinds(report) == ({"global_out_of_bounds"} if wraps else set())
    assert copied[:2].tolist() == [0, 1] and (copied[2] == 2) != wraps
