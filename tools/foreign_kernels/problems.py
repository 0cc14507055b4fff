"""Problems of the kernels: operands in device memory, the argument of a driver, and the result that is right."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mmagen.emulate import Buffer, Device

Array = npt.NDArray[Any]

TYPES: dict[str, npt.DTypeLike] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "f32": np.float32,
    "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "s32": np.int32,
}
_GEMM = struct.Struct("<4q4Q4q2fQqQQqq")  # Gemm of driver.h
_SCALE_BLOCK = 128


@dataclass(frozen=True)
class Problem:
    """D = alpha * A * B + beta * C on small integers, whose sums are exact in every type.

    types: of A, B, C and D. layout: which mode of A, B and of C and D is contiguous, e.g. "KKN". scales: A and B have the
    powers of two of DeepGEMM as factors, of 1 x 128 and 128 x 128 elements. workspace: bytes, zeroed.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    types: tuple[str, str, str] = ("f16", "f16", "f16")
    layout: str = "KKN"
    alpha: float = 1.0
    beta: float = 0.0
    scales: bool = False
    workspace: int = 0

    @property
    def text(self) -> str:
        """E.g. "256x128x64"."""
        batch = f"x{self.batch}" if self.batch > 1 else ""
        return f"{self.m}x{self.n}x{self.k}{batch}"


@dataclass
class Operands:
    """A problem in device memory. argument: Gemm of driver.h. expected: D, [batch, M, N]. d: in memory."""

    problem: Problem
    argument: bytes
    expected: Array
    d: Buffer

    def wrong(self) -> str:
        """What is wrong with D in memory; "" if nothing is."""
        if not self.d.written().all():
            missing = int((~self.d.written()).sum())
            return f"{missing} of {self.expected.size} elements of D were not written"
        got = self.d.read()
        if self.problem.layout[2] == "M":
            got = got.transpose(0, 2, 1)
        bad = np.argwhere(got.astype(np.float64) != self.expected.astype(np.float64))
        if not len(bad):
            return ""
        at = tuple(map(int, bad[0]))
        return f"{len(bad)} of {got.size} elements differ, the first at {at}: {got[at]}, expected {self.expected[at]}"


def operands(problem: Problem, memory: Device, seed: int = 0) -> Operands:
    """Random operands of a problem in `memory`."""
    random = np.random.default_rng(seed)
    p, (a_type, b_type, d_type) = problem, problem.types
    a = random.integers(-2, 3, (p.batch, p.m, p.k)).astype(np.float64)
    b = random.integers(-2, 3, (p.batch, p.n, p.k)).astype(np.float64)
    c = random.integers(-8, 9, (p.batch, p.m, p.n)).astype(np.float64)
    a_stored = _stored(memory, "A", a, a_type, p.layout[0] == "K")
    b_stored = _stored(memory, "B", b, b_type, p.layout[1] == "K")
    c_stored = _stored(memory, "C", c, d_type, p.layout[2] == "N") if p.beta else None
    scales = [0, 0]
    if p.scales:
        blocks = -(-p.k // _SCALE_BLOCK)
        scale_a = 2.0 ** random.integers(-1, 2, (p.m, blocks))
        scale_b = 2.0 ** random.integers(-1, 2, (-(-p.n // _SCALE_BLOCK), blocks))
        # A's factors lie M contiguous, B's K contiguous (deep_gemm, sm90_fp8_gemm_1d2d).
        scales = [memory.array(np.ascontiguousarray(scale_a.T).astype(np.float32), "scales of A", read_only=True).address]
        scales += [memory.array(scale_b.astype(np.float32), "scales of B", read_only=True).address]
        a = a * np.repeat(scale_a, _SCALE_BLOCK, axis=1)[:, : p.k]
        b = b * np.repeat(np.repeat(scale_b, _SCALE_BLOCK, axis=0), _SCALE_BLOCK, axis=1)[: p.n, : p.k]
    expected = (p.alpha * np.einsum("bmk,bnk->bmn", a, b) + p.beta * c).astype(TYPES[d_type])
    shape = (p.batch, p.m, p.n) if p.layout[2] == "N" else (p.batch, p.n, p.m)
    d = memory.empty(shape, TYPES[d_type], "D")
    workspace = memory.array(np.zeros(p.workspace, np.uint8), "workspace").address if p.workspace else 0
    extents = {"M": p.m, "N": p.n, "K": p.k}
    leading = [extents[mode] for mode in p.layout]
    argument = _GEMM.pack(
        *(p.m, p.n, p.k, p.batch, a_stored.address, b_stored.address, c_stored.address if c_stored else d.address, d.address),
        *(*leading, leading[2], p.alpha, p.beta, workspace, p.workspace, *scales),
        *(ord("T" if p.layout[0] == "K" else "N"), ord("N" if p.layout[1] == "K" else "T")),
    )
    return Operands(problem, argument, expected, d)


def _stored(memory: Device, name: str, values: Array, kind: str, as_is: bool) -> Buffer:
    """values: [batch, rows, columns], kept with their columns contiguous or, unless as_is, their rows."""
    placed = values if as_is else values.transpose(0, 2, 1)
    return memory.array(np.ascontiguousarray(placed).astype(TYPES[kind]), name, read_only=True)
