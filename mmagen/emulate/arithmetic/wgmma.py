"""wgmma: the product of one warpgroup's operands, for many warpgroups at once, and the layout of its operands.

Sources: PTX ISA, "Asynchronous warpgroup level matrix instructions": register fragments, shared memory layout (strides,
canonical layouts), matrix descriptor format. Arithmetic is that of mma (mma.py), but 8-bit floats lose the bits that
Hopper's tensor cores do not keep (aligned.py).

Operands in shared memory are read in chunks of 16 bytes. Of a K-major operand a chunk is 16 bytes of K in one row; 8 rows
by one chunk make a core matrix, of which an instruction takes two along K. Of an MN-major operand a chunk is 16 bytes of
M or N at one k.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from mmagen.emulate.arithmetic import aligned, numerics
from mmagen.emulate.arithmetic.fragments import gather_index
from mmagen.emulate.arithmetic.mma import BITS, codes_of_sums, sparse_columns, values_of
from mmagen.emulate.arrays import Indices, Values, Words
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.memory.swizzle import CHUNK, swizzled

M = 64
WARPGROUP = 128
DEPTH_BYTES = 32  # of A; a sparse one's is what is stored of it
_SWIZZLES = {0: 16, 1: 128, 2: 64, 3: 32}
_SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"), "e5m2": ("f16", "f32")}
_SUMS |= {"s8": ("s32",), "u8": ("s32",)}
# Up to this many columns times depth BLAS uses one thread; several threads would wait for each other on busy cores.
_ONE_THREAD = 4096
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))
_BYTES = ("e4m3", "e5m2")


@dataclass(frozen=True)
class Form:
    """One wgmma.mma_async: its extents, the types of D, A and B, and whether integer sums saturate. sparse: A holds K/2
    columns, and metadata select them."""

    n: int
    k: int
    sums: str
    a: str
    b: str
    saturate: bool
    sparse: bool

    @property
    def depth_b(self) -> int:
        """Bytes of B along K."""
        return self.k * BITS[self.b] // 8

    @property
    def accumulators(self) -> int:
        """32-bit registers of D in a thread."""
        return M * self.n * BITS[self.sums] // 32 // WARPGROUP


@cache
def parse(modifiers: tuple[str, ...]) -> Form:
    """The instruction with these words after `wgmma`; raises EmulationError for one that PTX or the emulator does not have."""
    text = "wgmma." + ".".join(modifiers)
    found = next((f for f in (re.fullmatch(r"m64n(\d+)k(\d+)", word) for word in modifiers) if f), None)
    types = tuple(word for word in modifiers if word in BITS)
    rest = set(modifiers) - set(types) - {"mma_async", "sp", "sync", "aligned", "satfinite"}
    if found is None or len(types) != 3 or len(rest) != 1:
        raise EmulationError(f"{text}: not a wgmma that the emulator knows")
    n, k, sparse = int(found[1]), int(found[2]), "sp" in modifiers
    sums, a, b = types
    integer, byte = sums == "s32", {"e4m3", "e5m2"}
    legal = sums in _SUMS.get(a, ()) and k * BITS[a] == 8 * DEPTH_BYTES * (1 + sparse)
    legal &= a == b or (integer and b in ("s8", "u8")) or {a, b} <= byte
    legal &= n in _INTEGER_N if integer else 8 <= n <= 256 and n % 8 == 0
    if not legal or ("satfinite" in modifiers and not integer):
        raise EmulationError(f"{text}: PTX has no such combination of shape and types")
    return Form(n, k, sums, a, b, "satfinite" in modifiers, sparse)


# Operands in shared memory


@dataclass(frozen=True)
class Descriptor:
    """The fields of a matrix descriptor, all in bytes. swizzle: width of a line, 16 for none."""

    start: int
    leading: int
    stride: int
    swizzle: int


@cache
def descriptor(bits: int) -> Descriptor:
    """The descriptor that these 64 bits are; raises EmulationError for a base offset, which is not supported."""
    if bits >> 49 & 7:
        raise EmulationError("wgmma: matrix descriptors with a base offset are not supported")
    start, leading, stride = ((bits >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    return Descriptor(start, leading, stride, _SWIZZLES[bits >> 62])


@cache
def chunks(place: Descriptor, rows: int, element: int, mn_major: bool, depth: int = DEPTH_BYTES) -> Indices:
    """Byte addresses in shared memory of an operand's chunks: int64[rows, depth / 16], or MN-major int64[k, chunks of rows].

    rows: extent along M or N. element: bytes. depth: bytes along K.
    """
    if not mn_major:
        row, chunk = np.arange(rows)[:, None], np.arange(depth // CHUNK)[None, :]
        if place.swizzle == CHUNK:
            offset = row % 8 * CHUNK + row // 8 * place.stride + chunk * place.leading
        else:
            offset = row % 8 * place.swizzle + row // 8 * place.stride + chunk * CHUNK
    else:
        k, chunk = np.arange(depth // element)[:, None], np.arange(rows * element // CHUNK)[None, :]
        if place.swizzle == CHUNK:
            offset = k % 8 * CHUNK + k // 8 * place.leading + chunk * place.stride
        else:
            line = place.swizzle // CHUNK
            offset = k % 8 * place.swizzle + k // 8 * place.stride + chunk % line * CHUNK + chunk // line * place.leading
    return swizzled(place.start + offset, place.swizzle)


def codes_of(raw: Values, element: int, mn_major: bool) -> Values:
    """Codes [g, rows, k] from the bytes uint8[g, x, y, 16] of chunks in the order of `chunks`."""
    matrix = np.ascontiguousarray(raw).reshape(*raw.shape[:2], -1).view(f"u{element}")
    return matrix.swapaxes(1, 2) if mn_major else matrix


# Operands in registers


def fragment_codes(registers: Values, form: Form) -> Values:
    """A's codes [g, 64, k], k/2 where it is sparse, from registers uint32[g, 4 warps, 32 lanes, 4].

    Each warp has 16 rows, as mma's A.
    """
    bits = BITS[form.a]
    groups = len(registers)
    packed = np.ascontiguousarray(registers.reshape(groups * 4, 32, 4).transpose(0, 2, 1)).reshape(groups * 4, -1)
    packed = packed.view(f"u{bits // 8}")
    stored = form.k // (1 + form.sparse)
    return packed.take(gather_index("fragment_a", 16, stored, bits), axis=1).reshape(groups, M, stored)


def sums_codes(registers: Values, form: Form) -> Values:
    """D's codes [g, 64, n] from registers uint32[registers, g, 128]: in thread t of warp w, rows 16 w + t / 4, and 8
    further, two neighbouring columns from 2 (t % 4) on, in every group of 8 columns."""
    groups = registers.shape[1]
    if form.sums == "f16":
        pairs = registers.reshape(-1, 2, groups, 4, 8, 4).view(np.uint16).reshape(-1, 2, groups, 4, 8, 4, 2)
        return pairs.transpose(2, 3, 1, 4, 0, 5, 6).reshape(groups, M, form.n)
    words = registers.reshape(-1, 2, 2, groups, 4, 8, 4)
    return words.transpose(3, 4, 1, 5, 0, 6, 2).reshape(groups, M, form.n)


def sums_registers(codes: Values, form: Form) -> Values:
    """The way back: uint32[registers, g, 128] from codes [g, 64, n]."""
    groups = len(codes)
    table = codes.reshape(groups, 4, 2, 8, form.n // 8, 4, 2)  # g, warp, half, row, columns of 8, thread, pair
    if form.sums == "f16":
        words = np.ascontiguousarray(table.transpose(4, 2, 0, 1, 3, 5, 6)).view(np.uint32)
    else:
        words = np.ascontiguousarray(table.transpose(4, 2, 6, 0, 1, 3, 5))
    return words.reshape(-1, groups, WARPGROUP)


# Arithmetic


def numbers(codes: Values, name: str, sign: int) -> Values:
    """Codes as numbers, as mma's; sign: the instruction's -1 or 1."""
    values = values_of(codes, name)
    return values if sign == 1 else -values


def spread(stored: Values, form: Form, metadata: Words, selector: int) -> Values:
    """A sparse A's numbers [g, 64, k] with its zeros, from those that are stored [g, 64, k/2].

    metadata: uint32[g, 128], each warp's as mma.sp has them. Raises EmulationError for a selector that does not exist.
    """
    columns = sparse_columns(BITS[form.a], form.k, metadata.reshape(-1, 32), selector).reshape(stored.shape)
    full = np.zeros((*stored.shape[:2], form.k), stored.dtype)
    np.put_along_axis(full, columns, stored, axis=2)
    return full


def multiply(form: Form, a: Values, b: Values, start: Values | None) -> Values:
    """The codes of D [g, 64, n]. a, b: numbers [g, 64, k] and [g, n, k]; start: codes of D before, None for zeros."""
    before = None if start is None or form.sums == "s32" else numerics.to_float64(start, form.sums)
    if form.a not in _BYTES:
        return _plain(form, a, b, start, before)
    # An infinity or NaN affects only the sums of which it is an addend: rows outside the matrix may hold anything.
    finite = aligned.finite(a, b, before)
    whole = bool(finite.all())
    addends = (a, b, before) if whole else (_zeroed(a), _zeroed(b), None if before is None else _zeroed(before))
    if aligned.exact(*addends):
        return _plain(form, a, b, start, before)
    kept = aligned.sums(*addends)
    codes = aligned.codes(kept) if form.sums == "f32" else codes_of_sums(kept, form.sums)
    return codes if whole else np.where(finite, codes, _plain(form, a, b, start, before))


def _zeroed(values: Values) -> Values:
    """`values`, with 0 in place of infinities and NaN."""
    return np.where(np.isfinite(values), values, 0.0)


def _plain(form: Form, a: Values, b: Values, start: Values | None, before: Values | None) -> Values:
    """The codes of D, computed without dropping bits of addends. before: `start` as numbers, None for s32."""
    with np.errstate(invalid="ignore"):
        parts = [np.matmul(a, part.swapaxes(1, 2)) for part in np.array_split(b, -(-form.n * form.k // _ONE_THREAD), axis=1)]
        total = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)
        if form.sums == "s32":
            total = total.astype(np.int64) + (0 if start is None else start.view(np.int32))
        elif before is not None:
            total = total + before
    return codes_of_sums(total, form.sums, form.saturate)
