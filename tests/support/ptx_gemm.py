"""Runs a generated GEMM's PTX on the CPU, the way its C++ launcher would start it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from mmagen.emulate import Entry, GlobalMemory, Module, Report, launch


@dataclass(frozen=True)
class Launch:
    """What the launcher of a generated project knows of its Config: CTA tile, threads, bytes of shared memory."""

    tile_m: int
    tile_n: int
    threads: int
    smem_bytes: int


def gemm_params(
    m: int,
    n: int,
    k: int,
    tiles: tuple[int, int],
    operands: list[tuple[int, int, int]],
    alpha: bytes,
    beta: bytes,
    wide_d: bool,
) -> bytes:
    """GemmParams<Config>: operands are (address, leading dimension, batch stride) of A, B, C and D."""
    data = struct.pack("<iiiIIxxxx", m, n, k, *tiles)
    for operand in operands:
        data += struct.pack("<Qqq", *operand)
    data += alpha + beta + struct.pack("<?", wide_d)
    return data.ljust(-(-len(data) // 8) * 8, b"\0")


def run_gemm(
    module: Module,
    config: Launch,
    a: np.ndarray,
    b: np.ndarray,
    d_type: np.dtype | type,
    scalar: str = "<f",
    alpha: float = 1.0,
    beta: float = 0.0,
    c: np.ndarray | None = None,
    wide: bool = True,
    a_k_major: bool = True,
    b_k_major: bool = True,
    d_row_major: bool = True,
    entry: str | None = None,
    **options,
) -> tuple[np.ndarray, Report]:
    """D = alpha * A * B^T + beta * C with A (M,K) and B (N,K), as (D, report). Padding of 8 elements past each row."""
    (m, k), n = a.shape, len(b)
    memory = GlobalMemory()
    operands = []
    for name, matrix, straight in (("A", a, a_k_major), ("B", b, b_k_major)):
        stored = matrix if straight else matrix.T
        pad = 16 // matrix.itemsize
        leading = -(-stored.shape[1] // pad) * pad if wide else stored.shape[1] + 1
        buffer = np.zeros((stored.shape[0], leading), dtype=matrix.dtype)
        buffer[:, : stored.shape[1]] = stored
        operands.append((memory.allocate(name, buffer, writable=False), leading, 0))
    rows, columns = (m, n) if d_row_major else (n, m)
    item = np.dtype(d_type).itemsize
    if c is None:
        d_address = memory.allocate("D", size=rows * columns * item)
        operands += [(d_address, columns, 0), (d_address, columns, 0)]
    else:
        c_address = memory.allocate("C", np.ascontiguousarray(c if d_row_major else c.T), writable=False)
        operands += [(c_address, columns, 0), (memory.allocate("D", size=rows * columns * item), columns, 0)]
    tiles = (-(-m // config.tile_m), -(-n // config.tile_n))
    params = gemm_params(
        m, n, k, tiles, operands, struct.pack(scalar, alpha), struct.pack(scalar, beta), columns * item % 16 == 0
    )
    name = entry or find_entry(module, wide).name
    report = launch(
        module,
        name,
        grid=tiles[0] * tiles[1],
        block=config.threads,
        dynamic_smem=config.smem_bytes,
        params=params,
        memory=memory,
        **options,
    )
    d = memory.read("D", d_type).reshape(rows, columns)
    return (d if d_row_major else d.T), report


def find_entry(module: Module, wide: bool) -> Entry:
    """The entry for kWide = true or false, by its mangled template argument."""
    return next(e for name, e in module.entries.items() if f"ConfigELb{int(wide)}E" in name)
