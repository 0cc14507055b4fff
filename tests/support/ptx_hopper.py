"""Small sm_90a kernels for the emulator, and shared-memory images as the PTX ISA and the CUDA manuals draw them.

Everything here is computed from the documents, element by element; nothing comes from the emulator.
"""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np

from mmagen import emulate
from mmagen.emulate import TensorMap

HEAD = """.version 8.6
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry probe(.param .align 128 .b8 maps[{maps}], .param .u64 input, .param .u64 output)
{{
    .reg .pred %p, %q, %lead;
    .reg .b16 %h<8>;
    .reg .b32 %r<32>, %tid, %warp, %lane, %rank, %base, %bar;
    .reg .b64 %rd<16>, %in, %out, %map;
{registers}
    ld.param.u64 %in, [input];
    ld.param.u64 %out, [output];
    mov.b64 %map, maps;
    cvta.param.u64 %map, %map;
    mov.u32 %tid, %tid.x;
    shr.u32 %warp, %tid, 5;
    and.b32 %lane, %tid, 31;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %base, smem;
    setp.eq.u32 %lead, %tid, 0;
{body}
    ret;
}}
"""
TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
    "f32": np.float32,
    "s32": np.int32,
}


def text(body: str, registers: str = "", maps: int = 1) -> str:
    """A kernel whose parameters are tensor maps, an input and an output."""
    return HEAD.format(body=body, registers=registers, maps=128 * maps)


def run(
    ptx: str,
    data: np.ndarray,
    out_bytes: int,
    *,
    maps: tuple = (),
    block: int = 128,
    grid: int = 1,
    cluster: int = 1,
    smem: int = 1024,
    filled: bool = False,
    overlaps: bool = False,
) -> tuple[np.ndarray, emulate.Report]:
    """(the output's bytes, what was seen). maps: from (address of the input, of the output) to the TensorMaps."""
    memory = emulate.GlobalMemory()
    given = memory.allocate("input", data, writable=False)
    out = memory.allocate("output", np.zeros(out_bytes, np.uint8)) if filled else memory.allocate("output", size=out_bytes)
    made: list[TensorMap] = [make(given, out) for make in maps]
    head = b"".join(map_.encode() for map_ in made) or bytes(128)
    params = head + struct.pack("<2Q", given, out)
    module = emulate.parse(ptx, "probe.ptx")
    report = emulate.launch(
        module, "probe", grid=grid, block=block, cluster=cluster, dynamic_smem=smem, params=params, memory=memory,
        step_limit=20_000, overlaps=overlaps,
    )  # fmt: skip
    return memory.read("output"), report


def copy_in(bytes_: int, threads: int = 128) -> str:
    """Lines that copy the input to the begin of shared memory, and make it known to the asynchronous proxy."""
    lines = []
    for start in range(0, bytes_, 16 * threads):
        lines += [
            f"    mad.lo.u32 %r0, %tid, 16, {start};",
            f"    setp.lt.u32 %p, %r0, {bytes_};",
            "    cvt.u64.u32 %rd0, %r0;",
            "    add.u64 %rd1, %in, %rd0;",
            "    add.u32 %r1, %base, %r0;",
            "    @%p ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];",
            "    @%p st.shared.v4.u32 [%r1], {%r2, %r3, %r4, %r5};",
        ]
    return "\n".join([*lines, "    fence.proxy.async.shared::cta;", "    bar.sync 0;"])


# Images of operands


def turned(line: int, chunk: int, swizzle: int) -> int:
    """Which 16-byte chunk of its line holds a chunk: figures of the CUDA programming guide's "swizzle modes"."""
    return {16: chunk, 32: chunk ^ (line // 4 % 2), 64: chunk ^ (line // 2 % 4), 128: chunk ^ (line % 8)}[swizzle]


def k_major(matrix: np.ndarray, swizzle: int, leading: int = 128, stride: int = 0) -> np.ndarray:
    """uint8: rows of K in lines as wide as the swizzle, eight of them an atom, atoms one after another. Without swizzle:
    core matrices of 8 rows by 16 bytes, `leading` bytes apart along K and `stride` along the rows."""
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(len(matrix), -1)
    room = np.full(max(raw.size, 1 << 16), 0x77, np.uint8)
    for row in range(len(raw)):
        for chunk in range(raw.shape[1] // 16):
            if swizzle == 16:
                at = row // 8 * stride + chunk * leading + row % 8 * 16
            else:
                at = row * swizzle + turned(row, chunk, swizzle) * 16
            room[at : at + 16] = raw[row, chunk * 16 : chunk * 16 + 16]
    return room


def mn_major(matrix: np.ndarray, swizzle: int, leading: int, stride: int) -> np.ndarray:
    """uint8: for each k a line of rows. Atoms of 8 k by a swizzle's width, `leading` bytes apart along the rows and
    `stride` along K; without swizzle, atoms of 8 k by 16 bytes, `stride` apart along the rows and `leading` along K."""
    raw = np.ascontiguousarray(matrix.T).view(np.uint8).reshape(matrix.shape[1], -1)
    room = np.full(1 << 16, 0x77, np.uint8)
    line = swizzle // 16
    for k in range(len(raw)):
        for chunk in range(raw.shape[1] // 16):
            if swizzle == 16:
                at = chunk * stride + k // 8 * leading + k % 8 * 16
            else:
                at = chunk // line * leading + k // 8 * stride + k % 8 * swizzle + turned(k, chunk % line, swizzle) * 16
            room[at : at + 16] = raw[k, chunk * 16 : chunk * 16 + 16]
    return room


def descriptor(start: int, leading: int, stride: int, swizzle: int) -> int:
    """The 64 bits: PTX ISA, "matrix descriptor format"."""
    mode = {16: 0, 128: 1, 64: 2, 32: 3}[swizzle]
    return (start >> 4) | (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62


def sums_of(registers: np.ndarray, n: int) -> np.ndarray:
    """D (64, n) from its elements [128 threads, n / 2]: PTX ISA, "register fragments and shared memory matrix layouts"."""
    d = np.zeros((64, n), registers.dtype)
    for thread in range(128):
        for i in range(n // 2):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
            d[row, i // 4 * 8 + thread % 4 * 2 + i % 2] = registers[thread, i]
    return d


def fragment_of(a: np.ndarray) -> np.ndarray:
    """uint32[128 threads, 4]: A (64, k) in registers, the same pages."""
    per = 4 // a.itemsize
    out = np.zeros((128, 4 * per), a.dtype)
    for thread in range(128):
        for i in range(4 * per):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // per % 2)
            out[thread, i] = a[row, thread % 4 * per + i % per + 4 * per * (i // (2 * per))]
    return out.view(np.uint32)
